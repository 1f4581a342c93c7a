"""The journal's folder: its segments, its size, and who may use it."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import tempfile
from contextlib import suppress
from pathlib import Path

from blamespan_collector.journal.errors import JournalError, JournalUnavailable, JournalUnreadable

__all__ = ["FolderLock", "folder_bytes", "has_room", "make_folder", "segment_path", "segments"]

_SEGMENT = re.compile(r"(\d{10})\.db")
SIDE_FILES = ("", "-wal", "-shm")
"""A segment is a SQLite file and these beside it."""
_PROBE_BYTES = 1024 * 1024
"""More than SQLite needs to open its files."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def segment_path(folder: Path, segment: int) -> Path:
    """Name a segment's file."""
    return folder / "segments" / f"{segment:010d}.db"


def segments(folder: Path) -> list[int]:
    """List the segments in *folder*, oldest first; the last one is the one being written."""
    try:
        names = [path.name for path in (folder / "segments").iterdir()]
    except FileNotFoundError:
        return []
    return sorted(int(found[1]) for found in map(_SEGMENT.fullmatch, names) if found)


def folder_bytes(folder: Path) -> int:
    """Sum up what the whole folder takes on disk, segments and everything beside them."""
    total = 0
    for place in (folder, folder / "segments"):
        with suppress(FileNotFoundError), os.scandir(place) as found:
            for item in found:
                with suppress(FileNotFoundError):  # dropped while we looked
                    if item.is_file(follow_symlinks=False):
                        total += item.stat(follow_symlinks=False).st_size
    return total


def make_folder(folder: Path) -> None:
    """Make the journal's folders where they are missing, for this user alone.

    Raises:
        OSError: if they cannot be.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "segments").mkdir(mode=0o700, exist_ok=True)


def has_room(folder: Path) -> bool:
    """Tell whether there is room to open a journal, by writing: what the system calls free knows of no quota.

    Another failure than want of room gives True: waiting for room would not mend it.
    """
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="probe-") as probe:
            probe.write(bytes(_PROBE_BYTES))
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        return error.errno not in _NO_ROOM
    return True


class FolderLock:
    """Keeps a second user of the same kind out of a folder, until `release` or the process's end, however it ends.

    SQLite's own lock on an empty database: it works wherever SQLite does, and the system frees it.

    Args:
        folder: Made where it does not exist, for this user alone.
        name: Kind of use: `intake` and `worker` do not exclude each other.
        wait_s: How long to wait for the one before us to end.

    Raises:
        JournalError: if another process holds it.
        JournalUnavailable: if the disk is too full for it.
        JournalUnreadable: if the folder cannot be made or written.
    """

    def __init__(self, folder: Path, name: str, *, wait_s: float = 0.0) -> None:
        try:
            make_folder(folder)
            self._lock = sqlite3.connect(folder / f"{name}.lock", timeout=wait_s, isolation_level=None)
            self._lock.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._lock.execute("PRAGMA journal_mode = MEMORY")  # nothing is written: a full disk can be locked, too
            self._lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                raise JournalError(
                    f"expected a journal folder of our own, but another collector uses {str(folder)!r}. "
                    "Stop that one, or give this one its own with --journal DIR"
                ) from error
            raise _unusable(folder, error) from error
        except (OSError, sqlite3.DatabaseError) as error:
            raise _unusable(folder, error) from error

    def release(self) -> None:
        """Let the next one in."""
        self._lock.close()


def _unusable(folder: Path, error: Exception) -> JournalError:
    if getattr(error, "errno", None) in _NO_ROOM or not has_room(folder):
        return JournalUnavailable(f"the disk of the journal {str(folder)!r} is full: {error}. Make room on it")
    return JournalUnreadable(
        f"expected a folder for the journal that can be written, got {str(folder)!r}: {error}. "
        "Give one that this user owns with --journal DIR"
    )
