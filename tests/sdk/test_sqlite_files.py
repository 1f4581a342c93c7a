"""Our own SQLite files: all of a transaction or nothing, and a damaged file is moved away whole."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from blamespan.sqlite_files import (
    FileMark,
    bears_mark,
    connect,
    is_busy,
    is_full,
    is_sound,
    move_files,
    primary_code,
    read_mark,
    transaction,
)

MARK = 0x62_6C_74_74


def make_file(path: Path) -> None:
    with closing(connect(path, pragmas=("journal_mode = WAL",))) as database:
        fill(database)


def fill(database: sqlite3.Connection) -> None:
    with transaction(database):
        database.execute(f"PRAGMA application_id = {MARK}")
        database.execute("PRAGMA user_version = 3")
        database.execute("CREATE TABLE numbers (number INTEGER)")


def test_what_an_error_leaves_is_not_written(tmp_path: Path) -> None:
    """A block that raises writes nothing of what it did; one that ends writes all of it."""
    make_file(tmp_path / "file.db")
    with closing(connect(tmp_path / "file.db")) as database:
        with pytest.raises(sqlite3.ProgrammingError), transaction(database):
            database.executemany("INSERT INTO numbers VALUES (?)", [(1,), ()])
        with transaction(database, is_kept=False):
            database.execute("INSERT INTO numbers VALUES (2)")
        with transaction(database):
            database.execute("INSERT INTO numbers VALUES (3)")

        assert database.execute("SELECT number FROM numbers").fetchall() == [(3,)]


def test_file_says_whose_it_is(tmp_path: Path) -> None:
    """An empty file bears no mark; ours bears it also where SQLite cannot read the rest."""
    path = tmp_path / "file.db"
    with closing(connect(path)) as database:
        assert read_mark(database).is_empty
    make_file(path)
    with closing(connect(path, read_only=True)) as database:
        mark = read_mark(database)
    path.write_bytes(path.read_bytes()[:100])

    assert mark == FileMark(MARK, 3, 1)
    assert bears_mark(path, MARK)
    assert not bears_mark(path, MARK + 1)
    assert not bears_mark(tmp_path / "nothing.db", MARK)


def test_mark_is_of_one_moment(tmp_path: Path) -> None:
    """A file that another process marks while we look at it is ours or empty, never something else."""
    path = tmp_path / "file.db"
    statements: list[str] = []
    with closing(connect(path, pragmas=("journal_mode = WAL",))) as other, closing(connect(path)) as database:

        def fill_meanwhile(statement: str) -> None:
            statements.append(statement)
            if len(statements) == 2:
                fill(other)

        database.set_trace_callback(fill_meanwhile)

        assert read_mark(database) in (FileMark(0, 0, 0), FileMark(MARK, 3, 1))


def test_file_that_another_writes_is_waited_for_also_to_change_its_mode(tmp_path: Path) -> None:
    """Programs that begin a file at the same time all can: `journal_mode = WAL` would not wait by itself."""
    with closing(connect(tmp_path / "file.db")) as other:
        fill(other)
        other.execute("BEGIN IMMEDIATE")
        threading.Timer(0.1, other.execute, ["COMMIT"]).start()
        with closing(connect(tmp_path / "file.db", pragmas=("journal_mode = WAL",))) as database:
            assert database.execute("PRAGMA journal_mode").fetchall() == [("wal",)]


def test_only_read_is_never_written(tmp_path: Path) -> None:
    """A file opened to be read refuses to be written, and is not made where it is not."""
    make_file(tmp_path / "file.db")
    with closing(connect(tmp_path / "file.db", read_only=True)) as database:
        assert is_sound(database, with_indexes=True)
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            database.execute("INSERT INTO numbers VALUES (1)")
    with pytest.raises(sqlite3.OperationalError):
        connect(tmp_path / "nothing.db", read_only=True)


def test_moved_file_takes_its_log_along(tmp_path: Path) -> None:
    """What is only in the log is in the moved file, and a new file does not take the log for its own."""
    path, target = tmp_path / "file.db", tmp_path / "file.db.damaged"
    make_file(path)
    target.with_name(f"{target.name}-wal").write_bytes(b"of another file")
    copy = connect(path)
    copy.execute("PRAGMA wal_autocheckpoint = 0")
    with transaction(copy):
        copy.execute("INSERT INTO numbers VALUES (7)")
    move_files(path, target)
    copy.close()

    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith("file.db-")] == []
    with closing(connect(target)) as database:
        assert database.execute("SELECT number FROM numbers").fetchall() == [(7,)]


def test_reason_of_an_error_is_read(tmp_path: Path) -> None:
    """A file held by another connection is busy, one that may not grow is full; other errors are neither."""
    make_file(tmp_path / "file.db")
    with (
        closing(connect(tmp_path / "file.db", busy_s=0.0)) as ours,
        closing(connect(tmp_path / "file.db")) as theirs,
    ):
        with transaction(theirs), pytest.raises(sqlite3.OperationalError) as busy, transaction(ours):
            pass
        ours.execute("PRAGMA max_page_count = 1").fetchall()
        with pytest.raises(sqlite3.OperationalError) as full, transaction(ours):
            ours.execute("INSERT INTO numbers VALUES (zeroblob(100000))")

    assert (is_busy(busy.value), is_full(busy.value)) == (True, False)
    assert (is_busy(full.value), is_full(full.value)) == (False, True)
    assert primary_code(ValueError()) == 0
