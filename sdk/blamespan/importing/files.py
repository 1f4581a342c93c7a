"""Opening files that people export runs to: compressed or not, in any Unicode encoding, of any size.

Compression and encoding are told by the first bytes, whatever the name says. Nothing here reads more than one line,
or one bounded document, into memory.
"""

from __future__ import annotations

import codecs
import gzip
import io
import lzma
import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from blamespan.errors import MissingExtra, UnreadableInput
from blamespan.importing.reading import has_read

MAX_LINE_BYTES: Final = 64 * 1024 * 1024
"""A longer line or document is refused: reading it as JSON would take ten times its size in memory."""
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""First bytes of a Zstandard frame."""

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"

_OF_THE_KERNEL = ("/proc/", "/sys/")
"""Files below look like files, and some of them never end."""

_HEAD_BYTES = 65_536
"""How much of a file an importer sees when it decides whether the file is its own."""

_ZSTD_READ_BYTES = 4_096
"""Compressed bytes taken at once: hostile ones become at most 32,768 times as many."""
_READ_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks, the longer before those that begin alike."""


def check_is_file(path: Path) -> None:
    """Check that *path* is a file with an end: no device, pipe, socket or folder.

    Raises:
        UnreadableInput: if it is something else.
        OSError: if it cannot be asked for.
    """
    mode = path.stat().st_mode
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    if stat.S_ISREG(mode) and not os.path.realpath(path).startswith(_OF_THE_KERNEL):
        return
    raise UnreadableInput(
        f"expected a file, got {str(path)!r}, which is {kind}. Write what it holds to a file and give that, or pipe it "
        "in and give -"
    )


