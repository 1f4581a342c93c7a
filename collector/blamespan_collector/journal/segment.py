"""Reads one segment, of which any bytes may be damaged: every entry whose own bytes hold comes back."""

from __future__ import annotations

import os
import time
import zlib
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from blamespan_collector.journal.entries import Content, Entry, Position, unpack_keys
from blamespan_collector.journal.errors import JournalUnreadable
from blamespan_collector.journal.folder import mark_path, segment_path
from blamespan_collector.journal.log import (
    FORMAT,
    HEADER_BYTES,
    MARKER_BYTES,
    RECORD_BYTES,
    RecordHeader,
    unpack_header,
    unpack_record,
)
from blamespan_collector.journal.mark import Mark, open_file, read_all, read_mark

_CHUNK_BYTES = 1024 * 1024
_BLOCK_BYTES = 4096
"""Read on its own where the disk fails to read more at once."""
_PATIENCE_S = 30.0
"""How long the disk may fail at a place before what stands there counts as damaged: most faults pass."""
_DAMAGED: Final = 2**64 - 1
"""Stands for the offset of an entry that cannot be read."""
_WRONG = "the checksum is wrong"
_NO_HEADER = "its header cannot be read"
_OF_MARK: Final = -1
"""Stands for the place of the mark among the places where the disk fails."""

