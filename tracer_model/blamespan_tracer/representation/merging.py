"""Original steps into decisions: each thing that an agent says or does, with what tools answered to it.

What a tool or executor answers belongs to the step that asked: it is no decision, and after it a new one begins. What
people and executors say in a row is one step. What an agent says in a row is one step only where *turns* are asked for,
as for a language model to read: what is wrong may stand in one message of several, and which (decision 037).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from blamespan.trace import MessageActionTrace, Step

__all__ = ["MergedStep", "merge"]


@dataclass(slots=True)
class MergedStep:
    """One decision, or what somebody who cannot be blamed said.

    Attributes:
        agent: Who.
        can_be_blamed: Whether it is a decision of an agent.
        said: Original steps it is made of, ascending, at least one; a decision has one but for turns.
        results: Tools' answers to it, ascending.
    """

    agent: str
    can_be_blamed: bool
    said: list[Step]
    results: list[Step] = field(default_factory=list)


def merge(trace: MessageActionTrace, *, turns: bool = False) -> tuple[list[MergedStep], list[int]]:
    """Merge a run's steps.

    Args:
        trace: The run.
        turns: Whether what an agent says before it hears anything new is one step, unless it alone decides in the run:
            there nothing would be left to tell apart.

    Returns:
        The merged steps in order, and for each original step which merged one it belongs to.
    """
    deciding = {step.agent for step in trace.steps if trace.can_be_blamed(step)}
    merged: list[MergedStep] = []
    owner: list[int] = []
    for step in trace.steps:
        if step.kind == "tool_result" and merged:
            owner.append(_asker(step, merged, owner))
            merged[owner[-1]].results.append(step)
            continue
        can_be_blamed = trace.can_be_blamed(step)
        is_apart = can_be_blamed and (not turns or len(deciding) == 1)
        if is_apart or not (merged and _goes_on(step, merged[-1], can_be_blamed=can_be_blamed)):
            merged.append(MergedStep(step.agent, can_be_blamed, [step]))
        else:
            merged[-1].said.append(step)
        owner.append(len(merged) - 1)
    return merged, owner


def _asker(result: Step, merged: list[MergedStep], owner: list[int]) -> int:
    """Find who asked: the step that the result names, or else the one before it."""
    return owner[result.inputs[-1]] if result.inputs else len(merged) - 1


def _goes_on(step: Step, last: MergedStep, *, can_be_blamed: bool) -> bool:
    return (
        step.agent == last.agent
        and can_be_blamed == last.can_be_blamed
        and step.kind not in ("tool_result", "tool_call")
        and last.said[-1].kind != "tool_call"
        and last.said[-1].index == step.index - 1
    )
