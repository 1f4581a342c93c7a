"""The models behind the probes: small, exact or convex, and the same from run to run.

Dims: N rows (steps, or runs), F features, G groups of rows of which one is to be chosen (runs).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bags", "fit_chooser", "fit_separator", "hit_shares"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_ROUNDS = 40
_RATE = 0.5
_PENALTY = 1e-4
"""L2 against the mean loss."""


@dataclass(frozen=True, slots=True)
class Bags:
    """Sparse rows of ones over *width* features: a row's features are `columns[starts[i]:starts[i + 1]]`."""

    columns: Ints
    starts: Ints
    width: int

    @classmethod
    def of(cls, rows: Sequence[Ints], width: int) -> Bags:
        """Lay rows out one after another; every row gets the feature `width`, so that none is empty."""
        whole = [np.append(row, width) for row in rows]
        starts = np.cumsum([0, *(len(row) for row in whole)], dtype=np.int64)
        return cls(np.concatenate(whole), starts, width + 1)

    def times(self, weights: Floats) -> Floats:
        """Return (N,) mean weights of each row's features, times the root of their number."""
        sizes = np.diff(self.starts)
        sums: Floats = np.add.reduceat(weights[self.columns], self.starts[:-1]) / np.sqrt(sizes)
        return sums

    def transposed_times(self, values: Floats) -> Floats:
        """Return (F,) what the (N,) *values* add to each feature."""
        sizes = np.diff(self.starts)
        spread = np.repeat(values / np.sqrt(sizes), sizes)
        sums: Floats = np.bincount(self.columns, weights=spread, minlength=self.width).astype(np.float64)
        return sums


def fit_chooser(rows: Floats | Bags, groups: Ints, is_chosen: NDArray[np.bool_]) -> Floats:
    """Fit weights by which the chosen row of each group scores above the others: a conditional logit.

    Args:
        rows: (N, F), or sparse.
        groups: (N,) group of each row, ascending without gaps.
        is_chosen: (N,) one True per group.
    """

    def slope(scores: Floats) -> Floats:
        return _softmax(scores, groups) - is_chosen

    return _fit(rows, slope, int(groups[-1]) + 1)


def fit_separator(rows: Floats | Bags, is_positive: NDArray[np.bool_]) -> Floats:
    """Fit weights by which positive rows score above the others: a logistic regression, both sides of equal weight."""
    weight = np.where(is_positive, 0.5 / max(is_positive.mean(), 1e-9), 0.5 / max(1 - is_positive.mean(), 1e-9))

    def slope(scores: Floats) -> Floats:
        gradient: Floats = weight * (0.5 * (1 + np.tanh(0.5 * scores)) - is_positive)
        return gradient

    return _fit(rows, slope, len(is_positive))


def hit_shares(scores: Floats, groups: Ints, gold: Ints) -> Floats:
    """Return (G,) the chance that the highest score of each group is at its gold row, ties drawn fairly.

    Args:
        scores: (N,).
        groups: (N,) as in `fit_chooser`.
        gold: (G,) row of each group that is right, counted over all N.
    """
    best = np.maximum.reduceat(scores, _starts(groups))
    tied = np.abs(scores - best[groups]) <= 1e-12
    shares: Floats = tied[gold] / np.bincount(groups, weights=tied)
    return shares


def _fit(rows: Floats | Bags, slope: object, n_units: int) -> Floats:
    """Descend by Adagrad over everything at once: convex, so that rounds and rate decide only how near it comes."""
    assert callable(slope)
    width = rows.width if isinstance(rows, Bags) else rows.shape[1]
    weights, steepness = np.zeros(width), np.full(width, 1e-8)
    for _ in range(_ROUNDS if isinstance(rows, Bags) else 10 * _ROUNDS):
        scores = rows.times(weights) if isinstance(rows, Bags) else rows @ weights
        values = slope(scores) / n_units
        gradient = rows.transposed_times(values) if isinstance(rows, Bags) else rows.T @ values
        gradient = gradient + _PENALTY * weights
        steepness += gradient**2
        weights = weights - _RATE * gradient / np.sqrt(steepness)
    return weights


def _softmax(scores: Floats, groups: Ints) -> Floats:
    starts = _starts(groups)
    raised = np.exp(scores - np.maximum.reduceat(scores, starts)[groups])
    probabilities: Floats = raised / np.add.reduceat(raised, starts)[groups]
    return probabilities


def _starts(groups: Ints) -> Ints:
    return np.flatnonzero(np.diff(groups, prepend=-1))
