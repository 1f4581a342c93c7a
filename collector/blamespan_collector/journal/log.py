"""The bytes of a segment: a header, then one record for each entry.

    header   magic, version, sync marker, CRC                                                  32 bytes
    record   sync marker, row, spans before it in the segment, received_ns, trace id, length
             of keys and payload, signal, CRC of keys and payload, CRC of all that             65 bytes
             keys, payload

All integers are big-endian, every CRC is zlib's CRC-32. The sync marker is drawn anew for each segment: a sender
cannot know it, so no payload can hold what looks like a record. A reader that meets damaged bytes looks for the
next marker whose record header holds; the numbers in that header tell how many entries and spans were passed over.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import Final, NamedTuple

from blamespan_collector.journal.entries import KEY_BYTES, Content, NewEntry

FORMAT: Final = 2
"""Version of the journal; 1 were SQLite files. A higher one was written by a newer blamespan."""
_MAGIC = b"blamespan journl"
MARKER_BYTES: Final = 8
_HEADER = struct.Struct(">16sI8s")
_CRC = struct.Struct(">I")
HEADER_BYTES: Final = _HEADER.size + _CRC.size
_RECORD = struct.Struct(">8sQQq16sIIBI")
RECORD_BYTES: Final = _RECORD.size + _CRC.size
_NO_TRACE = bytes(16)
_SIGNALS: tuple[Content, ...] = ("traces", "logs", "metrics", "events")
_NUMBERS: dict[Content, int] = {signal: number for number, signal in enumerate(_SIGNALS, 1)}


class RecordHeader(NamedTuple):
    """What a record says of itself before its keys and payload.

    Attributes:
        row: Of the entry; they count from 1 without a gap.
        spans_before: What the entries before it in the segment hold, as `span_count` counts.
        received_ns: As `NewEntry.received_ns`.
        trace_id: As `NewEntry.trace_id`.
        keys_bytes: Length of the packed keys.
        payload_bytes: Length of the payload.
        signal: As `NewEntry.signal`.
        checksum: CRC-32 of keys and payload together.
    """

    row: int
    spans_before: int
    received_ns: int
    trace_id: bytes
    keys_bytes: int
    payload_bytes: int
    signal: Content
    checksum: int

    @property
    def size_bytes(self) -> int:
        """Return the length of the whole record."""
        return RECORD_BYTES + self.keys_bytes + self.payload_bytes

    @property
    def spans(self) -> int:
        """Return what the entry adds to `spans_before` of the next one."""
        return span_count(self.signal, self.keys_bytes)


def span_count(signal: Content, keys_bytes: int) -> int:
    """Count what is lost with an entry: spans; a request of logs or metrics is one; events are a copy, so none."""
    if signal == "events":
        return 0
    return keys_bytes // KEY_BYTES if signal == "traces" else 1


def new_marker() -> bytes:
    """Draw a segment's sync marker."""
    return os.urandom(MARKER_BYTES)


def pack_header(marker: bytes) -> bytes:
    """Write the header of a segment."""
    packed = _HEADER.pack(_MAGIC, FORMAT, marker)
    return packed + _CRC.pack(zlib.crc32(packed))


def unpack_header(packed: bytes) -> tuple[int, bytes] | None:
    """Read a segment's header: version and sync marker; None where it is damaged or none."""
    if len(packed) < HEADER_BYTES or _CRC.unpack_from(packed, _HEADER.size)[0] != zlib.crc32(packed[: _HEADER.size]):
        return None
    magic, version, marker = _HEADER.unpack_from(packed)
    return (version, marker) if magic == _MAGIC else None


def pack_record(marker: bytes, row: int, spans_before: int, entry: NewEntry) -> tuple[bytes, bytes, bytes]:
    """Write an entry as the pieces of its record, without copying its payload.

    Raises:
        TypeError, KeyError, struct.error: if the entry is not what `NewEntry` says.
    """
    if len(entry.trace_id) not in (0, 16):
        raise TypeError(f"expected a trace id of 16 bytes or none, got {entry.trace_id!r}")
    packed = _RECORD.pack(
        marker,
        row,
        spans_before,
        entry.received_ns,
        entry.trace_id or _NO_TRACE,
        len(entry.keys),
        len(entry.payload),
        _NUMBERS[entry.signal],
        zlib.crc32(entry.payload, zlib.crc32(entry.keys)),
    )
    return packed + _CRC.pack(zlib.crc32(packed)), entry.keys, entry.payload


def unpack_record(buffer: bytes, at: int, marker: bytes) -> RecordHeader | None:
    """Read a record's header at an offset of *buffer*; None where there is none, or a damaged one."""
    if not buffer.startswith(marker, at) or len(buffer) - at < RECORD_BYTES:
        return None
    view = memoryview(buffer)[at : at + RECORD_BYTES]
    if _CRC.unpack_from(view, _RECORD.size)[0] != zlib.crc32(view[: _RECORD.size]):
        return None
    _, row, spans, received_ns, trace_id, keys_bytes, payload_bytes, number, checksum = _RECORD.unpack_from(view)
    if not 1 <= number <= len(_SIGNALS):
        return None
    signal = _SIGNALS[number - 1]
    trace_id = trace_id if signal in ("traces", "events") else b""
    return RecordHeader(row, spans, received_ns, trace_id, keys_bytes, payload_bytes, signal, checksum)
