"""Any object a program hands around, as values JSON can hold: masked, bounded in size, depth and time."""

from __future__ import annotations

import dataclasses
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, TypeAlias

from blamespan_integrations.recording.masking import MASKED, Masker
from blamespan_integrations.recording.secret_patterns import LONGEST_SECRET

__all__ = ["Json", "Plain"]

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

_MAX_DEPTH = 20
"""States nest a few levels; what nests deeper than this is shown as `...`."""
_MAX_INTEGER_BITS = 14_000
"""Python refuses to write longer integers: it takes quadratic time."""
_MAX_KEY_CHARS = 512
_LEFT_OUT = "..."


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
        kept = self._masker.text(text, limit, self._lost)
        if len(text) > limit + LONGEST_SECRET:
            self.omitted += max(1, len(text) - len(kept))
        return kept

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
            return self.text(self._shown(value))
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
        found: dict[str, Json] = {}
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
            found[name] = MASKED if is_hidden else self.of(value, depth + 1)
        return found

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

    def _shown(self, value: object) -> str:
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
