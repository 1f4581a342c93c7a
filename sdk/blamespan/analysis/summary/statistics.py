"""Intervals and tests for shares of runs, small and exact; numpy is not needed for them.

All intervals are 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z = 1.959963984540054
"""The standard normal's 97.5 % point."""

MOST_EXACT = 5_000
"""Most terms that Fisher's test may add up; where it would be more, every count is so large that a normal law does."""

_SAME = 1 + 1e-7
"""Tables as likely as the one seen count as at least as unlikely: rounding must not decide."""


@dataclass(frozen=True, slots=True)
class Share:
    """How many of how many.

    Attributes:
        count: Those that are so.
        total: All.
    """

    count: int
    total: int

    @property
    def value(self) -> float:
        """The share, 0..1; 0 of nothing."""
        return self.count / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's interval."""
        return wilson(self.count, self.total)


@dataclass(frozen=True, slots=True)
class Test:
    """Whether two shares differ.

    Attributes:
        p: Chance of a difference as large or larger if both were the same, 0..1.
        method: `Fisher's exact test` or `two-proportion z test`.
    """

    p: float
    method: str


def wilson(count: int, total: int) -> tuple[float, float]:
    """Return Wilson's score interval of a share; all of 0..1 where there is nothing to count.

    Source: Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
    """
    if not total:
        return 0.0, 1.0
    share, square = count / total, Z * Z
    middle = (share + square / (2 * total)) / (1 + square / total)
    reach = Z * math.sqrt(share * (1 - share) / total + square / (4 * total * total)) / (1 + square / total)
    return (0.0 if count == 0 else max(0.0, middle - reach)), (1.0 if count == total else min(1.0, middle + reach))


def difference_interval(before: Share, after: Share) -> tuple[float, float]:
    """Return the interval of *after* minus *before*, -1..1.

    Source: Newcombe, "Interval estimation for the difference between independent proportions", 1998, method 10.
    """
    if not before.total or not after.total:
        return -1.0, 1.0
    (low_b, high_b), (low_a, high_a) = before.interval, after.interval
    gap = after.value - before.value
    low = gap - math.hypot(after.value - low_a, high_b - before.value)
    high = gap + math.hypot(high_a - after.value, before.value - low_b)
    return low, high


def compare_shares(before: Share, after: Share) -> Test:
    """Test whether two shares of independent runs differ, two-sided: exactly while that is quick."""
    hits = before.count + after.count
    if min(hits, before.total + after.total - hits, before.total, after.total) <= MOST_EXACT:
        return Test(_fisher(before, after), "Fisher's exact test")
    return Test(_two_proportions(before, after), "two-proportion z test")


def holm(chances: Sequence[float]) -> list[float]:
    """Correct p values for how many there are, so that one wrong finding among all of them stays as rare as said.

    Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    order = sorted(range(len(chances)), key=lambda index: chances[index])
    adjusted, highest = [0.0] * len(chances), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(chances) - rank) * chances[index]))
        adjusted[index] = highest
    return adjusted


def _fisher(before: Share, after: Share) -> float:
    """Add up the chances of all tables with these margins that are no likelier than the one seen."""
    total, hits = before.total + after.total, before.count + after.count
    whole = _log_choose(total, hits)

    def log_chance(count: int) -> float:
        return _log_choose(before.total, count) + _log_choose(after.total, hits - count) - whole

    seen = math.exp(log_chance(before.count)) * _SAME
    possible = range(max(0, hits - after.total), min(hits, before.total) + 1)
    return min(1.0, math.fsum(chance for count in possible if (chance := math.exp(log_chance(count))) <= seen))


def _log_choose(total: int, count: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(count + 1) - math.lgamma(total - count + 1)


def _two_proportions(before: Share, after: Share) -> float:
    if not before.total or not after.total:
        return 1.0
    pooled = (before.count + after.count) / (before.total + after.total)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / before.total + 1 / after.total))
    return math.erfc(abs(after.value - before.value) / spread / math.sqrt(2)) if spread else 1.0
