"""JSON that fits into so many bytes and is still JSON: the longest texts are cut, then items are left out."""

from __future__ import annotations

import json
from collections.abc import Sequence

from blamespan_integrations.recording.plain import Json

__all__ = ["encode", "encode_spaced", "fits", "fitted_messages", "fitted_value", "quoted", "well_formed"]

encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False).encode
"""Write JSON values as compact text."""
encode_spaced = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False).encode
"""Write JSON values as text for people to read: arguments and answers of tools are a step's content."""

quoted = json.encoder.encode_basestring
"""Write a text as JSON."""

_NAMES = frozenset({"type", "id", "name", "role", "modality"})
"""Fields of messages and parts that are not cut: they say what the others are."""


def fits(text: str, limit: int) -> bool:
    """Return whether the UTF-8 form of *text* has at most *limit* bytes; not if it has none (lone surrogates)."""
    if len(text) > limit:
        return False
    if text.isascii():
        return True
    try:
        return len(text.encode()) <= limit
    except UnicodeEncodeError:
        return False


def well_formed(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, by `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def fitted_messages(messages: Sequence[dict[str, Json]], limit: int) -> str:
    """Write messages within *limit* bytes: the longest texts are cut; where that is not enough, the oldest go."""
    kept = list(messages)
    while kept:
        parts = sum(len(message["parts"]) for message in kept)  # type: ignore[arg-type,misc]  # always a list
        room = max(0, limit // max(parts, 1) - 160)
        chars = limit if parts == 1 else room
        while chars:
            text = well_formed(encode([_shortened_message(message, chars) for message in kept]))
            if len(text.encode()) <= limit:
                return text
            chars = chars * 3 // 4
        kept = kept[len(kept) // 2 + 1 :] if len(kept) > 1 else []
    return "[]"


def fitted_value(value: Json, limit: int) -> str:
    """Write *value* within *limit* bytes: as shorter JSON of the same shape, else as the start of its text."""
    for share in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        text = well_formed(encode_spaced(_shortened(value, limit // share)))
        if len(text.encode()) <= limit:
            return text
    text = well_formed(encode_spaced(value))
    chars = limit
    while chars and len(encode(text[:chars]).encode()) > limit:
        chars = chars * 3 // 4
    return encode(text[:chars]) if chars else ""


def _shortened_message(message: dict[str, Json], chars: int) -> dict[str, Json]:
    parts: list[dict[str, Json]] = message["parts"]  # type: ignore[assignment]  # always objects
    return {**message, "parts": [{k: v if k in _NAMES else _cut_field(v, chars) for k, v in p.items()} for p in parts]}


def _cut_field(value: Json, chars: int) -> Json:
    if isinstance(value, str):
        return value.encode("utf-8", "replace")[:chars].decode("utf-8", "ignore")
    if isinstance(value, dict | list):
        text = encode_spaced(value)
        return value if len(text) <= chars else text[:chars]
    return value


def _shortened(value: Json, chars: int) -> Json:
    if isinstance(value, str):
        return value[:chars]
    items = max(1, chars // 8)
    if isinstance(value, list):
        return [_shortened(item, chars) for item in value[:items]]
    if isinstance(value, dict):
        return {key[:chars]: _shortened(item, chars) for key, item in list(value.items())[:items]}
    return value
