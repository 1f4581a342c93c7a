"""Small runs in which instructions disagree; every word in them is made up here."""

from __future__ import annotations

from collections.abc import Sequence

from blamespan.conventions import STEP_INSTRUCTIONS, TOOL_NAME
from blamespan.trace import Agent, AgentRole, MessageActionTrace, Step, StepKind


def step(
    index: int, agent: str, content: str, kind: StepKind = "message", *, system: str = "", given: str = ""
) -> Step:
    """A step whose agent has the instructions *system*, and was given a text beside them."""
    attributes = {STEP_INSTRUCTIONS: (0, len(system))} if system else {}
    if kind == "tool_call":
        attributes = {**attributes, TOOL_NAME: content.partition("(")[0]}  # type: ignore[dict-item]  # texts beside numbers
    text = "\n\n".join(part for part in (system, given) if part)
    inputs = (index - 1,) if kind == "tool_result" else ()
    return Step(index, f"{index + 1:016x}", agent, kind, content, inputs=inputs, attributes=attributes, input_text=text)


def run(task: str, *steps: Step, roles: Sequence[tuple[str, AgentRole]] = ()) -> MessageActionTrace:
    """A run of all who speak."""
    known = dict(roles)
    agents = tuple(Agent(name, known.get(name, "agent")) for name in dict.fromkeys(one.agent for one in steps))
    return MessageActionTrace(f"{7:032x}", task, steps, agents)
