"""From probabilities to the pairs of agent and mode that are reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Pair: TypeAlias = tuple[int, int]
"""Row of an agent and column of a mode."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Probabilities from which on a mode of an agent, and an agent with its likeliest mode, are reported."""

    mode: float
    agent: float


def decide(runs: Sequence[Floats], thresholds: Thresholds) -> list[frozenset[Pair]]:
    """Choose what to report of each run: at least the likeliest pair.

    Dims: A agents of a run, M modes.

    Args:
        runs: Per run (A, M + 1), the last column for being at fault at all. A is at least 1.
        thresholds: From which probability on.
    """
    if not runs:
        return []
    table, sizes = np.concatenate(runs), np.array([len(run) for run in runs])
    run_of, first = np.repeat(np.arange(len(runs)), sizes), np.cumsum(sizes) - sizes
    modes, at_fault = table[:, :-1], table[:, -1]
    chosen = modes >= thresholds.mode
    suspects = np.flatnonzero(at_fault >= thresholds.agent)
    chosen[suspects, modes[suspects].argmax(axis=1)] = True
    for run in np.flatnonzero(~np.logical_or.reduceat(chosen.any(axis=1), first)).tolist():
        likeliest = int(runs[run][:, :-1].argmax())
        chosen[first[run] + likeliest // modes.shape[1], likeliest % modes.shape[1]] = True
    pairs: list[set[Pair]] = [set() for _ in runs]
    row, column = np.nonzero(chosen)
    of = run_of[row]
    for run, agent, mode in zip(of.tolist(), (row - first[of]).tolist(), column.tolist(), strict=True):
        pairs[run].add((agent, mode))
    return list(map(frozenset, pairs))
