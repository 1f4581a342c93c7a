"""Loops: an agent says again, word for word, what it said before, and gets the answer that it got before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace

_LEAST_USELESS = 2
"""Useless steps of a loop: who asks once more may have had a reason."""


def find_loops(trace: MessageActionTrace) -> list[list[int]]:
    """List the loops of a run, each as its useless steps, ascending.

    A step is useless where its agent said the same before and was answered the same; a message has no answer. A call
    that is made until its answer changes is useless as long as the answer stays.
    """
    answers: dict[int, list[str]] = defaultdict(list)
    for step in trace.steps:
        if step.kind == "tool_result":
            calls = [index for index in step.inputs if trace.steps[index].kind == "tool_call"]
            if not calls and step.index and trace.steps[step.index - 1].kind == "tool_call":
                calls = [step.index - 1]
            for index in calls:
                answers[index].append(" ".join(step.content.split()))
    said: dict[tuple[str, str, str], int] = {}
    loops: dict[tuple[str, str, str], list[int]] = defaultdict(list)
    for step in trace.steps:
        words = " ".join(step.content.split())
        if not words or not trace.can_be_blamed(step):
            continue
        key = step.agent, step.kind, words
        before = said.get(key)
        if before is not None and answers[before] == answers[step.index]:
            loops[key].append(step.index)
        said[key] = step.index
    return [steps for steps in loops.values() if len(steps) >= _LEAST_USELESS]


def fold_loops(shares: NDArray[np.float64], loops: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    """Return the (T,) shares with those of a loop's useless steps on the first of them: they are one mistake."""
    folded = shares.copy()
    for steps in loops:
        folded[list(steps)] = 0.0
        folded[steps[0]] = shares[list(steps)].sum()
    return folded