_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of a segment that are not what was written, or are gone.

    Attributes:
        segment: Of the journal.
        offset: Where they begin.
        size_bytes: How many; 0 where the file was cut off there.
        reason: What is wrong.
        rows: Rows of the acknowledged entries that cannot be read for it; empty where none is lost.
        spans: What those held, as `log.span_count` counts.
        trace_id: Whose they were, where that can still be read; else empty.
        signal: What they were; None where that cannot be read.
        was_read: Whether `SegmentFile.read` gave the entry before its bytes were damaged.
    """

    segment: int
    offset: int
    size_bytes: int
    reason: str
    rows: range = range(0)
    spans: int = 0
    trace_id: bytes = b""
    signal: Content | None = None
    was_read: bool = False

    def __str__(self) -> str:
        """Name the place, for the log."""
        whose = f" of trace {self.trace_id.hex()}" if self.trace_id else ""
        return (
            f"journal segment {self.segment} is damaged at byte {self.offset} ({self.size_bytes} bytes{whose}): "
            f"{self.reason}"
        )


class SegmentFile:
    """Reads a segment from its beginning to its end, and entries of it in any order. For one thread.

    Every method raises OSError where the disk fails now, and can be called again; JournalUnreadable where a newer
    version wrote the segment.

    Args:
        folder: The journal's folder.
        segment: Its number.
        damages: Gets what is found damaged.

    Raises:
        OSError: if it cannot be opened now.
    """

    def __init__(self, folder: Path, segment: int, damages: list[Damage]) -> None:
        self._segment = segment
        self._damages = damages
        self._mark_path = mark_path(folder, segment)
        self._offsets = array("Q")
        self._fresh: dict[int, Entry] = {}
        self._spans = 0
        self._at = HEADER_BYTES
        self._damaged_at: int | None = None
        self._is_ended = False
        self._marker: bytes | None = None
        self._failing: tuple[int, float] | None = None
        self._path = segment_path(folder, segment)
        file = open_file(self._path)
        self._file = -1 if file is None else file

    def close(self) -> None:
        """Close the file."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def marker(self) -> bytes | None:
        """Return by what the segment is known; None where nothing is in it as yet, or it cannot be read."""
        self._read_header()
        return self._marker

    def read(self, after_row: int, limit: int, *, is_closed: bool) -> list[Entry]:
        """Read entries behind a row, in order, as far as they are acknowledged.

        Args:
            after_row: 0 for the start.
            limit: How many at most.
            is_closed: Whether nothing comes to the segment any more; then what is missing at its end is damage.
        """
        entries: list[Entry] = []
        row = after_row + 1
        while len(entries) < limit:
            if row <= len(self._offsets):
                entry = self._fresh.pop(row, None) or self._entry(row)
                if entry is not None:
                    entries.append(entry)
                row += 1
            elif not self._scan(is_closed=is_closed):
                break
        return entries

    def payload(self, row: int, *, is_closed: bool) -> bytes:
        """Read an entry's payload.

        Raises:
            KeyError: if there is no such entry, or it is damaged.
        """
        while row > len(self._offsets):
            if not self._scan(is_closed=is_closed):
                raise KeyError(Position(self._segment, row))
            self._fresh.clear()  # nobody asks for these entries
        record = self._record(row)
        if record is None:
            raise KeyError(Position(self._segment, row))
        header, data = record
        return data[RECORD_BYTES + header.keys_bytes :]

    def bytes_at(self, offset: int, size_bytes: int) -> bytes:
        """Read bytes as they are, as far as there are any."""
        return self._pread(size_bytes, offset)

    def _read_header(self) -> Mark | None:
        """Read the sync marker, if it is there by now, and the mark; None where that is of no use."""
        mark = self._patiently(_OF_MARK, lambda: read_mark(self._mark_path), lambda: None)
        if self._marker is None:
            packed = self._pread(HEADER_BYTES, 0)
            header = unpack_header(packed)
            if header is not None and header[0] > FORMAT:
                raise JournalUnreadable(
                    f"expected a journal segment of version {FORMAT} or lower, got {str(self._path)!r} of version "
                    f"{header[0]}: a newer blamespan wrote it. Upgrade this one, or let the newer one deliver it first",
                    self._segment,
                )
            if header is not None:
                self._marker = header[1]
            elif mark is not None or self._size() > HEADER_BYTES:
                self._marker = mark.marker if mark else self._guess_marker()
                if self._file >= 0 and self._marker is not None:
                    self._damages.append(Damage(self._segment, 0, len(packed), _NO_HEADER))
        return mark if mark is not None and mark.marker == self._marker else None

    def _size(self) -> int:
        return os.fstat(self._file).st_size if self._file >= 0 else 0

    def _guess_marker(self) -> bytes | None:
        """Return what the first whole record near the beginning starts with; None where there is none."""
        buffer = self._pread(_CHUNK_BYTES, 0)
        for at in range(len(buffer) - RECORD_BYTES + 1):
            marker = buffer[at : at + MARKER_BYTES]
            if marker.count(0) < MARKER_BYTES and unpack_record(buffer, at, marker) is not None:
                return marker
        return None

    def _scan(self, *, is_closed: bool) -> bool:
        """Read on, about a chunk; return whether there was anything."""
        if self._is_ended:
            return False
        before = self._at, len(self._offsets)
        mark = self._read_header()
        size_bytes = self._size()
        if self._marker is None and is_closed and size_bytes > HEADER_BYTES:  # no record of it can be known
            self._marker = bytes(MARKER_BYTES)
            self._damages.append(Damage(self._segment, 0, HEADER_BYTES, _NO_HEADER))
        if self._marker is None or (mark is not None and mark.is_dropped):  # nothing is in it, or needed of it
            self._is_ended = is_closed
            return False
        end = size_bytes if is_closed or mark is None else min(mark.end, size_bytes)
        if self._at < end:
            self._scan_chunk(end, mark, is_closed=is_closed)
        if is_closed and self._at >= end:
            self._finish(mark, size_bytes)
        return (self._at, len(self._offsets)) != before

    def _scan_chunk(self, end: int, mark: Mark | None, *, is_closed: bool) -> None:
        start = self._at
        buffer = self._pread(min(_CHUNK_BYTES, end - start), start)
        while start <= self._at < end:
            at = self._at - start
            if at and at + RECORD_BYTES > len(buffer):
                return  # the next chunk begins with it
            header = self._header(buffer, at)
            if header is None or self._at + header.size_bytes > end:  # damaged, cut off, or not acknowledged
                if not self._skip(end, mark, is_closed=is_closed):
                    return
                continue
            if at + header.size_bytes > len(buffer):
                if at:
                    return
                buffer = self._pread(header.size_bytes, start)
            self._take(header, buffer, at)

    def _header(self, buffer: bytes, at: int) -> RecordHeader | None:
        """Read the header of a record that comes behind the ones that were read."""
        assert self._marker is not None
        header = unpack_record(buffer, at, self._marker)
        return header if header is not None and header.row > len(self._offsets) else None

    def _take(self, header: RecordHeader, buffer: bytes, at: int) -> None:
        """Take in the record at an offset of *buffer*; the rows that it leaves out are lost."""
        body = memoryview(buffer)[at + RECORD_BYTES : at + header.size_bytes]
        is_whole = len(body) == header.size_bytes - RECORD_BYTES and zlib.crc32(body) == header.checksum
        # Where bytes were put in or taken out the next record is elsewhere: it is looked for behind this one's header
        after = self._at + header.size_bytes
        after = after if is_whole or self._has_record(after, header.row) else self._at + RECORD_BYTES
        self._pass_over(header.row - 1, header.spans_before, self._at, 0, "entries before it are missing")
        self._offsets.append(self._at)
        self._spans = header.spans_before + header.spans
        if is_whole:
            self._fresh[header.row] = self._make_entry(header, bytes(body[: header.keys_bytes]))
        else:
            self._lose(header, was_read=False)
        self._at = after

    def _has_record(self, offset: int, row_before: int) -> bool:
        head = self._pread(RECORD_BYTES, offset)
        header = self._header(head, 0)
        return not head or (header is not None and header.row > row_before)

    def _skip(self, end: int, mark: Mark | None, *, is_closed: bool) -> bool:
        """Go on at the next record whose header holds; return False where there is none."""
        assert self._marker is not None
        damaged_at, start = self._at, self._at + 1
        while start < end:
            buffer = self._pread(min(_CHUNK_BYTES, end - start), start)
            at = buffer.find(self._marker)
            while at >= 0:
                header = self._header(buffer, at)
                if header is not None:
                    self._at = start + at
                    self._note_skipped(header, damaged_at)
                    return True
                at = buffer.find(self._marker, at + 1)
            if start + len(buffer) >= end or len(buffer) < RECORD_BYTES:
                break
            start += len(buffer) - RECORD_BYTES + 1
        if is_closed:
            self._at, self._damaged_at = end, damaged_at  # `_finish` tells what of that was acknowledged
            return False
        if mark is not None and mark.end <= end:
            self._pass_over(mark.entries, mark.spans, damaged_at, mark.end - damaged_at, _WRONG)
            self._at = mark.end
        return False

    def _note_skipped(self, header: RecordHeader, damaged_at: int) -> None:
        """Note what lies between the last record and the one of *header*."""
        size_bytes = self._at - damaged_at
        if header.row - 1 > len(self._offsets):
            self._pass_over(header.row - 1, header.spans_before, damaged_at, size_bytes, _WRONG)
        elif not self._offsets or self._offsets[-1] != _DAMAGED:  # else it is the rest of what is noted already
            self._damages.append(Damage(self._segment, damaged_at, size_bytes, "bytes between two entries"))

    def _finish(self, mark: Mark | None, size_bytes: int) -> None:
        """Compare the end of a closed segment with its mark."""
        self._is_ended = True
        damaged_at = size_bytes if self._damaged_at is None else self._damaged_at
        if mark is None:
            if self._file >= 0 and size_bytes > HEADER_BYTES:  # else it was begun, and no more
                reason = "its mark is missing or damaged: whether entries at its end are lost cannot be told"
                self._damages.append(Damage(self._segment, damaged_at, size_bytes - damaged_at, reason))
            return
        cut = max(0, min(size_bytes, mark.end) - damaged_at)
        what = "what was acknowledged ends too early" if self._file >= 0 else "the file is gone"
        self._pass_over(mark.entries, mark.spans, damaged_at, cut, what)

    def _pass_over(self, last_row: int, spans: int, offset: int, size_bytes: int, reason: str) -> None:
        """Note that the rows up to *last_row* cannot be read."""
        first_row = len(self._offsets) + 1
        if last_row < first_row:
            return
        self._offsets.extend([_DAMAGED] * (last_row - first_row + 1))
        rows = range(first_row, last_row + 1)
        self._damages.append(Damage(self._segment, offset, size_bytes, reason, rows, max(0, spans - self._spans)))
        self._spans = max(spans, self._spans)

    def _lose(self, header: RecordHeader, *, was_read: bool) -> None:
        """Note that the entry of a header that holds cannot be read."""
        offset = self._offsets[header.row - 1]
        self._offsets[header.row - 1] = _DAMAGED
        rows = range(header.row, header.row + 1)
        self._damages.append(
            Damage(
                self._segment,
                offset,
                header.size_bytes,
                _WRONG,
                rows,
                header.spans,
                header.trace_id,
                header.signal,
                was_read,
            )
        )

    def _record(self, row: int) -> tuple[RecordHeader, bytes] | None:
        """Read a record that was whole before; None where it is not any more."""
        offset = self._offsets[row - 1]
        if offset == _DAMAGED:
            return None
        assert self._marker is not None
        header = unpack_record(self._pread(RECORD_BYTES, offset), 0, self._marker)
        if header is None or header.row != row:
            self._offsets[row - 1] = _DAMAGED
            rows = range(row, row + 1)
            self._damages.append(Damage(self._segment, offset, RECORD_BYTES, _WRONG, rows, was_read=True))
            return None
        data = self._pread(header.size_bytes, offset)
        if len(data) < header.size_bytes or zlib.crc32(memoryview(data)[RECORD_BYTES:]) != header.checksum:
            self._lose(header, was_read=True)
            return None
        return header, data

    def _entry(self, row: int) -> Entry | None:
        record = self._record(row)
        if record is None:
            return None
        header, data = record
        return self._make_entry(header, data[RECORD_BYTES : RECORD_BYTES + header.keys_bytes])

    def _make_entry(self, header: RecordHeader, keys: bytes) -> Entry:
        position = Position(self._segment, header.row)
        return Entry(
            position, header.received_ns, header.signal, header.trace_id, unpack_keys(keys), header.payload_bytes
        )

    def _pread(self, size_bytes: int, offset: int) -> bytes:
        """Read bytes; blocks that the disk fails to read for long come back as zeros, which no checksum takes for data.

        Raises:
            OSError: if the disk fails here, and has not for long.
        """
        if self._file < 0:
            return b""
        return self._patiently(
            offset,
            partial(read_all, self._file, size_bytes, offset),
            lambda: b"".join(
                self._pread_block(min(_BLOCK_BYTES, offset + size_bytes - at), at)
                for at in range(offset, offset + size_bytes, _BLOCK_BYTES)
            ),
        )

    def _pread_block(self, size_bytes: int, offset: int) -> bytes:
        try:
            return read_all(self._file, size_bytes, offset)
        except OSError:
            return bytes(size_bytes)

    def _patiently(self, place: int, read: Callable[[], _Read], instead: Callable[[], _Read]) -> _Read:
        """Return what is read, or what stands *instead* of it once the disk has failed for `_PATIENCE_S`.

        Of the places where it fails only the first is waited for: a large damaged range is given up at once after it.

        Raises:
            OSError: if the disk fails, and has not for so long.
        """
        try:
            result = read()
        except OSError:
            _, since_s = self._failing = self._failing or (place, time.monotonic())
            if time.monotonic() - since_s < _PATIENCE_S:
                raise
            return instead()
        if self._failing is not None and self._failing[0] == place:
            self._failing = None
        return result


def marker_of(folder: Path, segment: int) -> bytes | None:
    """Return by what the segment that is there now is known; None where none is, or nothing that is ours.

    Raises:
        JournalUnreadable, OSError: as `SegmentFile`.
    """
    file = SegmentFile(folder, segment, [])
    try:
        return file.marker()
    finally:
        file.close()
