"""How agents go wrong: values mistaken as people and models mistake them, and added requirements that are believed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType

from blamespan_lab.make.simulation.statements.facts import DerivationRule, FactValue, Limit, TaskFact


def mistake_value(fact: TaskFact, value: FactValue, others: Sequence[FactValue], rng: Random) -> FactValue:
    """Return a wrong value near *value*: a slip of a digit, another of the *others*, the other choice."""
    if isinstance(value, Limit):
        return Limit(value.relation, _amount(value.amount, rng))
    if isinstance(value, float):
        return _amount(value, rng)
    if fact.choices:
        return rng.choice([choice for choice in fact.choices if choice != value] or [value])
    names = sorted({other for other in others if isinstance(other, str) and other != value})
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


_FIRST = r"(?:first (?:entry|item|value)|what is listed first|a single source)"
_LAST = r"(?:latest|most recent|newest) (?:record|entry|value)"
_ENTRY = r"(?:entry|item|value|amount)"
_LEFT_OUT = rf"{_ENTRY} (?:is|are) (?:left out|not counted|excluded|ignored)"

_DEMANDS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        name: re.compile(pattern, re.IGNORECASE)
        for name, pattern in {
            "tens": r"to the nearest ten\b|\bmultiples of ten\b",
            "hundreds": r"to the nearest hundred\b",
            "thousands": r"\bin thousands\b",
            "dozens": r"\bin dozens\b",
            "below": r"kept below 100\b|\b(?:exceed|stays under) a hundred\b",
            "whole": r"\ba whole number\b|\bbe an integer\b|\bwithout decimals\b",
            "more": r"\b(?:margin|surcharge|contingency) of ten percent\b",
            "less": r"\b(?:discount|fee) of five percent\b",
            "double": r"\bis doubled\b|\bbe doubled\b",
            "half": r"\btotal (?:has to be|must be|is to be|gets) halved\b",
            "first": rf"\buse (?:the )?{_FIRST}|\b(?:only|just) the {_FIRST}",
            "last": rf"\buse the {_LAST}|\b(?:only|nothing but) the {_LAST}",
            "fewest": rf"smallest {_LEFT_OUT}|\bexclude the smallest {_ENTRY}",
            "most": rf"largest {_LEFT_OUT}",
        }.items()
    }
)
_SHAPES: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {
        "tens": lambda amount: round(amount / 10) * 10.0,
        "hundreds": lambda amount: round(amount / 100) * 100.0,
        "thousands": lambda amount: amount / 1000,
        "dozens": lambda amount: round(amount / 12, 2),
        "below": lambda amount: min(amount, 99.0),
        "more": lambda amount: amount * 1.1,
        "less": lambda amount: amount * 0.95,
        "double": lambda amount: amount * 2,
        "half": lambda amount: amount / 2,
        "whole": lambda amount: float(round(amount)),
    }
)


def find_demands(text: str) -> list[str]:
    """List the requirements on amounts that *text* states."""
    return [name for name, pattern in _DEMANDS.items() if pattern.search(text)]


def drop_inputs(rule: DerivationRule, values: Mapping[str, FactValue], demands: list[str]) -> DerivationRule:
    """Leave out the inputs of a sum that a requirement excludes."""
    if rule.operation != "sum" or len(rule.inputs) < 2 or not all(name in values for name in rule.inputs):
        return rule
    if "first" in demands:
        return DerivationRule(rule.out, "sum", rule.inputs[:1])
    if "last" in demands:
        return DerivationRule(rule.out, "sum", rule.inputs[-1:])
    if "fewest" in demands or "most" in demands:
        extreme = min if "fewest" in demands else max
        out = extreme(rule.inputs, key=lambda name: value if isinstance(value := values[name], float) else 0.0)
        return DerivationRule(rule.out, "sum", tuple(name for name in rule.inputs if name != out))
    return rule


def reshape(value: FactValue, demands: list[str]) -> FactValue:
    """Bring an amount into the form that the requirements ask for."""
    if isinstance(value, float):
        for name in demands:
            value = _SHAPES.get(name, float)(value)
    return value
