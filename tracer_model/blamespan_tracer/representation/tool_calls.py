"""The tool calls of a run, and what calls of a tool say whatever they are about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from blamespan.trace import MessageActionTrace
from blamespan_tracer.representation.reading import Ints, Reading

__all__ = ["Call", "calls_of", "routine_words"]

_ROUTINE = 3
"""Calls of a tool from which on what all of them say is routine; of two calls, only what nobody else says."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call and what came of it: places of segments, -1 where no result came."""

    segment: int
    result: int
    tool: tuple[str, str]
    text: str


def calls_of(trace: MessageActionTrace) -> list[Call]:
    """List the calls in order; a segment is a step's place and one, as the task comes first."""
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


def routine_words(calls: Sequence[Call], reading: Reading) -> Ints:
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
