"""Platt scaling: turn raw scores into log-odds that held-out agents bear out."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["expected_calibration_error", "platt", "separation"]

Floats: TypeAlias = NDArray[np.float32]

_PRIOR = 10.0
"""Pulls slope to 1 and offset to 0 like ten observations would: rare modes must not run away."""


def platt(scores: Floats, labels: NDArray[np.bool_]) -> tuple[float, float]:
    """Fit slope and offset of one answer's log-odds by Newton's method.

    Args:
        scores: (N,) raw log-odds.
        labels: (N,) whether the answer was right.

    Source: Platt, "Probabilistic outputs for support vector machines", 1999; the prior is ours.
    """
    design = np.stack([scores.astype(np.float64), np.ones(len(scores))], axis=1)  # (N, 2)
    start = np.array([1.0, 0.0])
    found = start.copy()

    def loss(point: NDArray[np.float64]) -> float:
        logits = design @ point
        return float((np.logaddexp(0, logits) - labels * logits).sum() + _PRIOR / 2 * ((point - start) ** 2).sum())

    for _ in range(50):
        probability = 0.5 * (1 + np.tanh(0.5 * design @ found))
        slope = design.T @ (probability - labels) + _PRIOR * (found - start)
        curve = (design * (probability * (1 - probability))[:, None]).T @ design + _PRIOR * np.eye(2)
        move = np.linalg.solve(curve, slope)
        while loss(found - move) > loss(found) and np.abs(move).max() > 1e-9:  # a full step may leap over the minimum
            move = move / 2
        found = found - move
    return float(found[0]), float(found[1])


def expected_calibration_error(probabilities: Floats, labels: NDArray[np.bool_], *, bins: int = 10) -> float:
    """Measure the mean gap between stated and observed probability over equally wide bins, 0..1."""
    place = np.minimum((probabilities * bins).astype(int), bins - 1)
    gaps = [
        abs(float(probabilities[place == one].mean()) - float(labels[place == one].mean()))
        * float((place == one).mean())
        for one in range(bins)
        if (place == one).any()
    ]
    return float(sum(gaps))


def separation(positive: Floats, negative: Floats) -> float:
    """Measure how often a positive scores above a negative, ties half (the area under the ROC curve), 0..1."""
    ordered = np.sort(negative)
    below = np.searchsorted(ordered, positive, side="left") + np.searchsorted(ordered, positive, side="right")
    return float(below.mean() / 2 / len(ordered))
