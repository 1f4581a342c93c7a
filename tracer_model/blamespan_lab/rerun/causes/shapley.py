"""Shapley shares: how much of what a coalition of all brings each of its members brings.

Source: Shapley, "A value for n-person games", 1953. Sampled: Castro, Gomez, Tejada, "Polynomial calculation of the
Shapley value based on sampling", 2009; with each order its reverse (antithetic), as in Mitchell, Cooper, Frank, Holmes,
"Sampling permutations for Shapley value estimation", 2022.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from typing import TypeAlias

MOST_EXACT = 6
"""Most members whose coalitions are all tried: 64 of them."""
_LEAST_PAIRS = 2
"""Orders and their reverses that a standard error needs."""

Coalition: TypeAlias = frozenset[str]
Worth: TypeAlias = Callable[[Sequence[Coalition]], Sequence[float]]
"""Says what each of some different coalitions is worth; may work on all of them at once."""


class NoShares(Exception):
    """There is nothing to share out; the message says why."""


class OutOfBudget(Exception):
    """No more coalitions may be tried; the message says why."""


@dataclass(frozen=True, slots=True)
class ShapleyShares:
    """What each member brings.

    Attributes:
        shares: By member, in the order given. They add up to 1; one whose part makes things worse has less than 0.
        errors: Standard error of each; 0 where all coalitions were tried.
        is_exact: Whether they were.
        pairs: How many orders, each with its reverse, were drawn; 0 where it is exact.
        coalitions: How many different coalitions were tried.
        nobody: What the coalition of nobody is worth.
        everybody: What that of all is.
    """

    shares: dict[str, float]
    errors: dict[str, float]
    is_exact: bool
    pairs: int
    coalitions: int
    nobody: float
    everybody: float


def shapley(
    members: Sequence[str], worth: Worth, *, is_exact: bool | None = None, pairs: int = 50, seed: int = 0
) -> ShapleyShares:
    """Share out what all *members* together are worth more than nobody.

    Args:
        members: Who may be in a coalition, each once.
        worth: What coalitions are worth; each is asked for once. `OutOfBudget` ends the drawing of orders.
        is_exact: Whether all coalitions are tried; of up to six members by default.
        pairs: Most orders that are drawn where not, each with its reverse.
        seed: Of the orders.

    Raises:
        NoShares: if all together are worth no more than nobody, or the budget does not do.
    """
    known = _KnownWorths(worth)
    try:
        nobody, everybody = known.look_up([frozenset(), frozenset(members)])
        if not everybody - nobody > 0:
            raise NoShares(
                f"with everybody put right {everybody:.0%} of the runs succeed, with nobody {nobody:.0%}: there is no "
                "difference to share out"
            )
        if is_exact is None:
            is_exact = len(members) <= MOST_EXACT
        if is_exact:
            rows = [_share_exactly(members, known)]
    except OutOfBudget as error:
        raise NoShares(str(error)) from error
    if not is_exact:
        rows = list(_draw_pairs(members, known, pairs, Random(seed)))  # noqa: S311 - reproducible on purpose
        if len(rows) < _LEAST_PAIRS:
            raise NoShares(
                f"the budget does for {len(rows)} of the {_LEAST_PAIRS} pairs of orders that a standard error needs: "
                f"{known.trouble or 'too few were asked for'}"
            )
    whole = everybody - nobody
    means = {member: math.fsum(row[member] for row in rows) / len(rows) for member in members}
    errors = {member: 0.0 if is_exact else _standard_error([row[member] for row in rows]) for member in members}
    return ShapleyShares(
        {member: mean / whole for member, mean in means.items()},
        {member: error / whole for member, error in errors.items()},
        is_exact,
        0 if is_exact else len(rows),
        len(known),
        nobody,
        everybody,
    )


def list_coalitions(members: Sequence[str]) -> list[Coalition]:
    """List all coalitions, the smaller first."""
    return [frozenset(chosen) for size in range(len(members) + 1) for chosen in combinations(members, size)]


class _KnownWorths:
    """Worths that were asked for."""

    def __init__(self, worth: Worth) -> None:
        self._worth = worth
        self._known: dict[Coalition, float] = {}
        self.trouble = ""

    def __len__(self) -> int:
        return len(self._known)

    def look_up(self, coalitions: Sequence[Coalition]) -> list[float]:
        unknown = list(dict.fromkeys(coalition for coalition in coalitions if coalition not in self._known))
        if unknown:
            try:
                self._known.update(zip(unknown, self._worth(unknown), strict=True))
            except OutOfBudget as error:
                self.trouble = str(error)
                raise
        return [self._known[coalition] for coalition in coalitions]


def _share_exactly(members: Sequence[str], known: _KnownWorths) -> dict[str, float]:
    n = len(members)
    coalitions = list_coalitions(members)
    worth = dict(zip(coalitions, known.look_up(coalitions), strict=True))
    return {
        member: math.fsum(
            (worth[coalition | {member}] - worth[coalition]) / (n * math.comb(n - 1, len(coalition)))
            for coalition in coalitions
            if member not in coalition
        )
        for member in members
    }


def _draw_pairs(members: Sequence[str], known: _KnownWorths, pairs: int, rng: Random) -> Iterator[dict[str, float]]:
    """Draw orders, and yield what each member brings when it joins, in the mean of an order and its reverse.

    A pair that the budget does not do for is left out as a whole: half of it would not add up.
    """
    for _ in range(pairs):
        order = list(members)
        rng.shuffle(order)
        row = dict.fromkeys(members, 0.0)
        chains = [[frozenset(line[:size]) for size in range(len(line) + 1)] for line in (order, order[::-1])]
        try:
            known.look_up([coalition for chain in chains for coalition in chain])
        except OutOfBudget:
            return
        for line, chain in zip((order, order[::-1]), chains, strict=True):
            worths = known.look_up(chain)
            for place, member in enumerate(line):
                row[member] += (worths[place + 1] - worths[place]) / 2
        yield row


def _standard_error(values: Sequence[float]) -> float:
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
