"""Numbers that follow from other numbers: sums, differences, products, ratios, per cent, rounding and units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["derivation_surprise"]

_MOST_OPERANDS = 48
"""Operands of one calculation are looked for among so many numbers: each pair of them is tried."""

_FACTORS = np.array(
    [1.0, 1e3, 1e6, 1e9, 100.0, 60.0, 3600.0, 24.0, 7.0, 12.0, 52.0, 365.0, 1.609344, 2.54, 0.3048, 0.45359237, 2.0]
)
"""By which a number is multiplied or divided when it is told in another unit, doubled or halved."""


def derivation_surprise(key: str, operands: Sequence[float], columns: Iterable[Sequence[float]] = ()) -> float:
    """Return how much better a calculation explains a number than chance does, in nats; 0 where none explains it.

    Args:
        key: The number, in its normal form.
        operands: Numbers that it may have been calculated from; of many the last 48.
        columns: Numbers that stand below each other: their neighbours may have been added up or averaged.

    A calculation explains a number if its result, rounded as the number is, equals it. The more results there are of
    this size, the more likely one equals the number by chance.
    """
    target = float(key)
    decimals = len(key.partition(".")[2])
    digits = len(key.lstrip("-").replace(".", "").lstrip("0"))
    results = _results(np.array(operands[-_MOST_OPERANDS:], np.float64))
    sums = [_range_results(np.array(column[:_MOST_OPERANDS], np.float64)) for column in columns]
    results = np.abs(np.concatenate([results, *sums]))
    size = abs(target)
    if not size or not len(results):
        return 0.0
    tolerance = 0.5 * 10.0**-decimals + 1e-9 * size
    if not (np.abs(results - size) <= tolerance).any():
        return 0.0
    n_alike = int(((results > size / 3.2) & (results < size * 3.2)).sum())
    return max(0.0, digits * math.log(10.0) - math.log(n_alike + 1.0) - 0.7)


def _results(operands: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what one operand becomes in another unit, and what two of them give."""
    operands = np.unique(operands)
    with np.errstate(all="ignore"):
        one, other = operands[:, None], operands[None, :]
        ratio = one / other
        parts = [
            (operands[:, None] * _FACTORS).ravel(),
            (operands[:, None] / _FACTORS).ravel(),
            *((part[~np.eye(len(operands), dtype=bool)]) for part in (one + other, one - other, one * other)),
            ratio[~np.eye(len(operands), dtype=bool)],
            100.0 * ratio[~np.eye(len(operands), dtype=bool)],
            100.0 * (ratio - 1.0)[~np.eye(len(operands), dtype=bool)],
            (one * (1.0 + other / 100.0)).ravel(),
            (one * (1.0 - other / 100.0)).ravel(),
            (one * other / 100.0).ravel(),
        ]
        results = np.concatenate(parts)
    finite: NDArray[np.float64] = results[np.isfinite(results)]
    return finite


def _range_results(column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sums and the means of every three or more neighbours."""
    if len(column) < 3:
        return np.zeros(0)
    total = np.concatenate([[0.0], np.cumsum(column)])
    first, last = np.triu_indices(len(total), 3)
    sums = total[last] - total[first]
    return np.concatenate([sums, sums / (last - first)])
