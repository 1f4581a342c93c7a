"""Opening files that people export runs to, compressed or not, and saying what is wrong with them."""

from __future__ import annotations

import gzip
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from blamespan.errors import UnreadableInput

__all__ = ["head_of", "open_bytes", "read_bytes", "read_lines"]

_GZIP_MAGIC = b"\x1f\x8b"
_XZ_MAGIC = b"\xfd7zXZ\x00"

_HEAD_BYTES = 65_536
"""How much of a file an importer sees when it decides whether the file is its own."""

_READ_ERRORS = (OSError, EOFError, lzma.LZMAError, zlib.error)


def open_bytes(path: Path) -> IO[bytes]:
    """Open *path* for reading, decompressing `.gz` and `.xz` by their magic bytes, whatever the name says.

    Raises:
        UnreadableInput: if the file cannot be opened.
    """
    try:
        with path.open("rb") as raw:
            magic = raw.read(len(_XZ_MAGIC))
        if magic.startswith(_GZIP_MAGIC):
            return cast(IO[bytes], gzip.open(path, "rb"))
        return cast(IO[bytes], lzma.open(path, "rb")) if magic == _XZ_MAGIC else path.open("rb")
    except OSError as error:
        raise UnreadableInput(
            f"expected a readable file, got {str(path)!r} ({error.strerror or error}). Check the path."
        ) from error


def read_bytes(path: Path) -> bytes:
    """Read the whole of *path*, decompressed.

    Raises:
        UnreadableInput: if it cannot be opened, or its compression is broken.
    """
    with open_bytes(path) as file:
        try:
            return file.read()
        except _READ_ERRORS as error:
            raise _damaged(path, error) from error


def read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield every line of *path* that is not blank, decompressed, with its number from 1.

    Raises:
        UnreadableInput: if it cannot be opened, or its compression is broken.
    """
    with open_bytes(path) as file:
        try:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line
        except _READ_ERRORS as error:
            raise _damaged(path, error) from error


def head_of(path: Path) -> bytes:
    """Read the first 64 KiB of *path*, decompressed.

    Raises:
        UnreadableInput: if it cannot be opened, or its compression is broken.
    """
    with open_bytes(path) as file:
        try:
            return file.read(_HEAD_BYTES)
        except _READ_ERRORS as error:
            raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> UnreadableInput:
    return UnreadableInput(
        f"expected a whole file, got {str(path)!r}, which breaks off or is damaged ({error}). Fetch it again."
    )
