"""How far a segment is acknowledged: a small file beside it, by which a cut or emptied segment is noticed.

    slot   magic, version, flags, sync marker, end, entries, spans, CRC     48 bytes

The same slot is written twice, half a kilobyte apart, after each commit and before its answers. Writing it does not
wait for the disk: after a power cut it may say too little, and never too much.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

_MAGIC = b"bsmk"
_SLOT = struct.Struct(">4sII8sQQQ")
_CRC = struct.Struct(">I")
_APART_BYTES = 512
"""One sector: a disk writes each whole, or not at all."""
_FILE_BYTES = _APART_BYTES + _SLOT.size + _CRC.size
_VERSION = 1
_DROPPED = 1
_ATTEMPTS = 3
"""A reader in another process can meet a mark that is half written; both halves of it, hardly twice."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Up to where a segment is acknowledged.

    Attributes:
        marker: The segment's sync marker.
        end: Offset behind the last acknowledged record.
        entries: Acknowledged entries in the segment, which is the row of the last one.
        spans: Spans in them, as `log.span_count` counts.
        is_dropped: Whether the segment is about to be deleted.
    """

    marker: bytes
    end: int
    entries: int = 0
    spans: int = 0
    is_dropped: bool = False


class MarkFile:
    """Writes a segment's mark.

    Args:
        path: The file; made, or written over.

    Raises:
        OSError: if it cannot be written.
    """

    def __init__(self, path: Path, mark: Mark, *, is_durable: bool) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self.write(mark)
            if is_durable:  # once: what a power cut leaves of it is a mark, too
                os.fsync(self._file)
        except BaseException:
            self.close()
            raise

    def write(self, mark: Mark) -> None:
        """Write the mark over the last one.

        Raises:
            OSError: if it cannot be written.
        """
        slot = _pack(mark)
        write_all(self._file, slot.ljust(_APART_BYTES, b"\0") + slot, 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def read_mark(path: Path) -> Mark | None:
    """Read a segment's mark, the later one of its two slots; None where it is missing or both slots are damaged.

    Raises:
        OSError: if it cannot be read now.
    """
    for _ in range(_ATTEMPTS):
        file = open_file(path)
        if file is None:
            return None
        try:
            packed = read_all(file, _FILE_BYTES, 0)
        finally:
            os.close(file)
        slots = [mark for at in (0, _APART_BYTES) if (mark := _unpack(packed[at : at + _SLOT.size + _CRC.size]))]
        if slots:
            return max(slots, key=lambda mark: (mark.is_dropped, mark.end))
    return None


def open_file(path: Path) -> int | None:
    """Open a file to read it; None where there is none, or a folder, a pipe or the like in its place.

    Raises:
        OSError: if it cannot be opened now.
    """
    try:
        file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        return None
    except OSError:
        if path.exists() and not path.is_file():
            return None
        raise
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def read_all(file: int, size_bytes: int, offset: int) -> bytes:
    """Read bytes at an offset, up to the file's end, however few of them the system gives at once.

    Raises:
        OSError: if they cannot be read.
    """
    data = os.pread(file, size_bytes, offset)
    while len(data) < size_bytes and (more := os.pread(file, size_bytes - len(data), offset + len(data))):
        data += more
    return data


def write_all(file: int, data: bytes, offset: int) -> None:
    """Write bytes at an offset, however few of them the system takes at once.

    Raises:
        OSError: if they cannot all be written.
    """
    rest = memoryview(data)
    while rest:
        written = os.pwrite(file, rest, offset)
        if not written:
            raise OSError(errno.EIO, "the system took none of the bytes")
        rest, offset = rest[written:], offset + written


def drop_mark(path: Path) -> None:
    """Note that a segment is about to be deleted: its mark alone, left by a kill, is then no sign of damage."""
    mark = read_mark(path)
    if mark is not None:
        MarkFile(path, replace(mark, is_dropped=True), is_durable=False).close()


def _pack(mark: Mark) -> bytes:
    flags = _DROPPED * mark.is_dropped
    packed = _SLOT.pack(_MAGIC, _VERSION, flags, mark.marker, mark.end, mark.entries, mark.spans)
    return packed + _CRC.pack(zlib.crc32(packed))


def _unpack(packed: bytes) -> Mark | None:
    if len(packed) < _SLOT.size + _CRC.size or _CRC.unpack_from(packed, _SLOT.size)[0] != zlib.crc32(
        packed[: _SLOT.size]
    ):
        return None
    magic, version, flags, marker, end, entries, spans = _SLOT.unpack_from(packed)
    if magic != _MAGIC or version != _VERSION:
        return None
    return Mark(marker, end, entries, spans, bool(flags & _DROPPED))
