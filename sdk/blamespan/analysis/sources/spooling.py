"""What can be read only once, kept in a temporary file so that importers can look at it and read it again."""

from __future__ import annotations

import atexit
import io
import os
import select
import stat
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import IO

from blamespan.errors import UnreadableInput
from blamespan.importing.files import check_is_file

MAX_SPOOLED_BYTES = 64 * 1024**3
"""More from a pipe is refused: it would fill the disk of whoever forgot that it does not end."""
PREFIX = "blamespan-"
"""Begins the names of our temporary files; `TMPDIR` says where they lie."""

_BLOCK_BYTES = 4 * 1024 * 1024
_PATIENCE_S = 10.0
"""Seconds that a named pipe may give nothing: one that nobody writes to never would."""
_OPENED = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Pipes that whoever started us has opened; these may take their time, as standard input may."""


def spool_stdin() -> Path:
    """Copy standard input to a temporary file that is removed when this process ends.

    Raises:
        UnreadableInput: if it is longer than `MAX_SPOOLED_BYTES`, cannot be read, or does not fit on the disk.
    """
    return _spool(sys.stdin.buffer, "stdin")


def spool_pipe(path: Path) -> Path:
    """Copy a pipe likewise; devices and sockets, which have no end, are refused.

    Raises:
        UnreadableInput: as for `spool_stdin`; also if it is no pipe, or a named one that gives nothing for 10 s.
    """
    try:
        if not stat.S_ISFIFO(path.stat().st_mode):
            check_is_file(path)
        if str(path).startswith(_OPENED):
            with path.open("rb") as file:
                return _spool(file, str(path))
        with io.BufferedReader(_NamedPipe(path), _BLOCK_BYTES) as file:
            return _spool(file, str(path))
    except OSError as error:
        raise UnreadableInput(
            f"expected a readable file, got {str(path)!r} ({error.strerror or error}). Check the path."
        ) from error


class _NamedPipe(io.FileIO):
    """A pipe in the file system that is given up when it stays silent.

    Raises:
        UnreadableInput: when it gives nothing for `_PATIENCE_S`.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")
        self._path = path
        self._poll = select.poll()
        self._poll.register(self, select.POLLIN)

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]  # typeshed: any buffer
        if not self._poll.poll(_PATIENCE_S * 1_000):
            raise UnreadableInput(
                f"expected a pipe that something is written to, got {str(self._path)!r}, which gave nothing for "
                f"{_PATIENCE_S:.0f} s. Start what writes to it, or write to a file and give that"
            )
        return super().readinto(buffer)


def copy_bounded(source: IO[bytes], target: IO[bytes], name: str, *, max_bytes: int | None = None) -> None:
    """Copy *source* to *target*, a block at a time.

    Raises:
        UnreadableInput: if it is longer than *max_bytes*.
    """
    copied = 0
    while block := source.read(_BLOCK_BYTES):
        copied += len(block)
        if max_bytes is not None and copied > max_bytes:
            raise UnreadableInput(
                f"{name}: expected at most {max_bytes} bytes, got more. Write it to a file and analyze that."
            )
        target.write(block)
    target.flush()


def _spool(source: IO[bytes], name: str) -> Path:
    with NamedTemporaryFile(prefix=PREFIX, delete=False) as target:
        path = Path(target.name)
        atexit.register(_remove, path, os.getpid())
        try:
            copy_bounded(source, target, name, max_bytes=MAX_SPOOLED_BYTES)
        except (OSError, UnreadableInput) as error:
            path.unlink(missing_ok=True)
            if isinstance(error, UnreadableInput):
                raise
            raise UnreadableInput(
                f"{name}: expected room for it in {str(path.parent)!r}, got {error}. "
                "Set TMPDIR to a folder that has some."
            ) from error
    return path


def _remove(path: Path, owner: int) -> None:
    """Remove *path*, but not where a child of the process that made it ends."""
    if os.getpid() == owner:
        path.unlink(missing_ok=True)
