"""Operators on the calls of tools in a model's answer: the wrong one, wrongly filled, ill formed, or none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

from blamespan.injecting.boundaries import Said, ToolCall
from blamespan_lab.faults.operators.edits import slip
from blamespan_lab.faults.wording import numbers, with_replaced
from blamespan_lab.wordings import choose
from blamespan_lab.wordings.banks import FAULTS

__all__ = ["CALL_OPERATORS", "CallOperator"]

CallOperator: TypeAlias = Callable[[Said, tuple[str, ...], Random], Said | None]
"""Gives the faulty answer, from the answer and the names of the tools on offer; None where it cannot be written."""

_NEAR_NAMES = ("{}_v2", "get_{}", "{}_all", "run_{}", "{}s")
"""How models misname a tool when there is no other to mistake it for."""


def wrong_tool(said: Said, tools: tuple[str, ...], rng: Random) -> Said | None:
    """Call another tool than the one meant; one that does not exist where there is no other."""
    call = _one(said, rng)
    if call is None:
        return None
    others = [name for name in tools if name != call.name]
    name = rng.choice(others) if others else rng.choice(_NEAR_NAMES).format(call.name)
    return _with_call(said, call, replace(call, name=name))


def wrong_argument(said: Said, tools: tuple[str, ...], rng: Random) -> Said | None:
    """Fill one parameter wrongly."""
    call = _one(said, rng)
    given = _read(call.arguments) if call is not None else None
    if call is None or not isinstance(given, dict) or not given:
        return None
    for key in rng.sample(sorted(given), k=len(given)):
        others = [value for other, value in sorted(given.items()) if other != key and type(value) is type(given[key])]
        wrong = _wrong(given[key], others, rng)
        if wrong is not None and wrong != given[key]:
            arguments = json.dumps({**given, key: wrong}, ensure_ascii=False)
            return _with_call(said, call, replace(call, arguments=arguments))
    return None


def malformed_arguments(said: Said, tools: tuple[str, ...], rng: Random) -> Said | None:
    """Write arguments that are no JSON, as models do."""
    call = _one(said, rng)
    if call is None or _read(call.arguments) is None:
        return None
    text = call.arguments.rstrip()
    candidates = [text[:-1], text[:-1] + ",", text.replace('"', "'") if '"' in text else text[:-1], "```json " + text]
    wrong = [each for each in candidates if _read(each) is None]
    return _with_call(said, call, replace(call, arguments=rng.choice(wrong))) if wrong else None


def no_tool(said: Said, tools: tuple[str, ...], rng: Random) -> Said | None:
    """Answer from memory where a look was needed."""
    return Said(said.text or choose(FAULTS.from_memory, rng)) if said.calls else None


def _one(said: Said, rng: Random) -> ToolCall | None:
    return rng.choice(said.calls) if said.calls else None


def _with_call(said: Said, old: ToolCall, new: ToolCall) -> Said:
    return replace(said, calls=tuple(new if call is old else call for call in said.calls))


def _read(text: str) -> Any:  # whatever JSON holds
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _wrong(value: Any, others: list[Any], rng: Random) -> Any:  # of the type it had
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        slipped = _read(slip(json.dumps(value), rng) or "") if numbers(json.dumps(value)) else None
        return others[0] if slipped is None and others else slipped
    if isinstance(value, str):
        return _wrong_text(value, others, rng)
    if isinstance(value, list) and value:
        return value[:-1]
    return None


def _wrong_text(value: str, others: list[Any], rng: Random) -> str | None:
    found = numbers(value)
    slipped = slip(found[-1].text, rng) if found else None
    if slipped is not None:
        return with_replaced(value, [(found[-1], slipped)])
    if others:
        return str(rng.choice(others))
    words = value.split()
    if len(words) >= 2:
        return " ".join(words[:-1])
    return value[:-1] if len(value) >= 2 else None


CALL_OPERATORS: Mapping[str, CallOperator] = MappingProxyType(
    {
        operator.__name__.replace("_", "-"): operator
        for operator in (wrong_tool, wrong_argument, malformed_arguments, no_tool)
    }
)
"""Operators on a model's calls, by name."""
