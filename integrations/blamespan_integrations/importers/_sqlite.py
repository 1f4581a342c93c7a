"""SQLite databases that somebody else made: opened so that nothing in them runs, and that reading them ends."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from blamespan.errors import UnreadableInput

__all__ = ["opened_tables"]

_MAX_VALUE_BYTES = 64 * 1024 * 1024
_STEPS_AT_ONCE = 100_000
_STEPS_PER_BYTE = 20
_LEAST_STEPS = 20_000_000
"""Steps of SQLite's machine that reading a database may take: a row takes about twenty, and has a hundred bytes. A
database made to harm can name one page many times over, and has rows without end."""
_PLAIN_COLUMN = 0


@contextmanager
def opened_tables(path: Path, tables: Iterable[str]) -> Iterator[sqlite3.Connection]:
    """Open a database to read some of its tables.

    Views, virtual tables and columns that are worked out are refused, as whoever made the file says how long they take.

    Args:
        path: The database. It is not written to, nor is anything beside it where that can be helped.
        tables: Those that will be read.

    Raises:
        UnreadableInput: if one of *tables* is no table, the database is damaged or in use, or reading it takes far
            longer than its size explains.
    """
    try:
        database = _connected(path)
        try:
            _check_tables(database, path, tables)
            yield database
        finally:
            database.close()
    except sqlite3.Error as error:
        raise UnreadableInput(f"{path}: {_reason(error)}") from error


def _connected(path: Path) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=ro"
    if not path.with_name(f"{path.name}-wal").exists() and not path.with_name(f"{path.name}-journal").exists():
        address += "&immutable=1"  # nobody has it open; read so, it needs no files beside it, which a folder may refuse
    database = sqlite3.connect(address, uri=True, timeout=2)
    database.text_factory = lambda text: text.decode("utf-8", "replace")
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_VALUE_BYTES)
    database.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    left = max(_LEAST_STEPS, _STEPS_PER_BYTE * path.stat().st_size) // _STEPS_AT_ONCE

    def count() -> bool:
        nonlocal left
        left -= 1
        return left < 0

    database.set_progress_handler(count, _STEPS_AT_ONCE)
    for setting in ("query_only = ON", "trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        database.execute(f"PRAGMA {setting}")
    return database


def _check_tables(database: sqlite3.Connection, path: Path, tables: Iterable[str]) -> None:
    for table in tables:
        row = database.execute("SELECT type, sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()
        kind, made_by = row or ("nothing", "")
        if kind == "table" and str(made_by).lstrip().upper().startswith("CREATE VIRTUAL"):
            kind = "virtual table"
        columns = database.execute("SELECT hidden FROM pragma_table_xinfo(?)", (table,)) if kind == "table" else ()
        if kind == "table" and any(hidden != _PLAIN_COLUMN for (hidden,) in columns):
            kind = "table with columns that are worked out"
        if kind != "table":
            raise UnreadableInput(
                f"{path}: expected a database with the table {table!r}, got {kind if row else 'none'} of that name. "
                "Is this another database? Copy its rows to a table."
            )


def _reason(error: sqlite3.Error) -> str:
    if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT:
        return "expected a database whose tables end, got rows without end. Leave it out, or export it again."
    if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return f"expected a database that nobody writes to, got one that is in use ({error}). Try again, or copy it."
    if getattr(error, "sqlite_errorcode", None) in (sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_NOMEM):
        return f"expected values of at most {_MAX_VALUE_BYTES} bytes, got more ({error})."
    return f"expected a whole database of LangGraph's checkpoints, got {error}. Fetch it again, with its -wal if any."
