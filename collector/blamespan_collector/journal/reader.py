"""Reads the journal and drops what is done."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from pathlib import Path

from blamespan_collector.journal.entries import Entry, Position
from blamespan_collector.journal.folder import check_version, delete, folder_bytes, segments
from blamespan_collector.journal.segment import Damage, SegmentFile, marker_of

_OPEN_SEGMENTS = 64
"""Files kept open, with the places of their entries: traces in the making seldom reach back further."""
_KEPT_BYTES = 1024 * 1024
"""Kept of one damaged place."""
_MAX_KEPT_BYTES = 64 * 1024 * 1024
"""Kept of all damaged places; beyond it damage is reported, but its bytes are not kept."""


class JournalReader:
    """Reads what `JournalWriter` wrote, in another process or this one; may be used from several threads.

    What is damaged is left out; `take_damages` tells of it.

    Args:
        folder: The journal's folder; segments may appear while we read.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: OrderedDict[int, SegmentFile] = OrderedDict()
        self._lock = threading.Lock()
        self._damages: list[Damage] = []
        self._reported: set[tuple[int, int, range]] = set()
        self._last = 0

    def segments(self) -> list[int]:
        """List the segments, oldest first. The last one that ever was is being written; those before it are closed.

        Raises:
            OSError: if the folder cannot be read now.
        """
        numbers = segments(self._folder)
        self._last = max([self._last, *numbers])
        return numbers

    def check(self, segment: int) -> None:
        """Make sure that a segment can be opened.

        Raises:
            JournalUnreadable: if an earlier or a newer version wrote it.
        """
        check_version(self._folder)
        with self._lock:
            self._segment(segment).marker()

    def read(self, after: Position | None, limit: int) -> list[Entry]:
        """Read the entries that follow *after*, in order; nothing where there is none yet.

        Args:
            after: Where the last call ended; None for the start. A segment that is gone is passed over.
            limit: How many at most.

        Raises:
            JournalUnreadable: if a newer version wrote a segment.
            OSError: if the disk cannot be read now.
        """
        first, row = after or Position(0, 0)
        entries: list[Entry] = []
        with self._lock:
            opened = list(self._open)  # one whose file was deleted meanwhile is read to its end nevertheless
        # Listed before any is read: a segment with one after it is closed, so that nothing can still come to it
        for segment in sorted({*self.segments(), *opened}):
            if segment < first or len(entries) >= limit:
                continue
            after_row = row if segment == first else 0
            with self._lock:
                is_closed = segment < self._last
                entries += self._segment(segment).read(after_row, limit - len(entries), is_closed=is_closed)
        return entries

    def payload(self, position: Position) -> bytes:
        """Read one payload.

        Raises:
            KeyError: if there is no such entry, because its segment was dropped or it is damaged.
            JournalUnreadable, OSError: as `read`.
        """
        if position.segment >= self._last:
            self.segments()
        with self._lock:
            segment = self._segment(position.segment)
            return segment.payload(position.row, is_closed=position.segment < self._last)

    def payloads(self, positions: Iterable[Position]) -> list[bytes]:
        """Read payloads, in the order of *positions*; sorted ones are read fastest.

        Raises:
            KeyError, JournalUnreadable, OSError: as `payload`.
        """
        return [self.payload(position) for position in positions]

    def take_damages(self) -> list[Damage]:
        """Return the damages that were found since the last call, each once."""
        with self._lock:
            damages = self._damages.copy()
            self._damages.clear()
        news = [damage for damage in damages if (damage.segment, damage.offset, damage.rows) not in self._reported]
        self._reported.update((damage.segment, damage.offset, damage.rows) for damage in news)
        return news

    def keep_damaged(self, damage: Damage) -> Path | None:
        """Keep damaged bytes in the folder `damaged`, for a person to look at, as far as there is room for them.

        Returns:
            Where; None where they were kept before.

        Raises:
            OSError: if they cannot be kept, or enough are kept already.
        """
        folder = self._folder / "damaged"
        path = folder / f"{damage.segment:010d}-{damage.offset:012d}-{damage.rows.start}.bin"
        if path.exists():
            return None
        folder.mkdir(mode=0o700, exist_ok=True)
        size_bytes = min(damage.size_bytes, _KEPT_BYTES)
        if sum(content.stat().st_size for content in folder.iterdir()) + size_bytes > _MAX_KEPT_BYTES:
            size_bytes = 0
        with self._lock:
            content = self._segment(damage.segment).bytes_at(damage.offset, size_bytes)
        path.write_bytes(content)
        return path

    def drop(self, segment: int) -> None:
        """Delete a segment: all in it is done. One that is gone already is no error.

        Raises:
            ValueError: if it is the one being written, or another one stands in its place than the one that was read.
            OSError: if it cannot be deleted now.
        """
        self.segments()
        if segment >= self._last:
            raise ValueError(f"expected a segment below {self._last}, the one being written, got {segment}")
        with self._lock:
            marker, there = self._segment(segment).marker(), marker_of(self._folder, segment)
        if marker is not None and there not in (None, marker):
            raise ValueError(f"expected the segment {segment} that was read, got another one of that name")
        self._forget(segment)
        delete(self._folder, segment)

    def bytes(self) -> int:
        """Sum up what the journal's folder takes on disk, all that is in it."""
        return folder_bytes(self._folder)

    def close(self) -> None:
        """Close the files."""
        for segment in list(self._open):
            self._forget(segment)

    def _segment(self, segment: int) -> SegmentFile:
        opened = self._open.get(segment)
        if opened is None:
            opened = self._open[segment] = SegmentFile(self._folder, segment, self._damages)
            if len(self._open) > _OPEN_SEGMENTS:
                _, oldest = self._open.popitem(last=False)
                oldest.close()
        self._open.move_to_end(segment)
        return opened

    def _forget(self, segment: int) -> None:
        with self._lock:
            opened = self._open.pop(segment, None)
            if opened is not None:
                opened.close()
