"""Room for draining that is set aside for good, inside the state's own files.

To get rid of what is on a full disk takes room: for rows of the outbox, for notes of what was let go and of what sinks
have. So the state holds free pages in its file, and the log beside that is as long from the start as it ever gets. Both
are written to again and again without asking the system for anything; no other program can take them.

The file never grows by a commit (`max_page_count`), only by `Reserve`, which has the disk give the room first: so what
is committed has its place in the file, and the log can be worked into it and begun again. Notes that nothing in the
journal needs go first where a commit has no room.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

from blamespan.sqlite_files import read_count
from blamespan_collector.state.state import GROWING, PAGE_BYTES, State

_MOST_BYTES = 32 * 1024 * 1024
_LEAST_BYTES = 8 * 1024 * 1024
_SHARE = 40
_LARGEST_SHARE = 16
"""The log and the free pages each take a fortieth of the disk, between these bounds; but no more than a sixteenth of
it, or of what the journal may take."""
_SHORT_BYTES = 512 * 1024 * 1024
_SHORT_SHARE = 10
"""The disk is short of room with less than this part of it free, or less than `_SHORT_BYTES`: twice of what is left
free by who takes requests in."""
_AT_ONCE_BYTES = 4 * 1024 * 1024
_SPARE_PAGES = 8
"""Of SQLite's own, beside those that are asked for."""
_ZEROS = bytes(256 * 1024)
_FORGOTTEN_AT_ONCE = 500
_FORGET_BALLAST = "DELETE FROM set_aside WHERE row = -1"
"""What makes the file longer goes in the same commit; an earlier release left it there where its second one failed."""


