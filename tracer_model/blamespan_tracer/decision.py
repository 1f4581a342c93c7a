"""From probabilities to the pairs of agent and mode that are reported."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.metrics import f1

__all__ = ["Thresholds", "choose_thresholds", "decide", "mean_f1", "sigmoid"]

Floats: TypeAlias = NDArray[np.float32]
Pair: TypeAlias = tuple[int, int]
"""Row of an agent and column of a mode."""

_MODE_GRID = np.round(np.arange(0.06, 0.51, 0.01), 2)
_AGENT_GRID = np.round(np.arange(0.20, 0.96, 0.05), 2)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Probabilities from which on a mode of an agent, and an agent with its likeliest mode, are reported."""

    mode: float
    agent: float


def sigmoid(logits: Floats) -> Floats:
    """Turn log-odds into probabilities; never overflows."""
    probabilities: Floats = (0.5 * (1 + np.tanh(0.5 * logits))).astype(np.float32)
    return probabilities


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
    found: list[set[Pair]] = [set() for _ in runs]
    row, column = np.nonzero(chosen)
    of = run_of[row]
    for run, agent, mode in zip(of.tolist(), (row - first[of]).tolist(), column.tolist(), strict=True):
        found[run].add((agent, mode))
    return list(map(frozenset, found))


def choose_thresholds(runs: Sequence[Floats], labels: Sequence[frozenset[Pair]]) -> Thresholds:
    """Find the thresholds with the best mean of pair, agent and mode micro-F1 on held-out *runs*; on a tie the lowest.

    Pairs alone would leave agents unnamed for half a point of their F1 at the price of seven of the agents'.

    Args:
        runs: Per run the (A, M + 1) probabilities.
        labels: Per run the true pairs; a pair that no row can give (a silent agent) counts as missed.
    """

    def score(thresholds: Thresholds) -> float:
        return mean_f1(labels, decide(runs, thresholds))

    # One after the other: the two barely interact, and a grid of both would take minutes.
    mode = max((float(mode) for mode in _MODE_GRID), key=lambda mode: score(Thresholds(mode, 0.5)))
    agent = max((float(agent) for agent in _AGENT_GRID), key=lambda agent: score(Thresholds(mode, agent)))
    mode = max((float(mode) for mode in _MODE_GRID), key=lambda mode: score(Thresholds(mode, agent)))
    return Thresholds(mode, agent)


def mean_f1(labels: Sequence[frozenset[Pair]], answers: Sequence[frozenset[Pair]]) -> float:
    """Average the micro-F1 of pairs, of agents alone and of modes alone, percent."""
    sides = (labels, answers)
    agents = [[{agent for agent, _ in each} for each in side] for side in sides]
    modes = [[{mode for _, mode in each} for each in side] for side in sides]
    return (f1(*sides).micro_f1 + f1(*agents).micro_f1 + f1(*modes).micro_f1) / 3
