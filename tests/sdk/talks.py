"""Runs in which agents speak in turn, each building on the one before: for whatever shows or keeps runs."""

from __future__ import annotations

from collections.abc import Sequence

from blamespan.trace import Agent, MessageActionTrace, Outcome, Step, Usage

NOW_NS = 1_790_000_000 * 10**9


def talk(
    number: int,
    contents: Sequence[str] = ("Find it.", "12 * 3 = 35", "Checked, that is right."),
    *,
    task: str = "What is 12 * 3?",
    agents: Sequence[str] = ("planner", "solver", "reviewer"),
    outcome: Outcome = "failed",
) -> MessageActionTrace:
    """Make a run in which each step takes a second.

    Args:
        number: Its trace id, and the minute after `NOW_NS` in which it starts.
        contents: What is said, step by step.
        task: What was asked.
        agents: Who speaks, in turn.
        outcome: How it ended.
    """
    start_ns = NOW_NS + (number & 0xFFFFFF) * 60 * 10**9
    return MessageActionTrace(
        trace_id=f"{number:032x}",
        task=task,
        steps=tuple(
            Step(
                index,
                f"{(number & 0xFFFFFF) * 100_000 + index + 1:016x}",
                agents[index % len(agents)],
                content=content,
                inputs=(index - 1,) if index else (),
                start_ns=start_ns + index * 10**9,
                end_ns=start_ns + (index + 1) * 10**9,
                usage=Usage(1_200, 30),
            )
            for index, content in enumerate(contents)
        ),
        agents=tuple(Agent(name) for name in dict.fromkeys(agents)),
        outcome=outcome,
        resource={"service.name": "team"},
    )
