"""Getting a value wrong as people and models do."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from blamespan_lab.simulation.facts import Fact, Limit, Value

__all__ = ["slipped"]


def slipped(fact: Fact, value: Value, others: Sequence[Value], rng: Random) -> Value:
    """Give a wrong value near *value*: a slip of a digit, another of the *others*, the other choice.

    Code comes back as it is: it goes wrong by its requirements.
    """
    if isinstance(value, Limit):
        return Limit(value.relation, _amount(value.amount, rng))
    if isinstance(value, float):
        return _amount(value, rng)
    if fact.choices:
        return rng.choice([choice for choice in fact.choices if choice != value] or [value])
    names = sorted({other for other in others if isinstance(other, str) and other != value and "\n" not in other})
    return rng.choice(names) if names and fact.kind == "name" else value


def _amount(value: float, rng: Random) -> float:
    step = 1.0 if value.is_integer() else 0.1
    ways = [value + step * rng.choice((-2, -1, 1, 2, 3)), value * 10, value * rng.choice((0.5, 0.9, 1.1, 2.0))]
    digits = str(int(abs(value)))
    if len(digits) > 1 and len(set(digits)) > 1:
        at = next(i for i in range(len(digits) - 1) if digits[i] != digits[i + 1])
        swapped = digits[:at] + digits[at + 1] + digits[at] + digits[at + 2 :]
        ways += [float(swapped) + abs(value) % 1] * 2
    wrong = [round(way, 2) for way in ways if round(way, 2) != value]
    return rng.choice(wrong)
