"""LangGraph's checkpoints in SQLite: each thread's history, round by round, from what its nodes wrote.

Values are msgpack with types of the program's own. They are read as data: nothing is imported, called or unpickled.
Source: langgraph-checkpoint-sqlite 3.1, langgraph-checkpoint 4.3, `serde/jsonplus.py`.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.files import check_is_file
from blamespan.importing.recorded import RecordedRun
from blamespan.json_text import is_deep, parse_json
from blamespan_integrations.dialects._values import as_text
from blamespan_integrations.importers._graph_run import GraphRun
from blamespan_integrations.importers._span_values import nanoseconds

_MAGIC = b"SQLite format 3\x00"
_START = "__start__"
_OWN_CHANNELS = ("__", "branch:")
"""Beginnings of channels that LangGraph steers by."""
_ERROR = "__error__"
_SENDS = "__pregel_tasks"
_PULLED = re.compile(r"__pregel_pull, ([^,|]+)")
_PUSHED = re.compile(r"__pregel_push, (\d+)")
_WITH_FIELDS = (2, 4, 5)
"""Extension types that hold a class and its fields by name; the others hold its arguments."""
_UNKNOWN = "unknown"
_MAX_VALUE_BYTES = 64 * 1024 * 1024
_BUSY_S = 2.0
"""How long a database may be in use before it is given up."""
_STEPS_AT_ONCE = 100_000
_STEPS_PER_BYTE = 20
_LEAST_STEPS = 20_000_000
"""Steps of SQLite's machine that reading a database may take: a row takes about twenty, and has a hundred bytes. A
database made to harm can name one page many times over, and has rows without end."""
_PLAIN_COLUMN = 0


class LangGraphCheckpointsImporter:
    """Reads the database of LangGraph's SQLite checkpointer."""

    name = "langgraph-checkpoints"
    description = "LangGraph SQLite checkpoints; loses model calls within a node, subgraphs' rounds, and durations"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the magic number and the tables' names in the first pages."""
        del path
        return head.startswith(_MAGIC) and b"checkpoint_id" in head and b"thread_id" in head

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run of every thread, and errors in their place; a new input begins a new run.

        Raises:
            UnreadableInput: if the file is no such database, or a package to read it is missing.
        """
        _unpack(b"\xc0")  # names the package where it is missing, before anything is read
        check_is_file(path)
        try:
            with open_tables(path, ("checkpoints", "writes")) as database:
                yield from _runs(database, path)
        except UnreadableInput as error:
            yield error


def _runs(database: sqlite3.Connection, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
    rows = database.execute(
        "SELECT thread_id, checkpoint_id, type, checkpoint, metadata FROM checkpoints "
        "WHERE checkpoint_ns = '' ORDER BY thread_id, checkpoint_id"
    )
    run: _ThreadRun | None = None
    for thread, checkpoint, kind, data, metadata in rows:
        location = f"{path}:{thread}:{checkpoint}"
        try:
            is_input = _metadata(metadata, location).get("source") == "input"
            if run is None or run.thread != thread or is_input:
                yield from run.finish() if run else ()
                run = _ThreadRun(str(thread), f"{path}:{thread}")
            values = _value(kind, data, location)
            written = values.get("ts") if isinstance(values, Mapping) else None
            run.add(
                _tasks(database, str(thread), str(checkpoint), location),
                nanoseconds(written, location) if written else 0,
            )
        except UnreadableInput as error:
            yield error
    yield from run.finish() if run else ()


class _ThreadRun:
    """A thread's history from one input to the next."""

    def __init__(self, thread: str, source: str) -> None:
        self.thread = thread
        self._graph = GraphRun(source)
        self._sent: list[str] = []

    def add(self, tasks: Mapping[str, list[tuple[str, Any]]], time_ns: int) -> None:
        """Take up what the nodes of one round wrote."""
        sent: list[str] = []
        for path, writes in tasks.items():
            update = {channel: value for channel, value in writes if not channel.startswith(_OWN_CHANNELS)}
            failed = [as_text(_format_exception(value)) for channel, value in writes if channel == _ERROR]
            sent += [_target(value) for channel, value in writes if channel == _SENDS]
            node = self._node(path)
            if node == _START:
                self._graph.ask(update)
            else:
                self._graph.add(node, update, time_ns=time_ns, error=failed[0] if failed else None)
        self._graph.begin_round()
        self._sent = sent

    def finish(self) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield the run; nothing where no node wrote anything, as in a thread that was only looked at."""
        if len(self._graph.conversation):
            yield from self._graph.conversation.finish("langgraph", self.thread)

    def _node(self, path: str) -> str:
        """Read a node's name off its task's path; one that was sent to is named by who sent."""
        pulled, pushed = _PULLED.search(path), _PUSHED.search(path)
        if pulled:
            return pulled[1]
        index = int(pushed[1]) if pushed and len(pushed[1]) < 6 else -1
        return self._sent[index] if 0 <= index < len(self._sent) else _UNKNOWN


def _tasks(
    database: sqlite3.Connection, thread: str, checkpoint: str, location: str
) -> dict[str, list[tuple[str, Any]]]:
    """Read what each task of a round wrote, in the order of their paths."""
    writes: dict[str, list[tuple[str, Any]]] = defaultdict(list)
    columns = {row[1] for row in database.execute("PRAGMA table_info(writes)")}
    path_column = "task_path" if "task_path" in columns else "''"
    rows = database.execute(
        f"SELECT {path_column}, task_id, channel, type, value FROM writes "  # noqa: S608  # one of two words of ours
        "WHERE thread_id = ? AND checkpoint_ns = '' AND checkpoint_id = ? ORDER BY 1, task_id, idx",
        (thread, checkpoint),
    )
    for path, task, channel, kind, data in rows:
        writes[f"{path}|{task}"].append((str(channel), _value(kind, data, location)))
    return writes


def _value(kind: object, data: object, location: str) -> Any:
    """Read a value as data; `Any`, as it may be whatever a program keeps in its state."""
    if kind in ("null", "empty", None) or data is None:
        return None
    raw = data.encode() if isinstance(data, str) else data
    if not isinstance(raw, bytes) or len(raw) > _MAX_VALUE_BYTES:
        raise UnreadableInput(
            f"{location}: expected a value of at most {_MAX_VALUE_BYTES} bytes, got {type(data).__name__}."
        )
    try:
        if kind == "msgpack":
            value = _unpack(raw)
            if is_deep(value):
                raise UnreadableInput(f"{location}: expected a value that is not nested without end, got one that is.")
            return value
        if kind == "json":
            return parse_json(raw)
    except ValueError as error:
        raise UnreadableInput(f"{location}: expected a value as {kind}, got none: {error}.") from error
    raise UnreadableInput(
        f"{location}: expected a value as msgpack or JSON, got {kind!r}, which is not read from files."
    )


def _unpack(raw: bytes) -> Any:
    try:
        import ormsgpack
    except ModuleNotFoundError as error:
        raise UnreadableInput(
            "reading LangGraph's checkpoints needs the package 'ormsgpack', which is not installed. "
            "Install it with: pip install 'blamespan[importers]'"
        ) from error
    option = ormsgpack.OPT_NON_STR_KEYS
    return ormsgpack.unpackb(raw, ext_hook=_extension, option=option)


def _extension(code: int, data: bytes) -> Any:
    """Read a value of a program's own type: its fields, or what it was made of."""
    try:
        value = _unpack(data)
    except ValueError:
        return None
    if isinstance(value, list) and len(value) >= 3:
        return value[2] if code in _WITH_FIELDS else {"__class__": value[1], "__args__": value[2]}
    return value


