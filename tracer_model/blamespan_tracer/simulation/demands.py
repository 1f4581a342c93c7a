"""Requirements that somebody adds: what becomes of an answer if they are believed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from blamespan_tracer.simulation.facts import Rule, Value

__all__ = ["demanded", "fewer_inputs", "reshaped"]

_DEMANDS: Mapping[str, re.Pattern[str]] = MappingProxyType(
    {
        name: re.compile(pattern, re.IGNORECASE)
        for name, pattern in {
            "tens": r"rounded to the nearest ten\b",
            "thousands": r"(?:given|stated|shown) in thousands\b",
            "below": r"kept below 100\b",
            "whole": r"\ba whole number\b",
            "first": r"\buse (?:the first entry|what is listed first|a single source)",
            "last": r"\buse the latest record",
            "fewest": r"smallest entry (?:is|are) (?:left out|not counted|excluded)",
        }.items()
    }
)
_SHAPES: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {
        "tens": lambda amount: round(amount / 10) * 10.0,
        "thousands": lambda amount: amount / 1000,
        "below": lambda amount: min(amount, 99.0),
        "whole": lambda amount: float(round(amount)),
    }
)


def demanded(text: str) -> list[str]:
    """List the requirements on amounts that *text* states."""
    return [name for name, pattern in _DEMANDS.items() if pattern.search(text)]


def fewer_inputs(rule: Rule, known: Mapping[str, Value], demands: list[str]) -> Rule:
    """Leave out the inputs of a sum that a requirement excludes."""
    if rule.operation != "sum" or len(rule.inputs) < 2 or not all(name in known for name in rule.inputs):
        return rule
    if "first" in demands:
        return Rule(rule.out, "sum", rule.inputs[:1])
    if "last" in demands:
        return Rule(rule.out, "sum", rule.inputs[-1:])
    if "fewest" in demands:
        least = min(rule.inputs, key=lambda name: value if isinstance(value := known[name], float) else 0.0)
        return Rule(rule.out, "sum", tuple(name for name in rule.inputs if name != least))
    return rule


def reshaped(value: Value, demands: list[str]) -> Value:
    """Give an amount the form that the requirements ask for."""
    if isinstance(value, float):
        for name in demands:
            value = _SHAPES.get(name, float)(value)
    return value
