"""Numbers that follow from other numbers: sums, differences, products, ratios, per cent, rounding and units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_OPERANDS", "Calculation", "derivation_surprise", "find_calculation"]

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


_YEARS = range(1900, 2100)
_MOST_OF_THREE = 8
"""Operands of a written calculation of three numbers are the likeliest ones."""

MAX_OPERANDS = _MOST_OPERANDS
"""The same, for who looks for operands."""


@dataclass(frozen=True, slots=True)
class Calculation:
    """How a number is calculated from others.

    Attributes:
        text: The calculation: `12 * 3`.
        operands: Indices of the numbers, among the operands or in the column.
        column: Which column they stand in; None for operands.
    """

    text: str
    operands: tuple[int, ...]
    column: int | None = None


def find_calculation(
    key: str, operands: Sequence[float], columns: Sequence[Sequence[float]] = (), *, is_written: bool = True
) -> Calculation | None:
    """Return a calculation that gives a number, rounded as the number is; None where none does.

    Args:
        key: The number, in its normal form.
        operands: Numbers that it may have been calculated from, the likeliest first: of several calculations the one
            with the likeliest operands is returned.
        columns: As for `derivation_surprise`.
        is_written: Whether the text shows that something is calculated. Where it does not, a year is none, and single
            digits are only multiplied and divided by: too many numbers are one or two apart.
    """
    size = abs(float(key))
    if not is_written and size in _YEARS:
        return None
    tolerance = 0.5 * 10.0 ** -len(key.partition(".")[2]) + 1e-9 * size
    numbers = np.array(operands[:_MOST_OPERANDS], np.float64)
    equal = np.flatnonzero(np.abs(np.abs(numbers) - size) <= tolerance)
    if len(equal):
        return Calculation(f"{numbers[equal[0]]:.12g} rounded or without its sign", (int(equal[0]),))
    if len(numbers):
        found = _find_pair(size, tolerance, numbers, is_written=is_written)
        if found is None and is_written:
            found = _find_triple(size, tolerance, numbers[:_MOST_OF_THREE].tolist())
        if found is not None:
            return found
    for column, values in enumerate(columns):
        own = np.array(values[:_MOST_OPERANDS], np.float64)
        if len(own) < 3:
            continue
        total = np.concatenate([[0.0], np.cumsum(own)])
        first, last = np.triu_indices(len(total), 3)
        sums = total[last] - total[first]
        for name, results in (("sum", sums), ("mean", sums / (last - first))):
            hits = np.flatnonzero(np.abs(np.abs(results) - size) <= tolerance)
            if len(hits):
                begin, end = int(first[hits[0]]), int(last[hits[0]])
                return Calculation(f"{name} of {end - begin} numbers", tuple(range(begin, end)), column)
    return None


def _find_triple(size: float, tolerance: float, numbers: Sequence[float]) -> Calculation | None:
    """Look for a product or a sum of three numbers; none of them is 0 or 1, which change nothing."""
    places = [place for place, number in enumerate(numbers) if number not in (0.0, 1.0)]
    for three in combinations(places, 3):
        one, two, other = (numbers[place] for place in three)
        for sign, result in (("*", one * two * other), ("+", one + two + other)):
            if abs(abs(result) - size) <= tolerance:
                return Calculation(f" {sign} ".join(f"{numbers[place]:.12g}" for place in three), three)
    return None


def _find_pair(size: float, tolerance: float, numbers: NDArray[np.float64], *, is_written: bool) -> Calculation | None:
    """Look for a calculation from two numbers, else from one in another unit."""
    one, other = numbers[:, None], numbers[None, :]
    with np.errstate(all="ignore"):
        ratio = one / other
        patterns = (
            ("{} + {}", one + other),
            ("{} - {}", one - other),
            ("{} * {}", one * other),
            ("{} / {}", ratio),
            ("{} / {} in %", 100.0 * ratio),
            ("change from {1} to {0} in %", 100.0 * (ratio - 1.0)),
            ("{} + {} %", one * (1.0 + other / 100.0)),
            ("{} - {} %", one * (1.0 - other / 100.0)),
            ("{1} % of {0}", one * other / 100.0),
        )
        converted = (("{} * {}", numbers[:, None] * _FACTORS), ("{} / {}", numbers[:, None] / _FACTORS))
    rank = np.arange(len(numbers))
    is_digit = (np.abs(numbers) < 10) & (numbers == np.floor(numbers))
    has_digit = is_digit[:, None] | is_digit[None, :]
    best: tuple[int, int, Calculation] | None = None
    for order, (pattern, results) in enumerate(patterns):
        hits = np.abs(np.abs(results) - size) <= tolerance
        np.fill_diagonal(hits, False)
        if not is_written and pattern not in ("{} * {}", "{} / {}"):
            hits &= ~has_digit
        if not hits.any():
            continue
        cost = np.where(hits, np.maximum(rank[:, None], rank[None, :]), len(numbers))
        row, column = (int(place) for place in np.unravel_index(int(cost.argmin()), cost.shape))
        if best is None or (int(cost[row, column]), order) < best[:2]:
            text = pattern.format(f"{numbers[row]:.12g}", f"{numbers[column]:.12g}")
            best = int(cost[row, column]), order, Calculation(text, (row, column))
    if best is not None:
        return best[2]
    for pattern, results in converted:
        places = np.argwhere(np.abs(np.abs(results) - size) <= tolerance)
        if len(places):
            row, factor = (int(place) for place in places[0])
            return Calculation(pattern.format(f"{numbers[row]:.12g}", f"{_FACTORS[factor]:g}"), (row,))
    return None


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
