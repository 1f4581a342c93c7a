"""Recognizing the result of a run: the very object, or an equal copy of it.

Nothing of a result is kept but hashes and a weak reference: results belong to the program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from itertools import islice
from typing import Any, Final, cast

_MOST_KEYS: Final = 64
_MOST_DEPTH: Final = 6
_MOST_VALUES: Final = 2_000
_ENDS: Final = 4
"""Items at either end of a list that are looked at; beside them its length counts."""
_ADDED = frozenset({"__interrupt__"})
"""Keys that a framework adds to what it returns."""


@dataclass(frozen=True, slots=True, eq=False)
class ResultKey:
    """What a result is recognized by.

    Attributes:
        reference: Returns the object while it lives; None where its class takes no weak references.
        address: Of the object: tells apart equal ones that both live.
        content: Hash of what it says.
        parts: Hashes of what a mapping or record says, by key.
        last: Hash of its last message; None where there are no messages.
    """

    reference: Callable[[], object] | None
    address: int
    content: int
    parts: Mapping[str, int]
    last: int | None

    def is_of(self, result: object) -> bool:
        """Check whether *result* is the very object."""
        return self.reference is not None and self.reference() is result

    def is_like(self, other: ResultKey) -> bool:
        """Check whether *other*, made of what a program says is the result, says the same; it may say more."""
        if self.content == other.content or (self.last is not None and self.last in (other.last, other.content)):
            return True
        return bool(self.parts) and self.parts.items() <= other.parts.items()


def key_of(result: object) -> ResultKey:
    """Return what *result* is recognized by."""
    reader = _ResultReader()
    try:
        result = _value_of(result)
        reference: Callable[[], object] | None = weakref.ref(cast(Any, result))
    except Exception:  # no weak references to it, or a class of the program's own that raises
        reference = None
    items = dict(reader.items(result))
    messages = items.get("messages", result)
    ends = messages[-1:] if isinstance(messages, list | tuple) else ()
    last = next((reader.hash(message) for message in ends if reader.is_message(message)), None)
    parts = {key: reader.hash(value) for key, value in items.items()}
    return ResultKey(reference, id(result), reader.hash(result), parts, last)


def conversation_of(result: object) -> str | None:
    """Return the thread id that a LangGraph config or state snapshot names, or None."""
    config = result if isinstance(result, Mapping) else getattr(result, "config", None)
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    thread_id = configurable.get("thread_id") if isinstance(configurable, Mapping) else None
    return str(thread_id) if thread_id is not None else None


def _value_of(result: object) -> object:
    """Return the state within a LangGraph state snapshot or output record, else *result*."""
    if isinstance(result, tuple) and {"values", "config"} <= set(getattr(result, "_fields", ())):
        return cast(Any, result).values
    if is_dataclass(result) and {"value", "interrupts"} <= {field.name for field in fields(result)}:
        return cast(Any, result).value
    return result


class _ResultReader:
    """Hashes what values say, reading a bounded number of them: a copy is read as far as the original."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def hash(self, value: object, depth: int = 0) -> int:
        """Return a hash that a copy of *value* shares."""
        if not depth:
            self._left = _MOST_VALUES
        self._left -= 1
        if depth == _MOST_DEPTH or self._left < 0:
            return hash(type(value).__name__)
        try:
            return self._hash(value, depth)
        except Exception:  # a class of the program's own may raise at any look
            return hash(type(value).__name__)

    def is_message(self, value: object) -> bool:
        """Check whether *value* has a content, as messages have."""
        try:
            return "content" in value if isinstance(value, Mapping) else hasattr(value, "content")
        except Exception:
            return False

    def items(self, value: object) -> Iterator[tuple[str, Any]]:
        """Yield what a mapping or record holds, by key."""
        try:
            items = list(islice(_fields(value).items(), _MOST_KEYS))
        except Exception:
            return
        yield from ((str(key), item) for key, item in items if key not in _ADDED)

    def _hash(self, value: object, depth: int) -> int:
        if value is None or isinstance(value, str | bytes | int | float):
            return hash((type(value).__name__, value))
        if self.is_message(value):
            message_id = value.get("id") if isinstance(value, Mapping) else getattr(value, "id", None)
            if isinstance(message_id, str) and message_id:
                return hash(("message", message_id))
        if isinstance(value, list | tuple):
            ends = value if len(value) <= 2 * _ENDS else [*value[:_ENDS], *value[-_ENDS:]]
            return hash((len(value), *[self.hash(item, depth + 1) for item in ends]))
        parts = sorted((key, self.hash(item, depth + 1)) for key, item in self.items(value))
        return hash(tuple(parts)) if parts else hash(type(value).__name__)


def _fields(value: object) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name, None) for field in fields(value)}
    return vars(value) if hasattr(type(value), "model_fields") else {}  # pydantic's
