"""Contents on the wire: every value is capped, and what was cut says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from blamespan import conventions as words
from blamespan.messages import Message, dump_messages

__all__ = ["Capped", "cap_messages", "cap_text"]


class Capped:
    """Remembers which values of one span were cut, and how long they were.

    Args:
        max_bytes: Most UTF-8 bytes one value may have.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._original: dict[str, int] = {}

    def note(self, key: str, original_bytes: int) -> None:
        """Remember that the value of *key* was *original_bytes* long."""
        self._original[key] = original_bytes

    def attributes(self) -> dict[str, list[str] | list[int]]:
        """Write what was cut as `blamespan.truncated` and `blamespan.original_bytes`."""
        if not self._original:
            return {}
        return {words.TRUNCATED: list(self._original), words.ORIGINAL_BYTES: list(self._original.values())}


def cap_text(capped: Capped, key: str, text: str) -> str:
    """Cut *text* on a character boundary if it is over the limit. Lone surrogates become `?`."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) > capped.max_bytes:
        capped.note(key, len(encoded))
        encoded = encoded[: capped.max_bytes]
    return encoded.decode("utf-8", "ignore")


def cap_messages(capped: Capped, key: str, messages: Sequence[Message]) -> str:
    """Write messages as JSON within the limit: the longest texts are cut, the JSON stays whole.

    Where even that does not fit (very many messages), the oldest are left out.
    """
    text = dump_messages(messages).encode("utf-8", "replace").decode()
    size = len(text.encode())
    if size <= capped.max_bytes:
        return text
    capped.note(key, size)
    kept = list(messages)
    while kept:
        room = capped.max_bytes // sum(len(message.parts) for message in kept) - 160
        limit = max(0, room)
        while limit:
            text = dump_messages([_cut(message, limit) for message in kept]).encode("utf-8", "replace").decode()
            if len(text.encode()) <= capped.max_bytes:
                return text
            limit = limit * 3 // 4
        kept = kept[len(kept) // 2 + 1 :] if len(kept) > 1 else []
    return "[]"


def _cut(message: Message, limit: int) -> Message:
    return replace(message, parts=tuple(_cut_part(part, limit) for part in message.parts))


def _cut_part(part: Mapping[str, Any], limit: int) -> dict[str, Any]:
    return {
        field: value.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore")
        if isinstance(value, str) and field not in ("type", "id", "name")
        else value
        for field, value in part.items()
    }