def _target(value: object) -> str:
    arguments = value.get("__args__") if isinstance(value, Mapping) else None
    return as_text(arguments[0]) if isinstance(arguments, list) and arguments else _UNKNOWN


def _format_exception(value: object) -> object:
    """Write an exception as `Type(what it says)`."""
    if isinstance(value, Mapping) and "__class__" in value:
        return f"{value['__class__']}({as_text(value.get('__args__'))})"
    return value


def _metadata(data: object, location: str) -> Mapping[str, Any]:
    try:
        metadata = parse_json(data) if isinstance(data, str | bytes) else {}
    except ValueError as error:
        raise UnreadableInput(
            f"{location}: expected a checkpoint's metadata as JSON, got {str(data)[:60]!r}."
        ) from error
    return metadata if isinstance(metadata, dict) else {}


@contextmanager
def open_tables(path: Path, tables: Iterable[str]) -> Iterator[sqlite3.Connection]:
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
        database = _connect(path)
        try:
            _check_tables(database, path, tables)
            yield database
        finally:
            database.close()
    except sqlite3.Error as error:
        raise UnreadableInput(f"{path}: {_reason(error)}") from error


def _connect(path: Path) -> sqlite3.Connection:
    address = f"{path.resolve().as_uri()}?mode=ro"
    if not path.with_name(f"{path.name}-wal").exists() and not path.with_name(f"{path.name}-journal").exists():
        address += "&immutable=1"  # nobody has it open; read so, it needs no files beside it, which a folder may refuse
    database = sqlite3.connect(address, uri=True, timeout=_BUSY_S)
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