_KINDS = (
    (stat.S_ISREG, "a view into the system"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def open_bytes(path: Path) -> io.BufferedIOBase:
    """Open *path* for reading, decompressing gzip, xz and Zstandard; Unicode text comes as UTF-8 without a mark.

    Raises:
        UnreadableInput: if the file cannot be opened, or needs a package that is not installed.
    """
    try:
        check_is_file(path)
        with path.open("rb") as raw:
            magic = raw.read(len(_XZ_MAGIC))
        return _as_utf8(_open_decompressed(path, magic))
    except MissingExtra as error:
        raise UnreadableInput(f"{path}: {error}") from error
    except OSError as error:
        raise UnreadableInput(
            f"expected a readable file, got {str(path)!r} ({error.strerror or error}). Check the path."
        ) from error


def read_bytes(path: Path) -> bytes:
    """Read the whole of *path*, decompressed.

    Raises:
        UnreadableInput: if it cannot be opened, is longer than `MAX_LINE_BYTES`, or its compression is broken.
    """
    with open_bytes(path) as file, read_errors(path):
        data = file.read(MAX_LINE_BYTES + 1)
    if len(data) > MAX_LINE_BYTES:
        raise UnreadableInput(
            f"{path}: expected a document of at most {MAX_LINE_BYTES} bytes, got more. Export fewer runs at a time, "
            "or one per line."
        )
    return data


def read_lines(path: Path, *, refused: list[UnreadableInput] | None = None) -> Iterator[tuple[int, bytes]]:
    """Yield every line of *path* that is not blank, decompressed, with its number from 1.

    Args:
        path: The file.
        refused: Where given, a line longer than `MAX_LINE_BYTES` is left out and its error added here.

    Raises:
        UnreadableInput: if it cannot be opened, or its compression is broken; without *refused*, at such a line.
    """
    with open_bytes(path) as file, read_errors(path):
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) <= MAX_LINE_BYTES:
                if line.strip():
                    yield number, line
                continue
            size = len(line) + _skip_line(file, line)
            error = UnreadableInput(
                f"{path}:{number}: expected a line of at most {MAX_LINE_BYTES} bytes, got {size}. Export fewer runs "
                "at a time, or one per line."
            )
            if refused is None:
                raise error
            refused.append(error)


def head_of(path: Path) -> bytes:
    """Read the first 64 KiB of *path*, decompressed; of a file that breaks off before, what there is.

    Raises:
        UnreadableInput: if it cannot be opened, or nothing of it can be decompressed.
    """
    head = b""
    with open_bytes(path) as file:
        try:
            with read_errors(path):
                while len(head) < _HEAD_BYTES and (more := file.read(min(1_024, _HEAD_BYTES - len(head)))):
                    head += more
        except UnreadableInput:
            if not head:
                raise
    return head


@contextmanager
def read_errors(path: Path) -> Iterator[None]:
    """Turn what reading a damaged file raises into an error that names it.

    Raises:
        UnreadableInput: in place of what was raised within.
    """
    try:
        yield
    except _READ_ERRORS as error:
        raise UnreadableInput(
            f"expected a whole file, got {str(path)!r}, which breaks off or is damaged ({error}). Fetch it again."
        ) from error


def unzstd(data: bytes) -> bytes:
    """Decompress one Zstandard message.

    Raises:
        MissingExtra: if the package for it is not installed.
        UnreadableInput: if it is damaged, or longer than `MAX_LINE_BYTES`.
    """
    with _Zstd(io.BytesIO(data)) as stream:
        try:
            found = stream.read(MAX_LINE_BYTES + 1)
        except OSError as error:
            raise UnreadableInput(f"expected a whole Zstandard message, got a damaged one ({error})") from error
    if len(found) > MAX_LINE_BYTES:
        raise UnreadableInput(f"expected a message of at most {MAX_LINE_BYTES} bytes, got more")
    return found


def _skip_line(file: io.BufferedIOBase, piece: bytes) -> int:
    """Read to the end of a line that is too long; give how many bytes that were."""
    skipped = 0
    while not piece.endswith(b"\n") and (piece := file.readline(1 << 20)):
        skipped += len(piece)
    return skipped


def _open_decompressed(path: Path, magic: bytes) -> io.BufferedIOBase:
    if magic.startswith(_GZIP_MAGIC):
        return _Gzip(_buffer(_SizedFile(path)))
    if magic == _XZ_MAGIC:
        return _Xz(_buffer(_SizedFile(path)))
    if magic.startswith(ZSTD_MAGIC):
        return _buffer(_Zstd(_buffer(_SizedFile(path))))
    return _buffer(_SizedFile(path))


def _as_utf8(file: io.BufferedIOBase) -> io.BufferedIOBase:
    """Return *file* as UTF-8 where its first bytes say that it is text in another Unicode encoding."""
    try:
        start = file.read(4)
    except _READ_ERRORS:
        start = b""  # whoever reads it meets the error, and names the file
    file.seek(0)
    mark, encoding = next((pair for pair in _MARKS if start.startswith(pair[0])), (b"", _detect_encoding(start)))
    if mark:
        file.read(len(mark))
    return file if encoding is None or encoding == "utf-8" else _buffer(_Recoded(file, encoding))


def _detect_encoding(start: bytes) -> str | None:
    """Detect UTF-16 without a mark: JSON begins with two characters below 128."""
    if len(start) == 4 and start[0:1] in b"{[" and start[1] == start[3] == 0 and start[2]:
        return "utf-16-le"
    return "utf-16-be" if len(start) == 4 and start[1:2] in b"{[" and start[0] == start[2] == 0 and start[3] else None


def _buffer(raw: io.RawIOBase) -> io.BufferedReader:
    return io.BufferedReader(raw, 1 << 18)


class _SizedFile(io.FileIO):
    """A file as long as it was when it was opened, that tells how far it has been read.

    A file that is written to while it is read might otherwise never end.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, "rb")
        self._path = path
        self._size = os.fstat(self.fileno()).st_size

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]  # typeshed: any buffer
        count = super().readinto(memoryview(buffer)[: max(0, self._size - self.tell())])
        has_read(self._path, self.tell())
        return count

    def readall(self) -> bytes:
        """Read to the end, by `readinto`: the method of `FileIO` would read on past it."""
        pieces = []
        buffer = memoryview(bytearray(1 << 20))
        while count := self.readinto(buffer):
            pieces.append(bytes(buffer[:count]))
        return b"".join(pieces)


class _Gzip(gzip.GzipFile):
    """A gzip file that owns the one beneath."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__(fileobj=file, mode="rb")
        self._beneath = file

    def close(self) -> None:
        super().close()
        self._beneath.close()


class _Xz(lzma.LZMAFile):
    """An xz file that owns the one beneath."""

    def __init__(self, file: io.BufferedReader) -> None:
        super().__init__(file, "rb")
        self._beneath = file

    def close(self) -> None:
        super().close()
        self._beneath.close()


class _Recoded(io.RawIOBase):
    """Text in another encoding, read as UTF-8; what is no text comes as U+FFFD."""

    def __init__(self, file: io.BufferedIOBase, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self._ready = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed: any buffer
        while not self._ready and (raw := self._file.read(1 << 16)):
            self._ready = self._decoder.decode(raw).encode("utf-8", "replace")
        if not self._ready:
            self._ready = self._decoder.decode(b"", final=True).encode("utf-8", "replace")
            self._decoder.reset()
        taken = self._ready[: len(buffer)]
        self._ready = self._ready[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Zstd(io.RawIOBase):
    """Zstandard frames, one after the other, as one stream; one that breaks off is an OSError, as in gzip.

    The package's own stream reader takes a file that breaks off for one that ends.

    Raises:
        MissingExtra: if the package is not installed.
    """

    def __init__(self, file: io.BufferedIOBase) -> None:
        try:
            import zstandard
        except ModuleNotFoundError as error:
            file.close()
            raise MissingExtra(
                "reading Zstandard needs the package 'zstandard', which is not installed. "
                "Install it with: pip install 'blamespan[importers]'"
            ) from error
        self._file = file
        self._error = zstandard.ZstdError
        self._new = zstandard.ZstdDecompressor(max_window_size=1 << 27).decompressobj
        self._frame = self._new()
        self._is_inside = False
        self._raw = b""
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go back to the start, the only place there is to go to."""
        if (offset, whence) != (0, 0):
            raise io.UnsupportedOperation("a compressed stream can only be read again from its start")
        self._file.seek(0)
        self._frame, self._is_inside = self._new(), False
        self._raw = b""
        self._ready = memoryview(b"")
        return 0

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # typeshed: any buffer
        while not self._ready and (raw := self._raw or self._file.read(_ZSTD_READ_BYTES)):
            self._decompress(raw)
        if not self._ready and self._is_inside:
            raise EOFError("the Zstandard frame breaks off")
        taken = self._ready[: len(buffer)]
        self._ready = self._ready[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _decompress(self, raw: bytes) -> None:
        try:
            self._ready = memoryview(self._frame.decompress(raw))
        except self._error as error:
            raise OSError(str(error)) from error
        self._is_inside = not self._frame.eof
        self._raw = b""
        if self._frame.eof:
            self._raw = self._frame.unused_data
            self._frame = self._new()
