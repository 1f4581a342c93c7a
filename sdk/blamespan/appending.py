"""Adding lines to files that other processes add to as well, and that a crash or a full disk may cut off."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import RawIOBase
from pathlib import Path


def append_line(file: RawIOBase, line: bytes) -> int:
    """Add *line* behind what is there; what a crash, or a full disk, cut off there stays a line by itself.

    Args:
        file: Opened with `"a+b"` and `buffering=0`.
        line: With its end.

    Returns:
        Where in the file the line begins.

    Raises:
        OSError: if it cannot be written; a part of it may be.
    """
    text = line
    if file.seek(0, os.SEEK_END):
        file.seek(-1, os.SEEK_END)
        text = line if file.read(1) == b"\n" else b"\n" + line
    write_whole(file, text)
    return file.tell() - len(line)


def write_whole(file: RawIOBase, text: bytes) -> None:
    """Write all of *text* to an unbuffered file: a disk that gets full takes a part first, and says so at the next.

    Raises:
        OSError: if it cannot be written; a part of it may be.
    """
    while text:
        text = text[file.write(text) or 0 :]


@contextmanager
def hold_lock(descriptor: int) -> Iterator[None]:
    """Hold the file for one writer; where the system has no such lock, adding in one go must do."""
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def sync_folder(folder: Path) -> None:
    """Make a new file's name survive a crash, where folders can be synced."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # Windows
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
