"""Any object a program hands around as JSON values, and JSON that fits into so many bytes.

`Plain` masks an object and bounds it in size, depth and time. What is too long is cut so that it is still JSON: the
longest texts are cut, then items are left out.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias

from blamespan_integrations.recording.masking import Masker
from blamespan_integrations.recording.secret_patterns import LONGEST_SECRET, MASKED

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_MAX_DEPTH = 20
"""States nest a few levels; what nests deeper than this is shown as `...`."""
_MAX_INTEGER_BITS = 14_000
"""Python refuses to write longer integers: it takes quadratic time."""
_MAX_KEY_CHARS = 512
_LEFT_OUT = "..."
encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False, allow_nan=False).encode
"""Write JSON values as compact text."""
encode_spaced = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False).encode
"""Write JSON values as text for people to read: arguments and answers of tools are a step's content."""

quote_json = json.encoder.encode_basestring
"""Write a text as JSON."""

_NAMES = frozenset({"type", "id", "name", "role", "modality"})
"""Fields of messages and parts that are not cut: they say what the others are."""


class Plain:
    """Turns one object into JSON values. Nothing in the object can make it raise or run on.

    Args:
        masker: Masks its texts and the values of its keys.
        limit: Characters that will be kept: what lies far beyond is left out.
        lost: Told what could not be recorded and why.

    Attributes:
        omitted: Characters left out so far, as far as they were counted.
    """

    def __init__(self, masker: Masker, limit: int, lost: Callable[[str], None]) -> None:
        self._masker = masker
        self._limit = limit
        self._lost = lost
        self._room = 2 * limit
        self._above: set[int] = set()
        self.omitted = 0

    def of(self, value: object, depth: int = 0) -> Json:
        """Convert *value*."""
        kind = type(value)
        if kind is str:
            return self.text(value)  # type: ignore[arg-type]
        if value is None or kind is bool:
            return value  # type: ignore[return-value]
        self._room -= 8
        if isinstance(value, int | float) and not isinstance(value, Enum):
            return _number(value)
        if self._room < 0 or depth > _MAX_DEPTH:
            self.omitted += 1
            return _LEFT_OUT
        try:
            return self._structure(value, depth)
        except Exception as error:  # the program's own __str__, properties or iterators may raise anything
            return self._unreadable(value, type(error).__name__)

    def text(self, text: str) -> str:
        """Mask *text* and cut it to what is left of the limit."""
        limit = min(self._limit, max(0, self._room))
        self._room -= len(text)
        cut_text = self._masker.text(text, limit, self._lost)
        if len(text) > limit + LONGEST_SECRET:
            self.omitted += max(1, len(text) - len(cut_text))
        return cut_text

    def renew(self) -> None:
        """Begin another object: it has all the room again."""
        self._room = 2 * self._limit

    def _structure(self, value: object, depth: int) -> Json:
        if isinstance(value, str):
            return self.text(str.__str__(value))
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(value)
        fields = _fields(value)
        if fields is None and not isinstance(value, list | tuple | set | frozenset | deque):
            return self.text(self._as_shown_text(value))
        if id(value) in self._above:
            return self._unreadable(value, "it holds itself")
        self._above.add(id(value))
        try:
            if fields is not None:
                return self._mapping(fields, depth)
            return [self.of(item, depth + 1) for item in self._while_room(value)]  # type: ignore[arg-type]
        finally:
            self._above.discard(id(value))

    def _mapping(self, fields: Iterable[tuple[object, object]], depth: int) -> dict[str, Json]:
        mapping: dict[str, Json] = {}
        for key, value in fields:
            if self._room < 0:
                self.omitted += 1
                break
            name = key if type(key) is str else str(self.of(key, _MAX_DEPTH))
            self._room -= len(name)
            if len(name) <= _MAX_KEY_CHARS:
                is_hidden = self._masker.hides(name, value)
                name = self._masker.key(name, self._lost)
            else:
                name, is_hidden = self.text(name), False
            mapping[name] = MASKED if is_hidden else self.of(value, depth + 1)
        return mapping

    def _while_room(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if self._room < 0:
                self.omitted += 1
                return
            yield item

    def _bytes(self, value: bytes | bytearray | memoryview) -> str:
        size = value.nbytes if isinstance(value, memoryview) else len(value)
        head = bytes(value[: 2 * self._limit])
        try:
            return self.text(head.decode() if len(head) == size else head.decode("utf-8", "strict"))
        except UnicodeDecodeError as error:
            if len(head) < size and error.start > len(head) - 4:  # only the last character was cut in two
                return self.text(head[: error.start].decode())
        self._lost(f"{size} bytes that are no text")
        return f"<{size} bytes>"

    def _as_shown_text(self, value: object) -> str:
        if isinstance(value, type) or callable(value):
            return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"
        kind = type(value)
        if kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__:  # an address says nothing
            return f"<{kind.__qualname__}>"
        return str.__str__(str(value))

    def _unreadable(self, value: object, why: str) -> str:
        name = type(value).__qualname__
        self._lost(f"{name}: {why}")
        return f"<{name}>"


def _number(value: int | float) -> Json:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else float.__repr__(value)  # JSON has no NaN
    bits = int.bit_length(value)
    return int(value) if bits <= _MAX_INTEGER_BITS else f"<integer of {bits} bits>"


def _fields(value: object) -> Iterable[tuple[object, object]] | None:
    """Read what has named fields without asking it to write itself: mappings, dataclasses, pydantic models."""
    if isinstance(value, Mapping):
        return value.items()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    declared = getattr(type(value), "model_fields", None)
    if isinstance(declared, Mapping):
        return ((name, getattr(value, name, None)) for name in declared)
    return None


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


def replace_surrogates(text: str) -> str:
    """Replace lone surrogates, which UTF-8 cannot hold, by `?`."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def fit_messages(messages: Sequence[dict[str, Json]], limit: int) -> str:
    """Write messages within *limit* bytes: the longest texts are cut; where that is not enough, the oldest go."""
    left = list(messages)
    while left:
        parts = sum(len(message["parts"]) for message in left)  # type: ignore[arg-type,misc]  # always a list
        room = max(0, limit // max(parts, 1) - 160)
        chars = limit if parts == 1 else room
        while chars:
            text = replace_surrogates(encode([_shorten_message(message, chars) for message in left]))
            if len(text.encode()) <= limit:
                return text
            chars = chars * 3 // 4
        left = left[len(left) // 2 + 1 :] if len(left) > 1 else []
    return "[]"


def fit_value(value: Json, limit: int) -> str:
    """Write *value* within *limit* bytes: as shorter JSON of the same shape, else as the start of its text."""
    for share in (1, 2, 4, 8, 16, 32, 64, 128, 256):
        text = replace_surrogates(encode_spaced(_shorten(value, limit // share)))
        if len(text.encode()) <= limit:
            return text
    text = replace_surrogates(encode_spaced(value))
    chars = limit
    while chars and len(encode(text[:chars]).encode()) > limit:
        chars = chars * 3 // 4
    return encode(text[:chars]) if chars else ""


def _shorten_message(message: dict[str, Json], chars: int) -> dict[str, Json]:
    parts: list[dict[str, Json]] = message["parts"]  # type: ignore[assignment]  # always objects
    return {**message, "parts": [{k: v if k in _NAMES else _cut_field(v, chars) for k, v in p.items()} for p in parts]}


def _cut_field(value: Json, chars: int) -> Json:
    if isinstance(value, str):
        return value.encode("utf-8", "replace")[:chars].decode("utf-8", "ignore")
    if isinstance(value, dict | list):
        text = encode_spaced(value)
        return value if len(text) <= chars else text[:chars]
    return value


def _shorten(value: Json, chars: int) -> Json:
    if isinstance(value, str):
        return value[:chars]
    items = max(1, chars // 8)
    if isinstance(value, list):
        return [_shorten(item, chars) for item in value[:items]]
    if isinstance(value, dict):
        return {key[:chars]: _shorten(item, chars) for key, item in list(value.items())[:items]}
    return value
