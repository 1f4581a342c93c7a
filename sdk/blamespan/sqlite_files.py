"""Our own SQLite files: opened alike, marked as ours, written in transactions, checked, and moved away where damaged.

For databases that other programs made, which are only read and never trusted, the importers have a reader of their own.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

BUSY_S = 30.0
"""How long a statement waits for another process or thread that writes."""
STORE_MARK = 0x62_6C_73_72
"""Marks the store of runs, which commands read wherever a trace is named."""
_LOOK_EVERY_S = 0.01
_MARK = """
SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)
FROM pragma_application_id, pragma_user_version
"""
_MARK_OFFSET = 68
"""Where `application_id` stands in a file: https://sqlite.org/fileformat.html"""


@dataclass(frozen=True, slots=True)
class FileMark:
    """Whose a file is, as it says itself.

    Attributes:
        application: `PRAGMA application_id`; 0 where nobody set it.
        version: `PRAGMA user_version`.
        tables: How many tables, indexes and views there are.
    """

    application: int
    version: int
    tables: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever written to it."""
        return not (self.application or self.version or self.tables)


def connect(
    path: Path, *, busy_s: float = BUSY_S, pragmas: Iterable[str] = (), read_only: bool = False, vfs: str = ""
) -> sqlite3.Connection:
    """Open a file for any thread, one at a time; transactions begin and end where `transaction` says.

    Args:
        path: The file; made where it is not, unless it is only read.
        busy_s: How long to wait for another process or thread that writes.
        pragmas: Executed in order, such as `synchronous = full`.
        read_only: Whether nothing is ever written to it.
        vfs: SQLite's file system layer; empty for its default.

    Raises:
        sqlite3.Error: if it cannot be opened.
    """
    query = "&".join(text for text in ("mode=ro" if read_only else "", f"vfs={vfs}" if vfs else "") if text)
    uri = f"{path.absolute().as_uri()}{query and '?'}{query}"
    database = sqlite3.connect(uri, uri=True, timeout=busy_s, isolation_level=None, check_same_thread=False)
    try:
        set_pragmas(database, pragmas, busy_s)
    except BaseException:
        database.close()
        raise
    return database


def set_pragmas(database: sqlite3.Connection, pragmas: Iterable[str], busy_s: float) -> None:
    """Execute pragmas in order, waiting *busy_s* for others: `journal_mode = WAL` does not wait by itself.

    Raises:
        sqlite3.Error: if one cannot be executed.
    """
    until_s = time.monotonic() + busy_s
    for pragma in pragmas:
        while True:
            try:
                database.execute(f"PRAGMA {pragma}").fetchall()
                break
            except sqlite3.OperationalError as error:
                if not is_busy(error) or time.monotonic() >= until_s:
                    raise
                time.sleep(_LOOK_EVERY_S)


def read_mark(database: sqlite3.Connection) -> FileMark:
    """Return whose a file is, without writing to it: in one statement, as another process may just be marking it."""
    return FileMark(*database.execute(_MARK).fetchone())


def bears_mark(path: Path, application: int) -> bool:
    """Check whether a file that SQLite cannot read is marked as *application*, rather than being somebody else's."""
    try:
        with path.open("rb") as file:
            return file.read(_MARK_OFFSET + 4)[_MARK_OFFSET:] == application.to_bytes(4, "big")
    except OSError:
        return False


def has_mark(path: Path, application: int) -> bool:
    """Check whether a file is marked as *application*, also while its mark stands in the log of who writes it."""
    if bears_mark(path, application):
        return True
    if not path.with_name(f"{path.name}-wal").exists():
        return False
    try:
        with closing(connect(path, read_only=True, busy_s=1)) as database:
            return read_count(database, "application_id") == application
    except sqlite3.Error:
        return False


def read_count(database: sqlite3.Connection, pragma: str) -> int:
    """Return a pragma's number, such as `page_count`."""
    (number,) = database.execute(f"PRAGMA {pragma}").fetchone()
    return int(number)


@contextmanager
def transaction(database: sqlite3.Connection, *, is_kept: bool = True) -> Iterator[None]:
    """Write what happens inside, all of it or nothing; where an error leaves the block, nothing.

    Args:
        database: As `connect` opened it.
        is_kept: False undoes everything at the end: to see what would happen.

    Raises:
        sqlite3.Error: if it could not be written; then nothing of it is.
    """
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT" if is_kept else "ROLLBACK")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def is_sound(database: sqlite3.Connection, *, with_indexes: bool) -> bool:
    """Check a whole file for damage to its structure; this reads all of it, several times where *with_indexes*.

    Raises:
        sqlite3.DatabaseError: if it is too damaged for that, or cannot be read now.
    """
    check = "integrity_check" if with_indexes else "quick_check"
    return database.execute(f"PRAGMA {check}(1)").fetchall() == [("ok",)]


def move_files(path: Path, target: Path) -> None:
    """Move a file that nobody has open, with the log that belongs to it; what is at *target* is replaced.

    Raises:
        OSError: if it cannot be moved.
    """
    delete_files(target)
    log = _beside(path, "-wal")
    if log.exists():  # first: a log without its database harms none, but a new database would take it for its own
        log.replace(_beside(target, "-wal"))
    path.replace(target)
    _beside(path, "-shm").unlink(missing_ok=True)  # made anew from the log


def delete_files(path: Path) -> None:
    """Delete a file that nobody has open, and what SQLite keeps beside it.

    Raises:
        OSError: if it cannot be deleted.
    """
    for suffix in ("", "-wal", "-shm"):
        _beside(path, suffix).unlink(missing_ok=True)


def primary_code(error: BaseException | None) -> int:
    """Return SQLite's primary result code; 0 where the error is not SQLite's."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def is_full(error: BaseException | None) -> bool:
    """Check whether a statement failed for want of room on the disk."""
    return primary_code(error) == sqlite3.SQLITE_FULL


def is_busy(error: BaseException | None) -> bool:
    """Check whether a statement failed as somebody else holds the file."""
    return primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
