"""Operators on the calls of tools in a model's answer: the wrong one, wrongly filled, ill formed, or none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import Any, TypeAlias

from blamespan.intercepting.boundaries import Said, ToolCall
from blamespan_lab.make.faults.operators.edits import slip
from blamespan_lab.make.faults.text_parts import find_numbers, replace_parts
from blamespan_lab.make.wordings import choose
from blamespan_lab.make.wordings.banks import FAULTS

CallOperator: TypeAlias = Callable[[Said, tuple[str, ...], Random], Said | None]
"""Gives the faulty answer, from the answer and the names of the tools on offer; None where it cannot be written."""

_NEAR_NAMES = ("{}_v2", "get_{}", "{}_all", "run_{}", "{}s")
"""How models misname a tool when there is no other to mistake it for."""


def wrong_tool(message: Said, tools: tuple[str, ...], rng: Random) -> Said | None:
    """Call another tool than the one meant; one that does not exist where there is no other."""
    call = _choose_call(message, rng)
    if call is None:
        return None
    others = [name for name in tools if name != call.name]
    name = rng.choice(others) if others else rng.choice(_NEAR_NAMES).format(call.name)
    return _replace_call(message, call, replace(call, name=name))


def wrong_argument(message: Said, tools: tuple[str, ...], rng: Random) -> Said | None:
    """Fill one parameter wrongly."""
    call = _choose_call(message, rng)
    arguments = _parse_json(call.arguments) if call is not None else None
    if call is None or not isinstance(arguments, dict) or not arguments:
        return None
    for key in rng.sample(sorted(arguments), k=len(arguments)):
        others = [
            value for other, value in sorted(arguments.items()) if other != key and type(value) is type(arguments[key])
        ]
        wrong = _make_wrong(arguments[key], others, rng)
        if wrong is not None and wrong != arguments[key]:
            text = json.dumps({**arguments, key: wrong}, ensure_ascii=False)
            return _replace_call(message, call, replace(call, arguments=text))
    return None


def malformed_arguments(message: Said, tools: tuple[str, ...], rng: Random) -> Said | None:
    """Write arguments that are no JSON, as models do."""
    call = _choose_call(message, rng)
    if call is None or _parse_json(call.arguments) is None:
        return None
    text = call.arguments.rstrip()
    candidates = [text[:-1], text[:-1] + ",", text.replace('"', "'") if '"' in text else text[:-1], "```json " + text]
    wrong = [candidate for candidate in candidates if _parse_json(candidate) is None]
    return _replace_call(message, call, replace(call, arguments=rng.choice(wrong))) if wrong else None


def no_tool(message: Said, tools: tuple[str, ...], rng: Random) -> Said | None:
    """Answer from memory where a look was needed."""
    return Said(message.text or choose(FAULTS.from_memory, rng)) if message.calls else None


def _choose_call(message: Said, rng: Random) -> ToolCall | None:
    return rng.choice(message.calls) if message.calls else None


def _replace_call(message: Said, old: ToolCall, new: ToolCall) -> Said:
    return replace(message, calls=tuple(new if call is old else call for call in message.calls))


def _parse_json(text: str) -> Any:  # whatever JSON holds
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _make_wrong(value: Any, others: list[Any], rng: Random) -> Any:  # of the type it had
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        slipped = _parse_json(slip(json.dumps(value), rng) or "") if find_numbers(json.dumps(value)) else None
        return others[0] if slipped is None and others else slipped
    if isinstance(value, str):
        return _make_wrong_text(value, others, rng)
    if isinstance(value, list) and value:
        return value[:-1]
    return None


def _make_wrong_text(value: str, others: list[Any], rng: Random) -> str | None:
    matches = find_numbers(value)
    slipped = slip(matches[-1].text, rng) if matches else None
    if slipped is not None:
        return replace_parts(value, [(matches[-1], slipped)])
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
