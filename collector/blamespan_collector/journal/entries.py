"""What the journal holds: entries, each one trace's spans of one request, or one request of logs or metrics.

Beside a request of logs, each trace's messages in it are an entry, too: the trace is judged by them.
While a trace is held, and on disk, an item stands for an entry: its place in the journal as one number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeAlias

Signal: TypeAlias = Literal["traces", "logs", "metrics"]
Content: TypeAlias = Literal["traces", "logs", "metrics", "events"]
"""What an entry holds. `events`: log records that hold messages of one trace's spans, once more."""

STEP: Final = 1
"""The span is an agent's step. Only the embedded mode sets it: in the journal nobody has looked for it."""
RUN_COMPLETE: Final = 2
"""The span says `blamespan.run.complete`: its run ended in order."""
PARENT_IS_REMOTE: Final = 4
"""The span's parent ran in another process; means something only beside `REMOTE_IS_KNOWN`."""
REMOTE_IS_KNOWN: Final = 8
"""The sender said whether the parent ran in another process."""

_KEY = struct.Struct(">8s8sB")
KEY_BYTES: Final = _KEY.size
"""Length of a packed key."""
_NO_PARENT = bytes(8)
_ROW_BITS = 40
_EVENTS = 1 << 62
"""Marks an item that holds events; segments are numbered far below it."""


class Position(NamedTuple):
    """Where an entry is; later ones compare greater, also across segments."""

    segment: int
    row: int


class SpanKey(NamedTuple):
    """What assembling needs to know of a span.

    Attributes:
        span_id: 8 bytes, never all zero.
        parent_id: 8 bytes; all zero where there is none.
        flags: Sum of `STEP`, `RUN_COMPLETE`, `PARENT_IS_REMOTE`, `REMOTE_IS_KNOWN`.
    """

    span_id: bytes
    parent_id: bytes
    flags: int

    @property
    def has_parent(self) -> bool:
        """Check whether the span names a parent."""
        return self.parent_id != _NO_PARENT

    @property
    def parent_is_remote(self) -> bool | None:
        """Check whether the parent ran in another process; None where the sender does not say."""
        return bool(self.flags & PARENT_IS_REMOTE) if self.flags & REMOTE_IS_KNOWN else None


@dataclass(frozen=True, slots=True)
class NewEntry:
    """What is to be written.

    Attributes:
        signal: What it is.
        trace_id: 16 bytes for traces and events, else empty.
        keys: One packed key per span, or per event the one of its span, in the payload's order; see `pack_keys`.
            Empty for logs and metrics.
        payload: A serialised `ExportTraceServiceRequest` with spans of one trace, as they came; or the
            whole `ExportLogsServiceRequest` or `ExportMetricsServiceRequest`; for events, an
            `ExportLogsServiceRequest` of log records alone.
        received_ns: Unix time in ns at which it came.
    """

    signal: Content
    trace_id: bytes
    keys: bytes
    payload: bytes
    received_ns: int

    @property
    def size_bytes(self) -> int:
        """Count what it takes on disk, but for a row's few bytes."""
        return len(self.keys) + len(self.payload)


@dataclass(frozen=True, slots=True)
class Entry:
    """What was written, without its payload; `JournalReader.payload` gives that.

    Attributes:
        position: Where it is.
        received_ns: Unix time in ns at which it came.
        signal: What it is.
        trace_id: 16 bytes for traces and events, else empty.
        keys: One per span or event, in the payload's order; may name one span twice, as senders may.
        size_bytes: Of the payload.
    """

    position: Position
    received_ns: int
    signal: Content
    trace_id: bytes
    keys: tuple[SpanKey, ...]
    size_bytes: int


def pack_keys(keys: Iterable[tuple[bytes, bytes, int]]) -> bytes:
    """Pack (span id, parent id or empty, flags), 17 bytes each."""
    return b"".join([_KEY.pack(*key) for key in keys])


def unpack_keys(packed: bytes) -> tuple[SpanKey, ...]:
    """Read what `pack_keys` wrote.

    Raises:
        struct.error: if the length is no multiple of 17.
    """
    return tuple(map(SpanKey._make, _KEY.iter_unpack(packed)))


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
