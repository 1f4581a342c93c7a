"""Checks and ids shared by the importers of JSON records."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from blamespan import json_text
from blamespan.errors import UnreadableInput

__all__ = ["parse_json", "span_id", "trace_id"]


def parse_json(text: bytes, source: str, expected: str) -> dict[str, Any]:
    """Parse *text* as one JSON object; the values are whatever the file holds.

    Args:
        text: UTF-8.
        source: Where it comes from, for the message.
        expected: What it should be, for the message: `an AEGIS run`.

    Raises:
        UnreadableInput: if it is anything else.
    """
    try:
        value = json_text.parse_json(text.decode("utf-8-sig"))
    except ValueError as error:
        raise UnreadableInput(
            f"{source}: expected {expected} as a JSON object, got {text[:60]!r} ({error}). "
            "Export the file again, or remove what is broken."
        ) from error
    if not isinstance(value, dict):
        raise UnreadableInput(
            f"{source}: expected {expected} as a JSON object, got {type(value).__name__} {text[:60]!r}. "
            "Is this another format? Name it with --format."
        )
    return value


def trace_id(*parts: str) -> str:
    """Derive a run's trace id from its content: the same run gets the same id, wherever its file lies."""
    return _digest("run", *parts)[:32]


def span_id(trace: str, index: int) -> str:
    """Derive the span id of step *index* of *trace*."""
    return _digest("step", trace, str(index))[:16]


def _digest(*parts: str) -> str:
    joined = "\0".join(f"{len(part)}:{part}" for part in parts)
    return sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()
