"""Requirements that somebody adds: what becomes of an answer if they are believed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from blamespan_lab.simulation.facts import Rule, Value

__all__ = ["demanded", "fewer_inputs", "reshaped"]

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
    if "fewest" in demands or "most" in demands:
        extreme = min if "fewest" in demands else max
        out = extreme(rule.inputs, key=lambda name: value if isinstance(value := known[name], float) else 0.0)
        return Rule(rule.out, "sum", tuple(name for name in rule.inputs if name != out))
    return rule


def reshaped(value: Value, demands: list[str]) -> Value:
    """Give an amount the form that the requirements ask for."""
    if isinstance(value, float):
        for name in demands:
            value = _SHAPES.get(name, float)(value)
    return value
