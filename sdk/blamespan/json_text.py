"""Reading JSON that somebody else wrote: attributes, files and requests."""

from __future__ import annotations

import json
import re
from typing import Any

MAX_NESTING = 100
"""Deeper values are refused: whatever walks through them would run out of stack. Protobuf's limit for itself."""


def parse_json(text: str | bytes) -> Any:
    """Read *text* as JSON; half a surrogate pair, which no Unicode text can hold, comes as U+FFFD.

    Raises:
        ValueError: if it is no JSON, or nested deeper than `MAX_NESTING`.
    """
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"expected JSON nested at most {MAX_NESTING} deep, got more") from error
    brackets = text.count(b"[") + text.count(b"{") if isinstance(text, bytes) else text.count("[") + text.count("{")
    if brackets > MAX_NESTING and is_deep(value):
        raise ValueError(f"expected JSON nested at most {MAX_NESTING} deep, got more")
    return without_half_pairs(value) if may_hold_half_pairs(text) else value


def parse_deep_json(text: str | bytes) -> Any:
    """Read *text* as `parse_json` does, at any depth that Python's parser takes: whoever asks has a limit of its own.

    Raises:
        ValueError: if it is no JSON, or nested too deep for Python.
    """
    try:
        value = json.loads(text)
        return without_half_pairs(value) if may_hold_half_pairs(text) else value
    except RecursionError as error:
        raise ValueError("expected JSON that Python can read, got one that is nested too deep") from error


def may_hold_half_pairs(text: str | bytes) -> bool:
    """Check whether JSON has escapes of surrogates, paired or not."""
    if isinstance(text, bytes):
        return (b"\\u" in text) and _SURROGATE_BYTES.search(text) is not None
    return "\\u" in text and _SURROGATE.search(text) is not None


def without_half_pairs(value: Any) -> Any:
    """Replace halves of surrogate pairs by U+FFFD in all texts of a JSON value nested at most `MAX_NESTING` deep."""
    if isinstance(value, str):
        return value if value.isascii() else _HALF.sub("\ufffd", value)
    if isinstance(value, list):
        return [without_half_pairs(item) for item in value]
    if isinstance(value, dict):
        return {without_half_pairs(key): without_half_pairs(item) for key, item in value.items()}
    return value


_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE_BYTES = re.compile(_SURROGATE.pattern.encode())
_HALF = re.compile("[\ud800-\udfff]")


def is_deep(value: object) -> bool:
    """Check whether a JSON value is nested deeper than `MAX_NESTING`."""
    level = [value]
    for _ in range(MAX_NESTING + 1):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return False
    return True


def text_or_json(value: object) -> str:
    """Return a text as it is, and anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
