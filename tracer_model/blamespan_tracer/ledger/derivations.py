"""Numbers that follow from other numbers: sums, differences, products, ratios, per cent, rounding and units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from itertools import combinations
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

MOST_OPERANDS = 48
"""Operands of one calculation are looked for among so many numbers: each pair of them is tried."""

Floats: TypeAlias = NDArray[np.float64]

_NEVER, _DOUBT = -40.0, 0.7
"""Logarithm of a number of calculations that says none, and what is taken off a surprise, in nats."""

_FACTORS = np.array(
    [
        *(1.0, 1e3, 1e6, 1e9, 100.0),  # magnitudes, per cent
        *(60.0, 3600.0, 1440.0, 24.0, 7.0, 12.0, 52.0, 365.0),  # times
        *(1.609344, 2.54, 0.3048, 0.45359237, 2.0),  # lengths and weights, the double
    ]
)
"""By which a number is multiplied or divided when it is told in another unit, doubled or halved."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether calculations give a number, and what that is worth.

    Attributes:
        is_found: Whether one gives it.
        expected: Logarithm of how many would give it by chance.
    """

    is_found: bool = False
    expected: float = _NEVER

    @property
    def surprise(self) -> float:
        """How much better a calculation explains the number than chance does, in nats; 0 where none explains it."""
        return max(0.0, -self.expected - _DOUBT) if self.is_found else 0.0


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


def explain_number(
    key: str, operands: Sequence[float], columns: Iterable[Sequence[float]] = (), others: Sequence[float] = ()
) -> Explanation:
    """Look for a calculation that gives a number.

    Args:
        key: The number, in its normal form.
        operands: Numbers that it may have been calculated from; of many the last 48.
        columns: Numbers that stand below each other: their neighbours may have been added up or averaged.
        others: Results of other calculations, as `differences` returns them.

    A calculation explains a number if its result, rounded as the number is, equals it. The more results there are of
    this size, the more likely one equals the number by chance.
    """
    size = abs(float(key))
    both_ways, once = _list_results(sorted(set(operands[-MOST_OPERANDS:])))
    sums = [_range_results(tuple(column[:MOST_OPERANDS])) for column in columns]
    results = np.abs(np.concatenate([both_ways, once, *sums, np.array(others, np.float64)]))
    if not size or not len(results):
        return Explanation()
    decimals = len(key.partition(".")[2])
    digits = len(key.lstrip("-").replace(".", "").lstrip("0"))
    is_alike = (results > size / 3.2) & (results < size * 3.2)
    n_alike = int(np.count_nonzero(is_alike) + np.count_nonzero(is_alike[: len(both_ways)]))
    expected = math.log(n_alike + 1.0) - digits * math.log(10.0)
    tolerance = 0.5 * 10.0**-decimals + 1e-9 * size
    return Explanation(bool((np.abs(results[is_alike] - size) <= tolerance).any()), max(_NEVER, expected))


_DAYS_OF = {"day": 1, "week": 7}
_MONTHS_OF = {"month": 1, "year": 12}
_MINUTES_OF = {"minute": 1, "hour": 60}
_USUAL_DAYS = ((1.0, "day"), (2.0, "day"), (1.0, "week"), (2.0, "week"))
_USUAL_MINUTES = ((30.0, "minute"), (1.0, "hour"))
"""What may be counted on from any date or time, though no text says it."""
_MINUTES_A_DAY = 1_440
_A_DATE, _A_TIME = math.log(365.0), math.log(288.0)
"""How unlikely it is that a chosen day of a year, or five minutes of a day, are met by chance, in nats."""


def date_surprise(key: str, days: Sequence[str], spans: Sequence[tuple[float, str]]) -> float:
    """Return how much better a count of days from another date explains a date than chance does, in nats.

    Args:
        key: The date in its normal form.
        days: Dates that it may be counted from.
        spans: Numbers with their units that may be counted on or back; one and two days and weeks always may be.

    A date without a year is none that can be counted with.
    """
    reached = _count_days(key, days, [*spans, *_USUAL_DAYS])
    target = _parse_date(key)
    is_reached = target is not None and target.toordinal() in reached
    return max(0.0, _A_DATE - math.log(len(reached))) if is_reached else 0.0


def time_surprise(key: str, hours: Sequence[str], spans: Sequence[tuple[float, str]]) -> float:
    """Return how much better a count of minutes from another time explains a time of day than chance does, in nats.

    Args:
        key: The time in its normal form.
        hours: Times that it may be counted from.
        spans: Numbers with their units that may be counted on or back; half an hour and an hour always may be.
    """
    reached = _count_minutes(key, hours, [*spans, *_USUAL_MINUTES])
    return max(0.0, _A_TIME - math.log(len(reached))) if _minutes(key) in reached else 0.0


def find_count(key: str, form: str, starts: Sequence[str], spans: Sequence[tuple[float, str]]) -> Calculation | None:
    """Return how a date or a time is counted on or back from another one; None where it is not.

    Args:
        key: The date or time in its normal form.
        form: `date` or `time`.
        starts: Dates or times that it may be counted from, the likeliest first.
        spans: Numbers with their units that may be counted on or back, the likeliest first.

    The operands of the calculation are indices of *starts*, then of *spans* behind them.
    """
    usual = _USUAL_DAYS if form == "date" else _USUAL_MINUTES
    target = _parse_date(key)
    if form == "time":
        reached, place = _count_minutes(key, starts, [*spans, *usual]), _minutes(key)
    elif target is not None:
        reached, place = _count_days(key, starts, [*spans, *usual]), target.toordinal()
    else:
        return None
    if place not in reached:
        return None
    start, span, sign = reached[place]
    number, unit = [*spans, *usual][span]
    text = f"{starts[start]} {'+' if sign > 0 else '-'} {number:.12g} {unit}{'' if number == 1 else 's'}"
    return Calculation(text, (start, len(starts) + span) if span < len(spans) else (start,))


_Counted: TypeAlias = dict[int, tuple[int, int, int]]
"""By the day or minute that is reached: the index of the start, that of the span, and the sign."""


def _count_days(key: str, days: Sequence[str], spans: Sequence[tuple[float, str]]) -> _Counted:
    """Count every span on and back from every other date; of several ways to a day the first is kept."""
    reached: _Counted = {}
    for index, day in enumerate(days):
        start = _parse_date(day)
        if start is None or day == key:
            continue
        for number, (amount, unit) in enumerate(spans):
            for sign in (1, -1):
                if unit in _DAYS_OF and 0 < amount < 4_000:
                    place = start.toordinal() + sign * round(amount * _DAYS_OF[unit])
                elif unit in _MONTHS_OF and 0 < amount < 1_200 / _MONTHS_OF[unit]:
                    place = _add_months(start, sign * round(amount * _MONTHS_OF[unit]))
                else:
                    continue
                reached.setdefault(place, (index, number, sign))
    return reached


def _count_minutes(key: str, hours: Sequence[str], spans: Sequence[tuple[float, str]]) -> _Counted:
    """Count every span on and back from every other time; of several ways to a time the first is kept."""
    reached: _Counted = {}
    for index, hour in enumerate(hours):
        if hour == key:
            continue
        for number, (amount, unit) in enumerate(spans):
            if unit in _MINUTES_OF and 0 < amount < 1_440:
                for sign in (1, -1):
                    place = (_minutes(hour) + sign * round(amount * _MINUTES_OF[unit])) % _MINUTES_A_DAY
                    reached.setdefault(place, (index, number, sign))
    return reached


def differences(days: Sequence[str], hours: Sequence[str]) -> list[float]:
    """Return the days between each two dates, with both counted too, and the minutes and hours between two times."""
    dates = [parsed for day in dict.fromkeys(days) if (parsed := _parse_date(day)) is not None]
    times = sorted({_minutes(hour) for hour in hours})
    spans = [float(abs((one - other).days)) for one, other in combinations(dates, 2)]
    minutes = [float(later - earlier) for earlier, later in combinations(times, 2)]
    return [*spans, *(span + 1 for span in spans), *minutes, *(span / 60 for span in minutes)]


def _parse_date(key: str) -> date | None:
    try:
        return date.fromisoformat(key)
    except ValueError:
        return None


def _add_months(start: date, months: int) -> int:
    """Return the day some months from a date, as an ordinal: of a shorter month the last one; 0 where there is none."""
    year, month = divmod(start.year * 12 + start.month - 1 + months, 12)
    for day in range(start.day, start.day - 4, -1):
        try:
            return date(year, month + 1, day).toordinal()
        except ValueError:
            continue
    return 0


def _minutes(key: str) -> int:
    hour, minute, *_ = key.split(":")
    return (int(hour) * 60 + int(minute)) % _MINUTES_A_DAY


_YEARS = range(1900, 2100)
_MOST_OF_THREE = 8
"""Operands of a written calculation of three numbers are the likeliest ones."""


def find_calculation(
    key: str, operands: Sequence[float], columns: Sequence[Sequence[float]] = (), *, is_written: bool = True
) -> Calculation | None:
    """Return a calculation that gives a number, rounded as the number is; None where none does.

    Args:
        key: The number, in its normal form.
        operands: Numbers that it may have been calculated from, the likeliest first: of several calculations the one
            with the likeliest operands is returned.
        columns: As for `explain_number`.
        is_written: Whether the text shows that something is calculated. Where it does not, a year is none, and single
            digits are only multiplied and divided by: too many numbers are one or two apart.
    """
    size = abs(float(key))
    if not is_written and size in _YEARS:
        return None
    tolerance = 0.5 * 10.0 ** -len(key.partition(".")[2]) + 1e-9 * size
    numbers = np.array(operands[:MOST_OPERANDS], np.float64)
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
        own = np.array(values[:MOST_OPERANDS], np.float64)
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


@lru_cache(maxsize=MOST_OPERANDS)
def _pairs(count: int, apart: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first and the second of each two indices below *count* that lie so far apart, or farther."""
    return np.triu_indices(count, apart)


