"""The store's file: what is in it, its version, and how an older one becomes this one.

StoreError
  StoreUnavailable   the file is not there, or cannot be opened or written now: try again
  StoreMismatch      it is of a newer version, damaged, or something else
"""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path
from typing import Any, Literal

from blamespan import sqlite_files
from blamespan.errors import BlamespanError
from blamespan.sqlite_files import STORE_MARK

_WORDS_OF_SCHEMA = b"CREATE TABLE parts (\n        row INTEGER PRIMARY KEY, trace INTEGER NOT NULL REFERENCES traces"
"""Stand in the first page of each store, as SQLite keeps there what made its tables."""
_HEAD_BYTES = 65_536
_PRAGMAS = (
    "page_size = 8192",
    "auto_vacuum = INCREMENTAL",
    "journal_mode = WAL",
    "foreign_keys = ON",
    "journal_size_limit = 16777216",
)

_MIGRATIONS = (
    """
    CREATE TABLE traces (
        row INTEGER PRIMARY KEY, trace_id BLOB NOT NULL UNIQUE, stored_ns INTEGER NOT NULL,
        start_ns INTEGER NOT NULL, end_ns INTEGER NOT NULL, name TEXT NOT NULL, service TEXT NOT NULL,
        task TEXT NOT NULL, agents TEXT NOT NULL, outcome TEXT NOT NULL, steps INTEGER NOT NULL,
        spans INTEGER NOT NULL, errors INTEGER NOT NULL, is_run INTEGER NOT NULL, has_root INTEGER NOT NULL,
        is_partial INTEGER NOT NULL, failure_score REAL, blamed_agent TEXT NOT NULL, blamed_step INTEGER,
        mode TEXT NOT NULL, mode_name TEXT NOT NULL, mode_score REAL, abstained TEXT NOT NULL, tracer TEXT NOT NULL,
        revision INTEGER NOT NULL, words TEXT NOT NULL);
    CREATE INDEX traces_start ON traces (start_ns, row);
    CREATE INDEX traces_runs ON traces (start_ns, row) WHERE is_run;
    CREATE INDEX traces_stored ON traces (stored_ns);
    CREATE INDEX traces_agent ON traces (blamed_agent) WHERE blamed_agent <> '';
    CREATE INDEX traces_mode ON traces (mode, mode_name) WHERE mode <> '';
    CREATE TABLE parts (
        row INTEGER PRIMARY KEY, trace INTEGER NOT NULL REFERENCES traces (row) ON DELETE CASCADE,
        digest BLOB NOT NULL, spans INTEGER NOT NULL, payload BLOB NOT NULL, UNIQUE (trace, digest));
    CREATE TABLE services (
        trace INTEGER NOT NULL REFERENCES traces (row) ON DELETE CASCADE, service TEXT NOT NULL,
        PRIMARY KEY (trace, service)) WITHOUT ROWID;
    CREATE INDEX services_name ON services (service, trace);
    CREATE TABLE operations (
        service TEXT NOT NULL, name TEXT NOT NULL, kind INTEGER NOT NULL, latest_ns INTEGER NOT NULL,
        PRIMARY KEY (service, name, kind)) WITHOUT ROWID;
    """,
    """
    ALTER TABLE traces ADD COLUMN version TEXT NOT NULL DEFAULT '';
    ALTER TABLE traces ADD COLUMN likeness TEXT NOT NULL DEFAULT '';
    ALTER TABLE traces ADD COLUMN quote TEXT NOT NULL DEFAULT '';
    ALTER TABLE traces ADD COLUMN incident TEXT NOT NULL DEFAULT '';
    CREATE INDEX traces_incident ON traces (incident, start_ns) WHERE incident <> '';
    CREATE INDEX traces_version ON traces (service, version, incident, start_ns)
        WHERE is_run AND failure_score IS NOT NULL;
    CREATE TABLE incidents (
        id TEXT PRIMARY KEY, service TEXT NOT NULL, likeness TEXT NOT NULL, state TEXT NOT NULL,
        state_ns INTEGER NOT NULL, opened INTEGER NOT NULL, runs INTEGER NOT NULL, since INTEGER NOT NULL,
        first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, first_trace TEXT NOT NULL, last_trace TEXT NOT NULL,
        version TEXT NOT NULL, agent TEXT NOT NULL, mode TEXT NOT NULL, mode_name TEXT NOT NULL, quote TEXT NOT NULL)
        WITHOUT ROWID;
    CREATE TABLE told (
        incident TEXT NOT NULL, receiver TEXT NOT NULL, told_ns INTEGER NOT NULL, claimed_ns INTEGER NOT NULL,
        opened INTEGER NOT NULL, state TEXT NOT NULL, runs INTEGER NOT NULL, PRIMARY KEY (incident, receiver))
        WITHOUT ROWID;
    """,
)
"""What makes each version of the one before; the first of nothing."""

VERSION = len(_MIGRATIONS)


class StoreError(BlamespanError):
    """The store of runs cannot be used."""


class StoreUnavailable(StoreError):
    """The store is not there, or cannot be read or written now; it may be later."""


