"""Ids, times and attributes of spans, from the shapes that exports write them in."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.json_text import text_or_json
from blamespan.trace import AttributeValue, StepStatus

_MAX_NS = 2**63
"""Times are sent as 64-bit integers."""
_HEX = re.compile(r"[0-9a-f]+")
_MAX_DEPTH = 12
_MAX_ATTRIBUTES = 20_000


def trace_id_of(value: object, location: str) -> str:
    """Read a trace id: hex of 64 or 128 bits, a UUID, base64, or any other text, of which one is derived.

    Raises:
        UnreadableInput: if it is no text, or empty.
    """
    return _id_of(value, location, "trace id", 32)


def span_id_of(value: object, location: str) -> str:
    """Read a span id, likewise.

    Raises:
        UnreadableInput: if it is no text, or empty.
    """
    return _id_of(value, location, "span id", 16)


def _id_of(value: object, location: str, what: str, digits: int) -> str:
    if not isinstance(value, str) or not value.strip():
        raise UnreadableInput(f"{location}: expected a {what} as text, got {value!r}. Export the file again.")
    text = value.strip().lower().removeprefix("0x")
    plain = text.replace("-", "") if digits == 32 else text
    if _HEX.fullmatch(plain) and len(plain) <= digits and plain.strip("0"):
        return plain.zfill(digits)
    decoded = _from_base64(value.strip(), digits // 2)
    if decoded is not None:
        return decoded
    return derive_trace_id("id", value) if digits == 32 else derive_trace_id("id", value)[:16]


def _from_base64(text: str, size: int) -> str | None:
    if len(text) != 4 * ((size + 2) // 3) or not text.endswith("="):
        return None
    try:
        raw = base64.b64decode(text.translate({ord("-"): "+", ord("_"): "/"}), validate=True)
    except binascii.Error:
        return None
    return raw.hex() if len(raw) == size and any(raw) else None


def nanoseconds(value: object, location: str, *, per_unit: int = 1_000_000_000) -> int:
    """Read a point in time as Unix nanoseconds.

    Args:
        value: ISO text (UTC where it names no zone), a `datetime`, or a number since 1970.
        location: Where it stands, for the message.
        per_unit: Nanoseconds in the number's unit.

    Raises:
        UnreadableInput: if it is none of these, or outside of what 64 bits hold.
    """
    time_ns: int | None = None
    try:
        if isinstance(value, str) and not value.lstrip("-").isdecimal():
            value = datetime.fromisoformat(value.strip().removesuffix(" UTC"))
        if isinstance(value, datetime):
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            since = aware - datetime(1970, 1, 1, tzinfo=UTC)
            time_ns = ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000
            time_ns += getattr(value, "nanosecond", 0)  # a pandas Timestamp has more digits
        elif isinstance(value, int | str) and not isinstance(value, bool):
            time_ns = int(value) * per_unit
        elif isinstance(value, float):
            time_ns = round(value * per_unit)
    except (ValueError, OverflowError):
        time_ns = None
    if time_ns is None or not 0 <= time_ns < _MAX_NS:
        raise UnreadableInput(
            f"{location}: expected a time since 1970, got {str(value)[:60]!r}. Correct the record or remove it."
        )
    return time_ns


def span_times(start: object, end: object, location: str, *, per_unit: int = 1_000_000_000) -> tuple[int, int]:
    """Read when a span began and ended; one that never ended has no length, one that ended before it began neither.

    Raises:
        UnreadableInput: if the start is no time, or the end is there and is none.
    """
    began = nanoseconds(start, location, per_unit=per_unit)
    is_open = end is None or end == ""
    return began, began if is_open else max(began, nanoseconds(end, location, per_unit=per_unit))


def status_of(value: object) -> StepStatus:
    """Read a status, however it is written."""
    text = str(value).upper()
    return "error" if text.endswith("ERROR") else "ok" if text.endswith("OK") else "unset"


def as_attribute(value: object) -> AttributeValue:
    """Make an attribute of a JSON value: what is no scalar becomes JSON."""
    return value if isinstance(value, str | bool | int | float) else text_or_json(value)


def flatten(value: Mapping[str, Any], *, whole: Iterable[str] = ()) -> dict[str, AttributeValue]:
    """Flatten nested objects and lists of objects to dotted keys, as OpenInference writes its attributes.

    Args:
        value: Attributes, nested to any depth.
        whole: Keys whose values are whole_keys as one JSON text.
    """
    flat: dict[str, AttributeValue] = {}
    whole_keys = frozenset(whole)
    waiting: list[tuple[str, Any, int]] = [(key, item, 0) for key, item in reversed(list(value.items()))]
    while waiting and len(flat) < _MAX_ATTRIBUTES:
        key, item, depth = waiting.pop()
        if item is None:
            continue
        if key in whole_keys or depth >= _MAX_DEPTH:
            flat[key] = as_attribute(item)
        elif isinstance(item, Mapping):
            waiting += [(f"{key}.{inner}", part, depth + 1) for inner, part in reversed(list(item.items()))]
        elif (
            isinstance(item, list)
            and item
            and isinstance(item[0], Mapping)
            and key not in whole_keys
            and depth < _MAX_DEPTH
        ):
            waiting += [(f"{key}.{index}", part, depth + 1) for index, part in reversed(list(enumerate(item)))]
        else:
            flat[key] = as_attribute(item)
    return flat


def derive_trace_id(*parts: str) -> str:
    """Derive a run's trace id from its content: the same run gets the same id, wherever its file lies."""
    return _digest("run", *parts)[:32]


def derive_span_id(trace: str, index: int) -> str:
    """Derive the span id of step *index* of *trace*."""
    return _digest("step", trace, str(index))[:16]


def _digest(*parts: str) -> str:
    joined = "\0".join(f"{len(part)}:{part}" for part in parts)
    return sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()