class Reserve:
    """Keeps the room, and finds some where a commit has none. For the thread that writes the state.

    Args:
        path: The state's file.
        state: The state.
        max_bytes: How large the journal may grow.
    """

    def __init__(self, path: Path, state: State, max_bytes: int) -> None:
        self._path = path
        self._state = state
        self._database = state.database
        # Never closed: with it, the locks would go that SQLite holds on the file for this process
        self._file = os.open(path, os.O_RDWR)
        total = shutil.disk_usage(path.parent).total
        size_bytes = min(_MOST_BYTES, max(_LEAST_BYTES, total // _SHARE), min(total, max_bytes) // _LARGEST_SHARE)
        self.size_bytes = max(size_bytes, 16 * PAGE_BYTES)
        self._short_bytes = min(_SHORT_BYTES, total // _SHORT_SHARE)
        self._oldest_segment = 0
        self.log_pages = max(4, self.size_bytes // PAGE_BYTES // 2)
        """Pages in the log at which it is worked into the file: half of it, the other half is for one commit."""
        self._database.execute(f"PRAGMA wal_autocheckpoint = {self.log_pages}")
        self._state.flush()
        self._bound()
        with suppress(sqlite3.OperationalError):  # no room for it now: `_grow` does it, too
            self._database.execute(_FORGET_BALLAST)

    @property
    def commit_bytes(self) -> int:
        """Return how much one commit may write, so that the log has room for it."""
        return self.size_bytes // 4

    def is_short(self) -> bool:
        """Check whether the disk is short of room."""
        return self._free_bytes() < self._short_bytes

    def keep(self, oldest_segment: int) -> None:
        """See to it that the room is there, as long as the disk has some; a part of it at a time.

        Args:
            oldest_segment: What lies only in earlier ones is needed no more.

        Raises:
            sqlite3.OperationalError: if the disk has no room.
        """
        self._oldest_segment = oldest_segment
        if not self.is_short():  # else somebody else would take what is given back
            self._state.shrink(_MOST_BYTES // PAGE_BYTES)
        missing_bytes = self.size_bytes - self._pages("freelist_count") * PAGE_BYTES
        if missing_bytes > _AT_ONCE_BYTES and self._free_bytes() - 3 * missing_bytes > self._short_bytes:
            self._grow(missing_bytes)  # not in steps: each of them writes all free pages once more
        while self._pages("freelist_count") * PAGE_BYTES < self.size_bytes and self._grow():
            pass
        with suppress(OSError):
            if not self.is_short():
                self._lengthen_log()

    def find_room(self, *, is_waiting: bool) -> bool:
        """Make room in the state for a commit that had none; return whether it can be tried again at once.

        Args:
            is_waiting: Whether sinks lack something, and make room when they take it. Then no notes are forgotten: by
                these what comes twice is known, and who is refused on a full disk sends much twice.

        Raises:
            sqlite3.OperationalError: if the disk does not let us.
        """
        self._state.flush()
        if self._grow():
            return True
        if is_waiting:
            return False
        if self._grow(is_urgent=True):  # what is larger than the room set aside takes what the intake leaves free
            return True
        with self._state.commit():
            return self._state.forget(0, self._oldest_segment, _FORGOTTEN_AT_ONCE) > 0

    def _free_bytes(self) -> int:
        return shutil.disk_usage(self._path.parent).free

    def _bound(self, pages: int | None = None) -> None:
        """Keep commits from making the file larger than it is, or than so many pages."""
        most = self._pages("page_count") if pages is None else pages
        self._database.execute(f"PRAGMA max_page_count = {max(1, most)}").fetchall()

    def _grow(self, size_bytes: int | None = None, *, is_urgent: bool = False) -> bool:
        """Add free pages to the file, if urgent also where the disk is short; return whether there are more now.

        The file gets its new length first: what is then committed to it has its place, whoever writes meanwhile.
        """
        if self.is_short() and not is_urgent:
            return False
        size_bytes = size_bytes or min(_AT_ONCE_BYTES, self.size_bytes // 2)
        before = self._pages("page_count")
        try:
            with GROWING, self._state.commit():
                pages = self._pages("page_count") + _SPARE_PAGES + size_bytes // PAGE_BYTES
                _lengthen(self._file, pages * PAGE_BYTES)
                self._bound(pages)
                self._database.execute(_FORGET_BALLAST)
                self._database.execute(
                    "INSERT INTO set_aside (row, at_s, sink, kind, reason, spans, payload) "
                    "VALUES (-1, 0, '', '', '', 0, zeroblob(?))",
                    (size_bytes + self._pages("freelist_count") * PAGE_BYTES,),  # the free ones are taken first
                )
                self._database.execute(_FORGET_BALLAST)
            self._cut_excess()
            self._state.flush()
        except (OSError, sqlite3.OperationalError, sqlite3.IntegrityError):
            return False
        finally:
            self._bound()
        return self._pages("page_count") > before

    def _cut_excess(self) -> None:
        """Cut off pages that have no place in the file, as another process worked the log into it meanwhile."""
        excess = self._pages("page_count") - self._file_pages()
        if excess > 0:
            self._database.executescript(f"PRAGMA incremental_vacuum({excess})")

    def _lengthen_log(self) -> None:
        """Bring the log to its full length with zeros, which SQLite takes for its end."""
        file = os.open(f"{self._path}-wal", os.O_RDWR)
        try:
            _lengthen(file, self.size_bytes)
        finally:
            os.close(file)

    def _file_pages(self) -> int:
        return self._path.stat().st_size // PAGE_BYTES

    def _pages(self, count: str) -> int:
        return read_count(self._database, count)


def _lengthen(file: int, size_bytes: int) -> None:
    """Write zeros behind a file's end until it is so long.

    Raises:
        OSError: if the disk does not give the room; then the file is as it was.
    """
    end = os.fstat(file).st_size
    try:
        for at in range(end, size_bytes, len(_ZEROS)):
            piece = memoryview(_ZEROS)[: size_bytes - at]
            if os.pwrite(file, piece, at) < len(piece):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.ftruncate(file, end)
        raise