class StoreMismatch(StoreError):
    """The file is not a store that this version can use."""


def open_to_write(
    path: Path, sync: Literal["full", "normal"], busy_s: float = sqlite_files.BUSY_S
) -> sqlite3.Connection:
    """Open the store, making it where it is not, and bring an older one to this version.

    Args:
        path: The file.
        sync: As for `RunWriter`.
        busy_s: Seconds to wait for another process that writes.

    Raises:
        StoreMismatch: if it is of a newer version, damaged, or something else.
        StoreUnavailable: if the disk does not let us.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        path.touch(mode=0o600)
    except OSError as error:
        raise StoreUnavailable(
            f"expected a file for the store of runs that can be written, got {str(path)!r}: {error.strerror}. "
            "Give another with --store FILE, or none with --store none"
        ) from error
    connection = _connect(path, busy_s=busy_s)
    try:
        version = _version(connection, path)  # before anything is written: it may be somebody else's file
        sqlite_files.set_pragmas(connection, (*_PRAGMAS, f"synchronous = {sync}"), busy_s)
        if version < VERSION:
            _migrate(connection, path)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.DatabaseError):
            raise _open_error(error, path) from error
        raise
    return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open the store without ever writing to it; it may be written meanwhile.

    Raises:
        StoreMismatch: if it is of another version, damaged, or something else.
        StoreUnavailable: if it is not there, or cannot be opened now.
    """
    if not path.is_file():
        raise StoreUnavailable(
            f"expected a store of runs at {str(path)!r}, got nothing there. Start blamespan collect --store {path}"
        )
    connection = _connect(path, read_only=True)
    try:
        version = _version(connection, path)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.DatabaseError):
            raise _open_error(error, path) from error
        raise
    if version != VERSION:
        connection.close()
        raise StoreMismatch(
            f"expected a store of runs of version {VERSION}, got {str(path)!r} of version {version}. "
            f"Bring it up to date with: blamespan collect --store {path}"
        )
    return connection


def _connect(path: Path, **options: Any) -> sqlite3.Connection:
    try:
        return sqlite_files.connect(path, **options)
    except sqlite3.DatabaseError as error:
        raise _open_error(error, path) from error


def is_ours(path: Path) -> bool:
    """Check whether a file that SQLite cannot read is a store, rather than somebody else's.

    It bears the store's mark; or, where its first bytes are damaged, the words by which the tables were made; or it
    stands where a journal's folder has its store.
    """
    is_in_journal = path.name == "runs.db" and (path.parent.parent / "segments").is_dir()
    return sqlite_files.bears_mark(path, STORE_MARK) or _holds_schema(path) or is_in_journal


def _holds_schema(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return _WORDS_OF_SCHEMA in file.read(_HEAD_BYTES)
    except OSError:
        return False


def is_damaged(path: Path) -> bool:
    """Check whether SQLite finds the store damaged, first quickly, then with its indexes. Nothing may write to it now.

    A store that cannot be read now, as it is locked or the disk fails, counts as sound.
    """
    connection = sqlite_files.connect(path)
    try:
        return not all(sqlite_files.is_sound(connection, with_indexes=with_indexes) for with_indexes in (False, True))
    except sqlite3.OperationalError:
        return False
    except sqlite3.DatabaseError:
        return True
    finally:
        connection.close()


def move_aside(path: Path) -> Path:
    """Move a damaged store away, with the log that belongs to it, and return where it is now.

    Raises:
        StoreUnavailable: if it cannot be moved now.
    """
    aside = path.with_name(f"{path.name}.damaged")
    try:
        sqlite_files.move_files(path, aside)
    except OSError as error:
        raise StoreUnavailable(f"the damaged store of runs {str(path)!r} cannot be moved aside: {error}") from error
    return aside


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the store to this version in one transaction; another process may do the same at the same time."""
    with sqlite_files.transaction(connection):
        for migration in _MIGRATIONS[_version(connection, path) :]:
            for statement in migration.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {STORE_MARK}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(connection: sqlite3.Connection, path: Path) -> int:
    mark = sqlite_files.read_mark(connection)
    if mark.application != STORE_MARK and not mark.is_empty and not _holds_schema(path):
        raise StoreMismatch(
            f"expected a store of runs, got {str(path)!r}, which is something else. Give another file with --store FILE"
        )
    if mark.version > VERSION:
        raise StoreMismatch(
            f"expected a store of runs of version {VERSION} or before, got {str(path)!r} of version {mark.version}: "
            f"a newer blamespan wrote it. Upgrade with: pip install -U 'blamespan[collector]', or begin anew with: "
            f"mv {path} {path}.v{mark.version}"
        )
    return mark.version


def _open_error(error: sqlite3.DatabaseError, path: Path) -> StoreError:
    if isinstance(error, sqlite3.OperationalError):  # most likely a full disk, or no permission
        return StoreUnavailable(f"cannot open the store of runs {str(path)!r} now: {error}")
    return StoreMismatch(
        f"expected a store of runs, got {str(path)!r}, which cannot be read ({error}). "
        f"Begin anew with: mv {path} {path}.damaged"
    )