def _list_results(operands: Sequence[float]) -> tuple[Floats, Floats]:
    """Return what two of the operands give either way round, and what they give one way, or one gives in another unit.

    What is divided by nothing is not finite, and like no number.
    """
    numbers = np.array(operands, np.float64)
    first, second = _pairs(len(numbers), 1)
    one, other = numbers[first], numbers[second]
    with np.errstate(all="ignore"):
        ratio = np.concatenate([one / other, other / one])
        percent, parts = 1.0 + numbers / 100.0, 1.0 - numbers / 100.0
        once = [ratio, 100.0 * ratio, 100.0 * (ratio - 1.0)]
        once += [np.multiply.outer(numbers, factors).ravel() for factors in (_FACTORS, percent, parts)]
        once += [np.divide.outer(numbers, _FACTORS).ravel(), np.multiply.outer(numbers, numbers).ravel() / 100.0]
        return np.concatenate([one + other, one - other, one * other]), np.concatenate(once)


@lru_cache(maxsize=16)
def _range_results(column: tuple[float, ...]) -> Floats:
    """Return the sums and the means of every three or more neighbours."""
    if len(column) < 3:
        return np.zeros(0)
    total = np.concatenate([[0.0], np.cumsum(column)])
    first, last = _pairs(len(total), 3)
    sums = total[last] - total[first]
    return np.concatenate([sums, sums / (last - first)])
