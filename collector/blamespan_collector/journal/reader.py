"""Reads the journal and drops what is done."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeAlias, TypeVar

from blamespan_collector.journal.entries import Entry, Position, unpack_keys
from blamespan_collector.journal.folder import SIDE_FILES, folder_bytes, segment_path, segments
from blamespan_collector.journal.segment import damaged, delete, open_to_read

__all__ = ["JournalReader"]

_OPEN_SEGMENTS = 16
"""Connections kept: traces in the making seldom reach back further."""
_SELECT = (
    "SELECT row, received_ns, signal, trace_id, keys, length(payload) FROM entries WHERE row > ? ORDER BY row LIMIT ?"
)

_Payload: TypeAlias = bytes
"""`bytes` is a method below."""
_Result = TypeVar("_Result")


class JournalReader:
    """Reads what `JournalWriter` wrote, in another process or this one; may be used from several threads.

    Args:
        folder: The journal's folder; segments may appear while we read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: OrderedDict[int, sqlite3.Connection] = OrderedDict()
        self._lock = threading.Lock()

    def segments(self) -> list[int]:
        """List the segments, oldest first. The last one is being written."""
        return segments(self._folder)

    def check(self, segment: int) -> None:
        """Make sure that a segment can be opened.

        Raises:
            JournalUnreadable: as `read`.
        """
        self._in_segment(segment, lambda _: None)

    def read(self, after: Position | None, limit: int) -> list[Entry]:
        """Read the entries that follow *after*, in order; nothing where there is none yet.

        Args:
            after: Where the last call ended; None for the start. A segment that is gone is passed over.
            limit: How many at most.

        Raises:
            JournalUnreadable: if a segment is damaged (`set_aside` it to go on), not ours or of a newer version.
        """
        first, row = after or Position(0, 0)
        entries: list[Entry] = []
        # Listed before any is read: a segment with one after it is closed, so that nothing can still come to it
        for segment in self.segments():
            if segment < first or len(entries) >= limit:
                continue
            entries += self._read_segment(segment, row if segment == first else 0, limit - len(entries))
        return entries

    def payload(self, position: Position) -> _Payload:
        """Read one payload.

        Raises:
            KeyError: if there is no such entry, e.g. because its segment was dropped.
            JournalUnreadable: as `read`.
        """
        return self.payloads([position])[0]

    def payloads(self, positions: Iterable[Position]) -> list[_Payload]:
        """Read payloads, in the order of *positions*; sorted ones are read fastest.

        Raises:
            KeyError: as `payload`.
            JournalUnreadable: as `read`.
        """
        found: list[_Payload] = []
        for segment, group in groupby(positions, key=lambda position: position.segment):
            found += self._payloads(segment, [position.row for position in group])
        return found

    def drop(self, segment: int) -> None:
        """Delete a segment: all in it is done. One that is gone already is no error.

        Raises:
            ValueError: if it is the one being written.
        """
        last = max(self.segments(), default=-1)
        if segment >= last:
            raise ValueError(f"expected a segment below {last}, the one being written, got {segment!r}")
        self._forget(segment)
        delete(self._folder, segment)

    def set_aside(self, segment: int) -> Path:
        """Move a damaged segment out of the way, for a person to look at. Returns where it is now."""
        self._forget(segment)
        path = segment_path(self._folder, segment)
        for suffix in SIDE_FILES:
            beside = Path(f"{path}{suffix}")
            if beside.exists():
                beside.rename(f"{path}{suffix}.damaged")
        return Path(f"{path}.damaged")

    def bytes(self) -> int:
        """Sum up what the journal's folder takes on disk, all that is in it."""
        return folder_bytes(self._folder)

    def close(self) -> None:
        """Close the files."""
        for segment in list(self._open):
            self._forget(segment)

    def _read_segment(self, segment: int, after_row: int, limit: int) -> list[Entry]:
        def select(connection: sqlite3.Connection) -> list[Entry]:
            rows = connection.execute(_SELECT, (after_row, limit)).fetchall()
            return [
                Entry(Position(segment, row), received_ns, signal, trace_id, unpack_keys(keys), size_bytes)
                for row, received_ns, signal, trace_id, keys, size_bytes in rows
            ]

        return self._in_segment(segment, select) or []

    def _payloads(self, segment: int, rows: Sequence[int]) -> list[_Payload]:
        def select(connection: sqlite3.Connection) -> list[_Payload]:
            payloads: list[_Payload] = []
            for row in rows:
                found = connection.execute("SELECT payload FROM entries WHERE row = ?", (row,)).fetchone()
                if found is None:
                    raise KeyError(Position(segment, row))
                payloads.append(found[0])
            return payloads

        found = self._in_segment(segment, select)
        if found is None:
            raise KeyError(Position(segment, rows[0]))
        return found

    def _in_segment(self, segment: int, select: Callable[[sqlite3.Connection], _Result]) -> _Result | None:
        """Query a segment; None where it does not exist."""
        with self._lock:
            try:
                connection = self._connection(segment)
                return None if connection is None else select(connection)
            except FileNotFoundError:
                return None
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError as error:
                raise damaged(self._folder, segment, error) from error

    def _connection(self, segment: int) -> sqlite3.Connection | None:
        connection = self._open.get(segment)
        if connection is None:  # also one that was not begun in full when we last looked
            connection = open_to_read(self._folder, segment)
            if connection is None:
                return None
            self._open[segment] = connection
            if len(self._open) > _OPEN_SEGMENTS:
                _, oldest = self._open.popitem(last=False)
                _close(oldest)
        self._open.move_to_end(segment)
        return connection

    def _forget(self, segment: int) -> None:
        with self._lock:
            _close(self._open.pop(segment, None))


def _close(connection: sqlite3.Connection | None) -> None:
    if connection is not None:
        connection.close()
