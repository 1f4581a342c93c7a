"""Begins a damaged state file anew, with every row of it that can still be read and whose checksum holds.

What the journal still holds is delivered again from there. So some spans may go out twice, where the note that they
were let go is lost; spans are lost only where they stood in the state alone, and those are counted.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal

from blamespan import sqlite_files
from blamespan_collector.journal import JournalUnreadable
from blamespan_collector.state.state import State, checksum, connect

_logger = logging.getLogger("blamespan.collector")

_TABLES = ("released", "carried", "outbox", "lanes", "set_aside", "attempts", "notes")
_UNCHECKED = ("set_aside", "attempts")
"""Nothing is lost or altered by damage in these: one is for people to look at, one counts attempts."""
_UNREADABLE = (sqlite3.DatabaseError, UnicodeError)
"""Names of columns are read, too, and may be no text any more."""
_CHECKED_BYTES = 256 * 1024 * 1024
"""A larger file is checked at a start only after SQLite found it damaged: to read all of it takes too long."""
_MOST_TRIED = 200_000
"""Rows that are looked for one by one between those that can be read from both ends of a table."""


def suspect(path: Path) -> None:
    """Have the next process check the state file, whatever its size."""
    with suppress(OSError):
        _suspicion(path).touch()


def open_state(path: Path, sync: Literal["full", "normal"]) -> State:
    """Open the state; a damaged one is begun anew with what can be read of it, and the loss is counted in it.

    Raises:
        JournalUnreadable, JournalUnavailable, OSError: as `State`; or if the new one cannot be written.
    """
    waiting = _read_waiting(path)
    if not path.exists() and _fresh(path).exists():  # the process before us ended amid `_salvage`
        _fresh(path).replace(path)
    is_gone = waiting > 0 and (not path.exists() or path.stat().st_size == 0)
    state = _open_sound(path, sync)
    is_salvaged = state is None
    if state is None:
        _salvage(path, sync)
        state = State(path, sync=sync)
    if (is_gone or is_salvaged) and not state.has_enqueued:
        state.lost_spans = waiting
        _logger.error(
            "the state %r was lost. At most %d spans waited in it; those that the journal still holds go on again",
            str(path),
            waiting,
        )
    return state


def note_waiting(path: Path, spans: int) -> None:
    """Note how many spans stand in the state alone, beside it: what is lost with the file."""
    with suppress(OSError):
        packed = struct.pack(">Q", spans)
        file = os.open(path.with_name(f"{path.name}.waiting"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            os.pwrite(file, packed + struct.pack(">I", zlib.crc32(packed)), 0)
        finally:
            os.close(file)


def _read_waiting(path: Path) -> int:
    try:
        packed = path.with_name(f"{path.name}.waiting").read_bytes()[:12]
    except OSError:
        return 0
    is_whole = len(packed) == 12 and struct.unpack(">I", packed[8:])[0] == zlib.crc32(packed[:8])
    return int.from_bytes(packed[:8], "big") if is_whole else 0


def _open_sound(path: Path, sync: Literal["full", "normal"]) -> State | None:
    """Open a state file; None where it is damaged, as far as its size allows to check that."""
    is_suspected = _suspicion(path).exists()
    state = None
    try:
        state = State(path, sync=sync)
        if path.stat().st_size > _CHECKED_BYTES and not is_suspected:
            return state
        if state.is_sound(with_indexes=is_suspected):
            _suspicion(path).unlink(missing_ok=True)
            return state
    except JournalUnreadable as error:
        if not isinstance(error.__cause__, sqlite3.DatabaseError | UnicodeError):
            raise
    except sqlite3.OperationalError as error:
        if "malformed" not in str(error):  # e.g. a damaged schema
            raise
    except _UNREADABLE:
        pass
    if state is not None:
        state.database.close()
    return None


def _salvage(path: Path, sync: Literal["full", "normal"]) -> None:
    """Move a damaged state file into the folder `damaged`, and begin it anew with what can be read of it.

    Raises:
        JournalUnreadable, JournalUnavailable, OSError: if the new one cannot be written, e.g. on a full disk.
    """
    fresh = _fresh(path)
    sqlite_files.delete_files(fresh)
    rows = damaged = 0
    with closing(connect(fresh, sync)) as into, closing(_open(path)) as source:
        into.execute("BEGIN")
        for table in _TABLES:
            for values in _rows(source, table):
                if table in _UNCHECKED or checksum(*values[1:-1] if table == "released" else values[:-1]) == values[-1]:
                    with suppress(sqlite3.IntegrityError):
                        into.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(values))})", values)  # noqa: S608
                        rows += 1
                else:
                    damaged += 1
        into.execute("COMMIT")
        into.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    aside = path.parent / "damaged" / path.name
    aside.parent.mkdir(mode=0o700, exist_ok=True)
    sqlite_files.move_files(path, aside)
    fresh.replace(path)
    _suspicion(path).unlink(missing_ok=True)
    _logger.error(
        "the state %r is damaged: it is moved to %r and begun anew with the %d rows of it that can be read "
        "(%d more are damaged). Spans may go out again; what is lost is counted",
        str(path),
        str(aside),
        rows,
        damaged,
    )


def _open(path: Path) -> sqlite3.Connection:
    database = sqlite_files.connect(path)
    database.text_factory = lambda text: text.decode("utf-8", "replace")
    return database


def _rows(source: sqlite3.Connection, table: str) -> Iterator[tuple[object, ...]]:
    """Read a table from both ends, and what lies between row by row."""
    first = last = None
    try:
        for rowid, *values in source.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid"):  # noqa: S608
            yield tuple(values)
            first = rowid
        return
    except _UNREADABLE as error:
        _logger.error("the state's table %s is damaged: %s", table, error)
    with suppress(*_UNREADABLE):
        for rowid, *values in source.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid DESC"):  # noqa: S608
            if first is not None and rowid <= first:
                break
            yield tuple(values)
            last = rowid
    if (first is None and last is None) or table == "carried":  # whose rows are numbered by their place in the journal
        return
    lowest = max(0, (last or 0) - _MOST_TRIED) if first is None else first
    for rowid in range(lowest + 1, min(last or lowest + _MOST_TRIED, lowest + _MOST_TRIED)):
        with suppress(*_UNREADABLE):
            yield from source.execute(f"SELECT * FROM {table} WHERE rowid = ?", (rowid,)).fetchall()  # noqa: S608


def _fresh(path: Path) -> Path:
    return path.with_name(f"new-{path.name}")


def _suspicion(path: Path) -> Path:
    return path.with_name(f"{path.name}.suspect")
