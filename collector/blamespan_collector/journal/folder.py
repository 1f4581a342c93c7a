"""The journal's folder: its segments, its size, and who may use it."""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import struct
import tempfile
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Final

from blamespan.errors import reason_of
from blamespan_collector.journal.errors import JournalError, JournalUnavailable, JournalUnreadable
from blamespan_collector.journal.mark import drop_mark

try:
    import fcntl
except ImportError:  # Windows: nobody deletes a file there that is open
    fcntl = None  # type: ignore[assignment]

LARGEST_SEGMENT: Final = 2**22 - 1
"""A larger number is no segment's: an entry's place is packed into 62 bits."""

_SEGMENT = re.compile(r"(\d{10})\.(?:log|mark)")
_OLD_SEGMENT = re.compile(r"\d{10}\.db")
"""Of version 1, whose segments were SQLite files."""
_PROBE_BYTES = 1024 * 1024
"""More than SQLite needs to open its files."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
"""Only whoever started us can mend these; what else a disk says may pass."""
_LAST = struct.Struct(">QI")
_LOOK_AGAIN_S = 0.05


def segment_path(folder: Path, segment: int) -> Path:
    """Name a segment's file."""
    return folder / "segments" / f"{segment:010d}.log"


def mark_path(folder: Path, segment: int) -> Path:
    """Name the file that says how far a segment is acknowledged."""
    return folder / "segments" / f"{segment:010d}.mark"


def segments(folder: Path, *, last: int | None = None) -> list[int]:
    """List the segments in *folder*, oldest first.

    A segment whose file is gone, while its mark is there, is listed, too: what was in it is missed. A file with a
    number that no segment has had is somebody else's.

    Args:
        folder: The journal's folder.
        last: The largest number; by default the one that is noted.

    Raises:
        OSError: if the folder cannot be read now.
    """
    last = read_last_segment(folder) if last is None else last
    numbers = {int(match[1]) for match in map(_SEGMENT.fullmatch, _names(folder)) if match}
    return sorted(number for number in numbers if number <= (LARGEST_SEGMENT if last is None else last))


def read_last_segment(folder: Path) -> int | None:
    """Return the number of the segment that was begun last; None where that is not noted, or the note is damaged.

    Raises:
        OSError: if it cannot be read now.
    """
    try:
        packed = (folder / "last-segment").read_bytes()
    except FileNotFoundError:
        return None
    is_whole = len(packed) == _LAST.size and zlib.crc32(packed[:8]) == _LAST.unpack(packed)[1]
    return int.from_bytes(packed[:8], "big") if is_whole else None


def note_last_segment(folder: Path, segment: int, *, is_durable: bool) -> None:
    """Note that a number is used, before there is a file of that name: no later segment ever gets it.

    Raises:
        OSError: if it cannot be noted.
    """
    packed = segment.to_bytes(8, "big")
    file = os.open(folder / "last-segment", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.pwrite(file, packed + zlib.crc32(packed).to_bytes(4, "big"), 0)
        if is_durable:
            os.fsync(file)
    finally:
        os.close(file)


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
    """Delete a segment's files, as far as they exist; a folder that stands in the place of one is moved to `damaged`.

    Raises:
        OSError: if one of them cannot be deleted now.
    """
    with suppress(OSError):  # a mark that stays by itself after a kill is a false alarm at worst
        drop_mark(mark_path(folder, segment))
    for path in (segment_path(folder, segment), mark_path(folder, segment)):
        if path.is_dir():
            (folder / "damaged").mkdir(mode=0o700, exist_ok=True)
            path.rename(folder / "damaged" / path.name)
        else:
            path.unlink(missing_ok=True)


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
        return error.errno not in NO_ROOM
    return True


class FolderLock:
    """Keeps a second user of the same kind out of a folder, until `release` or the process's end, however it ends.

    SQLite's own lock on an empty database: it works wherever SQLite does, and the system frees it. The folder itself is
    locked as well, where the file system can do that: the database can be deleted while it is locked.

    Args:
        folder: Made where it does not exist, for this user alone.
        name: Kind of use: `intake` and `worker` do not exclude each other.
        wait_s: How long to wait for the one before us to end.

    Raises:
        JournalError: if another process holds it.
        JournalUnavailable: if the disk is too full for it, or fails now.
        JournalUnreadable: if the folder cannot be made or written.
    """

    def __init__(self, folder: Path, name: str, *, wait_s: float = 0.0) -> None:
        self._lock: sqlite3.Connection | None = None
        self._folder_file = -1
        until_s = time.monotonic() + wait_s
        try:
            self._open(folder, name, wait_s)
            while not self._lock_folder():
                if time.monotonic() >= until_s:
                    raise _in_use(folder)
                time.sleep(_LOOK_AGAIN_S)
        except BaseException as error:
            self.release()
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                raise _in_use(folder) from error
            if isinstance(error, OSError | sqlite3.DatabaseError):
                raise _unusable(folder, error) from error
            raise

    def release(self) -> None:
        """Let the next one in."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
        if self._folder_file >= 0:
            os.close(self._folder_file)
            self._folder_file = -1

    def _open(self, folder: Path, name: str, wait_s: float) -> None:
        path = folder / f"{name}.lock"
        make_folder(folder)
        try:
            self._lock = _lock(path, wait_s)
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:  # damaged; what is in it means nothing, and whoever holds it is BUSY instead
            os.truncate(path, 0)
            self._lock = _lock(path, wait_s)
        if fcntl is not None:  # the intake's is the journal's folder, the worker's the one in it
            self._folder_file = os.open(folder if name == "intake" else folder / "segments", os.O_RDONLY)

    def _lock_folder(self) -> bool:
        """Lock the folder, unless another process has it; True where its file system locks no folders."""
        if self._folder_file >= 0:
            try:
                fcntl.flock(self._folder_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            except OSError:
                return True
        return True


def _in_use(folder: Path) -> JournalError:
    return JournalError(
        f"expected a journal folder of our own, but another collector uses {str(folder)!r}. "
        "Stop that one, or give this one its own with --journal DIR"
    )


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
    if getattr(error, "errno", None) in NO_ROOM or not has_room(folder):
        return JournalUnavailable(f"the disk of the journal {str(folder)!r} is full: {error}. Make room on it")
    is_ours = os.access(folder, os.R_OK | os.W_OK | os.X_OK) and folder.is_dir()
    if is_ours and getattr(error, "errno", None) not in _NOT_OURS:
        return JournalUnavailable(f"the journal's folder {str(folder)!r} cannot be used now: {error}")
    return JournalUnreadable(
        f"expected a folder for the journal that can be written, got {str(folder)!r}: {reason_of(error)}. "
        "Give one that this user owns with --journal DIR"
    )
