"""Choose the thresholds from which on pairs of agent and mode are reported."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from blamespan_lab.measuring.metrics import f1
from blamespan_tracer.decision import Floats, Pair, Thresholds, decide

__all__ = ["choose_thresholds", "mean_f1"]

_MODE_GRID = np.round(np.arange(0.06, 0.51, 0.01), 2)
_AGENT_GRID = np.round(np.arange(0.20, 0.96, 0.05), 2)


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
