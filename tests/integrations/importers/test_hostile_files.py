"""Files that never end, are no files, or are made to harm: reading ends, and says in a line what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from blamespan.analysis.sources import pieces, spooling
from blamespan.errors import UnreadableInput
from blamespan.importing.files import check_is_file, open_bytes
from blamespan.importing.recorded import RecordedRun, importers, load_importer
from blamespan_integrations.importers import langgraph_checkpoints
from tests.integrations.importers.files import FIXTURES, errors_in, traces_in

CHECKPOINTS = FIXTURES / "langgraph-checkpoints.nodes.sqlite"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
SCRIPTS = {
    "view of checkpoints": "ALTER TABLE checkpoints RENAME TO c; CREATE VIEW checkpoints AS "
    f"{ENDLESS} 't' thread_id, '' checkpoint_ns, '' checkpoint_id, NULL type, NULL checkpoint, NULL metadata FROM n",
    "view of writes": "ALTER TABLE writes RENAME TO w; CREATE VIEW writes AS "
    f"{ENDLESS} 't' thread_id, '' checkpoint_ns, '' checkpoint_id, '' task_id, 0 idx, '' channel FROM n",
    "virtual table": "DROP TABLE writes; CREATE VIRTUAL TABLE writes USING fts5(thread_id, checkpoint_id)",
    "worked out column": "DROP TABLE writes; CREATE TABLE writes (a, thread_id TEXT AS (hex(zeroblob(50000000))))",
    "no table": "DROP TABLE checkpoints",
}


def made(tmp_path: Path, script: str) -> Path:
    """Copy the recorded checkpoints and run *script* on them."""
    path = tmp_path / "state.sqlite"
    shutil.copy(CHECKPOINTS, path)
    with closing(sqlite3.connect(path)) as database:
        database.executescript(script)
    return path


def items_of(path: Path) -> list[RecordedRun | UnreadableInput]:
    return [item for piece in pieces([str(path)]) for item in piece.read()]


@pytest.mark.parametrize("name", SCRIPTS)
def test_only_plain_tables_of_a_database_are_read(tmp_path: Path, name: str) -> None:
    """Views, virtual tables and worked-out columns, which may run for ever, are refused by name."""
    path = made(tmp_path, SCRIPTS[name])

    [error] = load_importer("langgraph-checkpoints").read(path)

    assert isinstance(error, UnreadableInput)
    assert str(error).startswith(f"{path}: expected a database with the table '")


def test_rows_without_end_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that takes far more steps than its size explains is left, and the error says so."""
    many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)"
    path = made(tmp_path, f"INSERT INTO checkpoints(thread_id, checkpoint_id) {many} SELECT 't', i FROM n")
    monkeypatch.setattr(langgraph_checkpoints, "_LEAST_STEPS", 100_000)
    monkeypatch.setattr(langgraph_checkpoints, "_STEPS_PER_BYTE", 0)

    assert "got rows without end" in str(list(load_importer("langgraph-checkpoints").read(path))[-1])


def test_text_that_is_no_utf8_costs_no_other_thread(tmp_path: Path) -> None:
    """A thread whose name is no text is one more thread; the others are read."""
    path = made(
        tmp_path,
        "INSERT INTO checkpoints(thread_id, checkpoint_id, checkpoint_ns) VALUES (CAST(x'ff00fe' AS TEXT), 'a', '')",
    )

    assert len([item for item in items_of(path) if isinstance(item, RecordedRun)]) == 1


def test_database_in_use_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that somebody holds is named as such, with what to do."""
    monkeypatch.setattr(langgraph_checkpoints, "_BUSY_S", 0.0)
    path = made(tmp_path, "")
    with closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        (tmp_path / "state.sqlite-journal").write_bytes(b"")  # as a writer of another machine leaves it
        [error] = load_importer("langgraph-checkpoints").read(path)

    assert "got one that is in use (database is locked). Try again, or copy it." in str(error)


def test_database_with_a_log_beside_it_is_read(tmp_path: Path) -> None:
    """What is only in the write-ahead log counts; without the log, nothing is written beside the database."""
    path = made(tmp_path, "PRAGMA journal_mode = WAL")
    before = sorted(tmp_path.iterdir())

    assert len(traces_in(path)) == 1
    assert sorted(tmp_path.iterdir()) == before
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("UPDATE checkpoints SET thread_id = 'renamed'")
        writer.execute("UPDATE writes SET thread_id = 'renamed'")
        assert [item.source for item in items_of(path) if isinstance(item, RecordedRun)] == [f"{path}:renamed"]


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null", "/proc/self/environ", "socket", "folder"])
@pytest.mark.parametrize("format_name", [None, "otlp-json", "langgraph-checkpoints"])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str, format_name: str | None) -> None:
    """Devices, sockets, folders and views into the system are named for what they are, whatever the format."""
    path = Path(name) if name.startswith("/") else tmp_path / name
    if name == "folder":
        path.mkdir()
        with pytest.raises(UnreadableInput, match="which is a folder"):
            check_is_file(path)
        return
    if name == "socket":
        with closing(socket.socket(socket.AF_UNIX)) as server:
            server.bind(str(path))

    [error] = [item for piece in pieces([str(path)], format_name=format_name) for item in piece.read()]

    assert str(error).startswith(f"expected a file, got {str(path)!r}, which is a ")
    assert "\n" not in str(error)


def test_pipe_that_nobody_writes_to_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A named pipe that stays silent is one error, and what else was named is read."""
    monkeypatch.setattr(spooling, "_PATIENCE_S", 0.1)
    os.mkfifo(tmp_path / "pipe.jsonl")

    [error] = items_of(tmp_path / "pipe.jsonl")

    assert "pipe.jsonl', which gave nothing for 0 s. Start what writes to it" in str(error)
    assert list(map(str, items_of(tmp_path))) == [f"{tmp_path}: expected recorded runs, got none. Check the path"]


