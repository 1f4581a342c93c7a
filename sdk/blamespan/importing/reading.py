"""What reading files takes of this machine: how much memory each process may hold, and how far each file is.

An importer reads a file whole before it knows its runs, as the spans of a trace may stand anywhere in it. Here it asks
how much of that it may keep in memory, and `blamespan.files` tells how many bytes of the file it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

HELD_CHARACTERS: Final = 96 * 1024 * 1024
"""Text that all processes of an analysis hold before spans go to disk; in memory about ten times as many bytes."""
_MOST_SHARE, _LEAST_SHARE = HELD_CHARACTERS // 2, HELD_CHARACTERS // 16
"""Of one process: more is not faster, with less a file of common size would go to disk."""

Told: TypeAlias = Callable[[Path, int], None]
"""Told of a file, and how many of its bytes, as stored, have been read."""

_readers = 1
_listener: Told | None = None


def share_memory(readers: int) -> None:
    """Set that this process is one of so many that read at the same time on this machine."""
    global _readers  # a fact of the process
    _readers = max(1, readers)


def held_share() -> int:
    """Return how many characters of text this process may hold in memory before it writes them to disk."""
    return min(_MOST_SHARE, max(_LEAST_SHARE, HELD_CHARACTERS // _readers))


@contextmanager
def watched_reading(listener: Told) -> Iterator[None]:
    """Have *listener* hear of every file that this process reads while the block runs."""
    global _listener
    before, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = before


def has_read(path: Path, size_bytes: int) -> None:
    """Report to whoever watches that so many bytes of *path* have been read."""
    if _listener is not None:
        _listener(path, size_bytes)
