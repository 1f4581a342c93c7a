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
from blamespan_collector.journal.mark import drop_mark

__all__ = [
    "FolderLock",
    "check_version",
    "delete",
    "folder_bytes",
    "has_room",
    "make_folder",
    "mark_path",
    "segment_path",
    "segments",
]

_SEGMENT = re.compile(r"(\d{10})\.(?:log|mark)")
_OLD_SEGMENT = re.compile(r"\d{10}\.db")
"""Of version 1, whose segments were SQLite files."""
_PROBE_BYTES = 1024 * 1024
"""More than SQLite needs to open its files."""
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def segment_path(folder: Path, segment: int) -> Path:
    """Name a segment's file."""
    return folder / "segments" / f"{segment:010d}.log"


def mark_path(folder: Path, segment: int) -> Path:
    """Name the file that says how far a segment is acknowledged."""
    return folder / "segments" / f"{segment:010d}.mark"


def segments(folder: Path) -> list[int]:
    """List the segments in *folder*, oldest first; the last one is the one being written.

    A segment whose file is gone, while its mark is there, is listed, too: what was in it is missed.
    """
    return sorted({int(match[1]) for match in map(_SEGMENT.fullmatch, _names(folder)) if match})


def check_version(folder: Path) -> None:
    """Check that no segment of version 1 is in *folder*.

    Raises:
        JournalUnreadable: if there is one.
    """
    old = sorted(name for name in _names(folder) if _OLD_SEGMENT.fullmatch(name))
    if old:
        raise JournalUnreadable(
            f"expected a journal of version 2, got {str(folder / 'segments' / old[0])!r} of version 1. Start the "
            "blamespan that wrote it until it says that everything that was acknowledged is delivered; then move "
            f"{str(folder / 'segments')!r} and {str(folder / 'state.db')!r} away and start this one"
        )


def delete(folder: Path, segment: int) -> None:
    """Delete a segment's files, as far as they exist."""
    with suppress(OSError):  # a mark that stays by itself after a kill is a false alarm at worst
        drop_mark(mark_path(folder, segment))
    segment_path(folder, segment).unlink(missing_ok=True)
    mark_path(folder, segment).unlink(missing_ok=True)


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in (folder / "segments").iterdir()]
    except FileNotFoundError:
        return []


def folder_bytes(folder: Path) -> int:
    """Sum up what the whole folder takes on disk, segments and everything beside them."""
    total = 0
    for directory in (folder, folder / "segments"):
        with suppress(FileNotFoundError), os.scandir(directory) as entries:
            for item in entries:
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
    """Check whether there is room to open a journal, by writing: what the system calls free knows of no quota.

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
        path = folder / f"{name}.lock"
        try:
            make_folder(folder)
            try:
                self._lock = _lock(path, wait_s)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:  # damaged; what is in it means nothing, and whoever holds it is BUSY instead
                os.truncate(path, 0)
                self._lock = _lock(path, wait_s)
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


def _lock(path: Path, wait_s: float) -> sqlite3.Connection:
    lock = sqlite3.connect(path, timeout=wait_s, isolation_level=None)
    try:
        lock.execute("PRAGMA locking_mode = EXCLUSIVE")
        lock.execute("PRAGMA journal_mode = MEMORY")  # nothing is written: a full disk can be locked, too
        lock.execute("BEGIN EXCLUSIVE")
    except BaseException:
        lock.close()
        raise
    return lock


def _unusable(folder: Path, error: Exception) -> JournalError:
    if getattr(error, "errno", None) in _NO_ROOM or not has_room(folder):
        return JournalUnavailable(f"the disk of the journal {str(folder)!r} is full: {error}. Make room on it")
    return JournalUnreadable(
        f"expected a folder for the journal that can be written, got {str(folder)!r}: {error}. "
        "Give one that this user owns with --journal DIR"
    )