def test_file_is_read_as_long_as_it_was(tmp_path: Path) -> None:
    """What is written to a file while it is read is not waited for: the reader could never be done."""
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"a\n" * 10)
    with open_bytes(path) as file:
        with path.open("ab") as more:
            more.write(b"b\n" * 1_000_000)
        read = file.read()

    assert read == b"a\n" * 10


@pytest.mark.parametrize("unit", [" ", "\n", "\t", "\v", "{", "[", "{ ", "[ ", '"', '{"', "# a\n", "\\", "=", "- "])
def test_telling_the_format_takes_no_time(tmp_path: Path, unit: str) -> None:
    """The first bytes of a file, whatever is repeated in them, are told from a format at once."""
    path = tmp_path / "x.jsonl"
    head = (unit * 65_536)[:65_536].encode()
    path.write_bytes(head)
    start_s = time.perf_counter()
    for importer in importers():
        importer.matches(path, head)

    assert time.perf_counter() - start_s < 4  # one expression that takes the square of the length took 7 s alone


TEXTS = sorted(path.name for path in FIXTURES.iterdir() if path.suffix in (".json", ".jsonl"))
TEXTS.remove(
    "agent-framework.conversation.json"
)  # all messages of such a file are one run, a bad one among them is its own
HALF = '"\\ud83d"'
DAMAGES = {
    "deep": b"[" * 100_000,
    "deep object": b'{"x":' * 50_000,
    "long number": b'{"type": ' + b"9" * 5_000 + b"}",
    "no number": b'{"a": NaN, "b": Infinity, "c": -Infinity, "d": 1e999}',
    "twice": b'{"id": 1, "id": {"id": []}, "type": "a", "type": 7}',
    "nothing": b"\0" * 1_000,
    "cut": b'{"a": "\xe2\x82',
    "half a pair": f'{{"a": {HALF}, {HALF}: [{HALF}]}}'.encode(),
}


@pytest.mark.parametrize("name", TEXTS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_bad_line_at_the_end_costs_no_run(tmp_path: Path, name: str, damage: str) -> None:
    """Behind whole runs, whatever stands on a line gives errors of one line that name the file, and nothing is lost."""
    whole = (FIXTURES / name).read_bytes().rstrip()
    path = tmp_path / name
    path.write_bytes(b"\xef\xbb\xbf" + whole.replace(b"\n", b"\r\n") + b"\r\n" + DAMAGES[damage] + b"\r\n")
    expected = len(traces_in(FIXTURES / name))

    items = items_of(path)

    assert sum(isinstance(item, RecordedRun) for item in items) == expected
    errors = [str(item) for item in items if isinstance(item, UnreadableInput)]
    assert all(error.startswith(str(path)) and "\n" not in error and len(error) < 1_000 for error in errors)


def test_half_a_pair_costs_its_character_alone(tmp_path: Path) -> None:
    """A lone surrogate in one attribute of a line of OTLP-JSON becomes U+FFFD there; every span of the line is read."""
    path = tmp_path / "spans.jsonl"
    step = {
        "traceId": "1" * 32,
        "spanId": "2" * 16,
        "name": "invoke_agent a",
        "startTimeUnixNano": "1",
        "endTimeUnixNano": "2",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "invoke_agent"}},
            {"key": "gen_ai.agent.name", "value": {"stringValue": "writer \ud83d \U0001f600"}},
        ],
    }
    other = json.loads(json.dumps({**step, "spanId": "3" * 16}).replace("writer", "reader").replace("\\ud83d ", ""))
    path.write_text(json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [step, other]}]}]}))

    assert errors_in(path) == []
    assert sorted(agent.name for agent in traces_in(path)[0].agents) == [
        "reader \U0001f600",
        "writer \ufffd \U0001f600",
    ]
