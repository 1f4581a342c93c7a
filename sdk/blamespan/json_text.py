"""Reading JSON that somebody else wrote: attributes, files and requests."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["MAX_NESTING", "is_deep", "parse_json"]

MAX_NESTING = 100
"""Deeper values are refused: whatever walks through them would run out of stack. Protobuf's limit for itself."""


def parse_json(text: str | bytes) -> Any:
    """Read *text* as JSON.

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
    return value


def is_deep(value: object) -> bool:
    """Tell whether a JSON value is nested deeper than `MAX_NESTING`."""
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
