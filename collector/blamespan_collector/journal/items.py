"""What stands for a trace's spans while they are held, and on disk: places in the journal, each one number."""

from __future__ import annotations

from collections.abc import Iterable

from blamespan_collector.journal import Entry, Position

_ROW_BITS = 40
_EVENTS = 1 << 62
"""Marks an item that holds events; segments are numbered far below it."""


def pack_position(position: Position) -> int:
    """Write a position as one number that sorts the same."""
    return position.segment << _ROW_BITS | position.row


def unpack_position(item: int) -> Position:
    """Read what `pack_position` or `item_of` wrote."""
    item &= ~_EVENTS
    return Position(item >> _ROW_BITS, item & ((1 << _ROW_BITS) - 1))


def item_of(entry: Entry) -> int:
    """Name an entry as a trace holds it: its packed position, and whether it holds events rather than spans."""
    return pack_position(entry.position) | (_EVENTS if entry.signal == "events" else 0)


def holds_events(item: int) -> bool:
    """Check whether what `item_of` named holds events."""
    return bool(item & _EVENTS)


def divide_items(items: Iterable[int]) -> tuple[list[int], list[int]]:
    """Part a trace's items into those that hold spans and those that hold events, each in order."""
    spans: list[int] = []
    events: list[int] = []
    for item in items:
        (events if item & _EVENTS else spans).append(item)
    return spans, events
