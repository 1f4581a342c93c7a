"""One segment: its schema, its format version, and opening it for writing or reading."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

from blamespan_collector.journal.errors import JournalUnreadable
from blamespan_collector.journal.folder import SIDE_FILES, segment_path

__all__ = ["FORMAT", "Sync", "create", "damaged", "delete", "open_to_read"]

Sync: TypeAlias = Literal["full", "normal"]
"""`full`: on the disk before it is acknowledged. `normal`: handed to the system; it survives `kill -9`, but not a
power cut."""

FORMAT: Final = 1
"""Version of the schema; a segment with a higher one was written by a newer blamespan."""
APPLICATION_ID: Final = 0x426C616D
"""Marks our files among SQLite's: `Blam`."""
_PAGE_BYTES = 16_384
"""A trace's payload is some 10 KB: with SQLite's 4 KB, each would need a chain of pages."""
_BUSY_TIMEOUT_S = 5.0
"""Longest wait for another process that recovers or checkpoints the same segment."""
_SCHEMA = """
CREATE TABLE entries (
    row INTEGER PRIMARY KEY,
    received_ns INTEGER NOT NULL,
    signal TEXT NOT NULL,
    trace_id BLOB NOT NULL,
    keys BLOB NOT NULL,
    payload BLOB NOT NULL
)
"""


def create(folder: Path, segment: int, sync: Sync) -> sqlite3.Connection:
    """Begin a segment.

    What is written is worked into the database once, when the segment is closed, rather than every few
    megabytes: until then it lies in the file beside it, and no commit has to wait for it.

    Raises:
        sqlite3.Error: if it cannot be; then nothing of it is left.
    """
    path = segment_path(folder, segment)
    connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size = {_PAGE_BYTES}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {sync}")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        connection.execute("BEGIN")
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute(_SCHEMA)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        delete(folder, segment)
        raise
    return connection


def open_to_read(folder: Path, segment: int) -> sqlite3.Connection | None:
    """Open a segment, which may be one that is being written; None where it was never begun in full.

    A process that was killed while it began a segment leaves an empty database: nothing in it was acknowledged.

    Raises:
        JournalUnreadable: if it is damaged, not ours, or of a newer version.
        FileNotFoundError: if it does not exist.
    """
    path = segment_path(folder, segment)
    if not path.exists():
        raise FileNotFoundError(path)
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=_BUSY_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA query_only = ON")
        is_ours = _is_ours(connection, path, segment)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            raise damaged(folder, segment, error) from error
        raise
    if not is_ours:
        connection.close()
        return None
    return connection


def damaged(folder: Path, segment: int, error: Exception) -> JournalUnreadable:
    """Say that a segment cannot be read."""
    return JournalUnreadable(
        f"expected a journal segment, got {str(segment_path(folder, segment))!r}, "
        f"which is damaged or something else ({error}). Move it away and start again",
        segment,
        is_damaged=True,
    )


def _is_ours(connection: sqlite3.Connection, path: Path, segment: int) -> bool:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if application == 0 and tables == 0:
        return False
    if application != APPLICATION_ID or version < 1:
        raise JournalUnreadable(
            f"expected a journal segment, got {str(path)!r}, a database of something else. "
            "Move it away and start again",
            segment,
        )
    if version > FORMAT:
        raise JournalUnreadable(
            f"expected a journal segment of version {FORMAT} or lower, got {str(path)!r} of version {version}: "
            "a newer blamespan wrote it. Upgrade this one, or let the newer one deliver it first",
            segment,
        )
    return True


def delete(folder: Path, segment: int) -> None:
    """Delete a segment's files, as far as they exist."""
    path = segment_path(folder, segment)
    for suffix in SIDE_FILES:
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").unlink()
