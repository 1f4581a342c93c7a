"""Original steps into decisions: each thing that an agent says or does, with what tools answered to it.

Also the tool calls.

What a tool or executor answers belongs to the step that asked: it is no decision, and after it a new one begins. What
people and executors say in a row is one step. What an agent says in a row is one step only where *turns* are asked for,
as for a language model to read: what is wrong may stand in one message of several, and which (decision 037).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.alternatives.network.representation.reading import Ints, Reading

_ROUTINE = 3
"""Calls of a tool from which on what all of them say is routine; of two calls, only what nobody else says."""


@dataclass(slots=True)
class MergedStep:
    """One decision, or what somebody who cannot be blamed said.

    Attributes:
        agent: Who.
        can_be_blamed: Whether it is a decision of an agent.
        origins: Original steps it is made of, ascending, at least one; a decision has one but for turns.
        results: Tools' answers to it, ascending.
    """

    agent: str
    can_be_blamed: bool
    origins: list[Step]
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
            owner.append(owner[step.inputs[-1]] if step.inputs else len(merged) - 1)
            merged[owner[-1]].results.append(step)
            continue
        can_be_blamed = trace.can_be_blamed(step)
        is_apart = can_be_blamed and (not turns or len(deciding) == 1)
        if is_apart or not (merged and _goes_on(step, merged[-1], can_be_blamed=can_be_blamed)):
            merged.append(MergedStep(step.agent, can_be_blamed, [step]))
        else:
            merged[-1].origins.append(step)
        owner.append(len(merged) - 1)
    return merged, owner


def _goes_on(step: Step, last: MergedStep, *, can_be_blamed: bool) -> bool:
    return (
        step.agent == last.agent
        and can_be_blamed == last.can_be_blamed
        and step.kind not in ("tool_result", "tool_call")
        and last.origins[-1].kind != "tool_call"
        and last.origins[-1].index == step.index - 1
    )


@dataclass(frozen=True, slots=True)
class Call:
    """One call and what came of it: segments, -1 where no result came."""

    segment: int
    result: int
    tool: tuple[str, str]
    text: str


def list_calls(trace: MessageActionTrace) -> list[Call]:
    """List the calls in order; the segment of a step is its index and one, as the task comes first."""
    result_of = {step.inputs[-1]: step.index for step in trace.steps if step.kind == "tool_result" and step.inputs}
    return [
        Call(
            step.index + 1,
            result_of.get(step.index, -2) + 1,
            (step.agent, step.content.partition("(")[0]),
            step.content.strip(),
        )
        for step in trace.steps
        if step.kind == "tool_call"
    ]


def list_routine_words(calls: Sequence[Call], reading: Reading) -> Ints:
    """List what every call of a tool says, its name and its arguments' names: nothing that a call is about.

    Returns:
        Ascending, a segment's number times the number of distinct tokens, plus a token that is routine there.
    """
    by_tool: dict[str, list[int]] = defaultdict(list)
    for call in calls:
        by_tool[call.tool[1]].append(call.segment)
    n_tokens = len(reading.tokens)
    in_call = np.isin(reading.segment, [call.segment for call in calls])
    is_spoken = np.zeros(n_tokens + 1, np.bool_)
    is_spoken[reading.token[~in_call]] = True
    routine = []
    for segments in by_tool.values():
        ends = np.searchsorted(reading.segment, np.array(segments)[:, None] + [0, 1]).tolist()
        token, times = np.unique(
            np.concatenate([np.unique(reading.token[begin:end]) for begin, end in ends]), return_counts=True
        )
        names = np.unique([reading.token[begin] for begin, end in ends if begin < end])
        is_shared = (times == len(segments)) & ((len(segments) >= _ROUTINE) | ~is_spoken[token])
        shared = np.union1d(names, token[is_shared & (len(segments) > 1)])
        routine.append((np.array(segments)[:, None] * n_tokens + shared).ravel())
    return np.sort(np.concatenate(routine)).astype(np.int64) if routine else np.zeros(0, np.int64)
