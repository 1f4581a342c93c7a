"""What nobody foresaw: a payload on which a sink breaks is set aside alone, and everything else goes on."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError

from blamespan.errors import ConfigError, MalformedSpan
from blamespan_collector.delivering.file_sink import FileSink
from blamespan_collector.delivering.outbox import Outbox
from blamespan_collector.delivering.store_sink import StoreSink
from blamespan_collector.journal.entries import NewEntry, SpanKey, pack_keys
from blamespan_collector.store import Retention, RunStore, run_writer
from blamespan_collector.store.schema import move_aside
from blamespan_collector.wire.outgoing import Kind
from blamespan_collector.wire.protobuf import delimit, tag_of
from tests.collector.fakes import request, run
from tests.collector.outbox import delivered, enqueue, set_aside
from tests.collector.working import MemorySink, until, working

BODIES = [request(run(number)).SerializeToString() for number in range(1, 6)]


def poison(levels: int = 60, attributes: int = 9) -> bytes:
    """Write a request whose only span has an attribute of so many lists in lists: deeper than protobuf reads.

    Its *attributes* are field 9 in a span, and 6 in a log record.
    """
    value = b""
    for _ in range(levels):
        value = delimit(0x2A, delimit(0x0A, value))  # AnyValue.array_value, ArrayValue.values
    attribute = delimit(0x0A, b"deep") + delimit(0x12, value)
    span = delimit(0x0A, b"t" * 16) + delimit(0x12, b"s" * 8) + delimit(tag_of(attributes), attribute)
    return delimit(0x0A, delimit(0x12, delimit(0x12, span)))


def test_payload_that_a_file_cannot_hold_is_set_aside_alone(tmp_path: Path) -> None:
    """A request nested deeper than OTLP-JSON's writer reads goes aside; the lines before and after it are written."""
    path = tmp_path / "out.jsonl"
    enqueue(tmp_path, BODIES[0], poison(), *BODIES[1:], spans=1)
    delivery = delivered(tmp_path, FileSink(str(path)))
    ((sink, reason, payload),) = set_aside(tmp_path, "sink, reason, payload")

    lines = [json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"] for line in path.read_text().splitlines()]
    assert [spans[0]["traceId"] for spans in lines] == [f"{number:032x}" for number in range(1, 6)]
    assert (sink, reason.startswith("the sink broke on it: DecodeError"), payload) == (str(path), True, poison())
    assert delivery.counts[str(path), "traces"].refused == 1


def test_start_is_not_kept_by_what_was_to_be_written_next(tmp_path: Path) -> None:
    """Looking for lines that were written but not noted passes over what can be no line; none comes twice."""
    path = tmp_path / "out.jsonl"
    enqueue(tmp_path, BODIES[0])
    delivered(tmp_path, FileSink(str(path)))
    first = path.read_bytes()
    enqueue(tmp_path, poison(), *BODIES[1:3])
    sink = FileSink(str(path))
    sink._write("traces", [BODIES[1]])  # and killed before it was noted
    asyncio.run(sink.close())
    delivered(tmp_path, FileSink(str(path)))

    assert path.read_bytes().startswith(first)
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.parametrize(
    "error",
    [
        DecodeError("too deep"),
        RecursionError(),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"),
        ValueError("\ud800 is no text"),
        KeyError("spans"),
        OverflowError("too large"),
        MalformedSpan("no span"),
        sqlite3.IntegrityError("no"),
        sqlite3.DataError("string or blob too big"),
        sqlite3.OperationalError("parser stack overflow"),
        sqlite3.DatabaseError("no"),
        OSError(5, "Input/output error"),
        MemoryError(),
        asyncio.InvalidStateError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_sink_raises_costs_one_item(
    tmp_path: Path, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """Any exception of a sink sets aside what it is raised for, with the reason, and reaches neither rows nor sinks."""
    caplog.set_level(logging.CRITICAL, "blamespan.collector")  # half a surrogate pair in a report ends the suite
    sink = MemorySink("breaks", fails=lambda _, payloads: error if BODIES[2] in payloads else None)
    other = MemorySink("works")
    enqueue(tmp_path, *BODIES)
    delivered(tmp_path, sink, other)
    ((name, reason, payload),) = set_aside(tmp_path, "sink, reason, payload")

    assert [payload for _, payload in sink.payloads] == [*BODIES[:2], *BODIES[3:]]
    assert [payload for _, payload in other.payloads] == BODIES
    assert (name, payload) == ("breaks", BODIES[2])
    assert type(error).__name__ in reason


def test_certificates_that_are_not_there_are_waited_for(tmp_path: Path) -> None:
    """A setting that is wrong speaks of us, not of the batch: nothing is set aside."""
    errors = iter([ConfigError("expected PEM files")] * 20)
    sink = MemorySink(fails=lambda *_: next(errors, None))
    enqueue(tmp_path, *BODIES)
    delivered(tmp_path, sink)

    assert ([payload for _, payload in sink.payloads], set_aside(tmp_path, "sink, reason, payload")) == (BODIES, [])


def test_lane_outlives_a_failure_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What breaks outside the sink, as where the outbox cannot be read for a moment, is tried again."""
    failures = iter([sqlite3.OperationalError("disk I/O error"), RuntimeError("ours"), KeyError("ours")])
    read = Outbox.next

    def fail_at_first(self: Outbox, *arguments: object, **more: object) -> object:
        if threading.current_thread().name == "blamespan-deliver" and delivery_began.is_set():
            for failure in failures:
                raise failure
        return read(self, *arguments, **more)  # type: ignore[arg-type]  # as they came

    delivery_began = threading.Event()
    monkeypatch.setattr(Outbox, "next", fail_at_first)
    sink = MemorySink()
    monkeypatch.setattr(sink, "resume", lambda _: delivery_began.set())
    enqueue(tmp_path, *BODIES)
    delivered(tmp_path, sink)

    assert [payload for _, payload in sink.payloads] == BODIES


def test_sink_that_cannot_go_on_where_it_ended_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure at a sink's start keeps neither it nor others from delivering."""

    def break_down(_: object) -> None:
        raise DecodeError("what is to come cannot be read")

    sink, other = MemorySink("breaks"), MemorySink("works")
    monkeypatch.setattr(sink, "resume", break_down)
    enqueue(tmp_path, *BODIES)
    delivered(tmp_path, sink, other)

    assert len(sink.payloads) == len(other.payloads) == len(BODIES)


@pytest.mark.parametrize("signal", ["traces", "logs", "metrics"])
def test_worker_lives_through_poison_in_the_outbox(tmp_path: Path, signal: Kind) -> None:
    """With a file and a store beside each other, what neither can read ends no process and holds up nothing."""
    (tmp_path / "journal").mkdir()
    enqueue(tmp_path / "journal", poison(), b"\xff\xff", b"", poison(2_000), kind=signal)
    store = StoreSink(tmp_path / "runs.db", Retention(), sync="normal")
    memory = MemorySink()
    with working(tmp_path / "journal", FileSink(str(tmp_path / "out")), store, memory) as worker:
        worker.take(run(1))
        until(lambda: RunStore(tmp_path / "runs.db").run("1") and len(memory.payloads) > 4)

    assert worker.failure == []
    assert memory.payloads[:4] == [(signal, payload) for payload in (poison(), b"\xff\xff", b"", poison(2_000))]
    assert not (tmp_path / "runs.db.damaged").exists()


@pytest.mark.parametrize("levels", [0, 33, 48, 60, 99, 2_000, 20_000])
def test_worker_lives_through_poison_in_the_journal(tmp_path: Path, levels: int) -> None:
    """Whatever intake let through: spans, logs, metrics and messages that cannot be read cost themselves alone."""
    payload, record = (poison(levels), poison(levels, 6)) if levels else (b"\xff\xff", b"\xff\xff")
    key = pack_keys([SpanKey(b"s" * 8, bytes(8), 2)])
    now_ns = time.time_ns()
    memory = MemorySink()
    with working(tmp_path / "journal", FileSink(str(tmp_path / "out")), memory) as worker:
        worker.take(run(1)[1:])
        entries = [
            NewEntry("events", b"t" * 16, key, record, now_ns),
            NewEntry("events", bytes.fromhex(run(1)[0].trace_id), key, record, now_ns),
            NewEntry("traces", b"t" * 16, key, payload, now_ns),
            NewEntry("logs", b"", b"", record, now_ns),
            NewEntry("metrics", b"", b"", payload, now_ns),
        ]
        worker.writer.append(entries).result(10)
        worker.take(run(1)[:1])
        worker.take(run(2))
        until(lambda: len([line for line in (tmp_path / "out").read_bytes().splitlines() if b"agent0" in line]) >= 2)

    assert worker.failure == []


async def test_store_is_not_closed_while_it_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who gives up waiting for a batch, and closes, waits for the thread inside SQLite."""
    inside, go = threading.Event(), threading.Event()
    closed_at: list[float] = []
    put, close = run_writer.RunWriter.put, run_writer.RunWriter.close

    def put_slowly(self: run_writer.RunWriter, payloads: Sequence[bytes]) -> None:
        inside.set()
        go.wait(10)
        put(self, payloads)

    def note_close(self: run_writer.RunWriter) -> None:
        closed_at.append(time.monotonic())
        close(self)

    monkeypatch.setattr(run_writer.RunWriter, "put", put_slowly)
    monkeypatch.setattr(run_writer.RunWriter, "close", note_close)
    sink = StoreSink(tmp_path / "runs.db", Retention(), sync="normal")
    sending = asyncio.create_task(sink.send("traces", [BODIES[0]]))
    await asyncio.to_thread(inside.wait, 10)
    sending.cancel()
    closing = asyncio.create_task(sink.close())
    await asyncio.sleep(0.2)
    assert closed_at == []
    go.set()
    await closing

    assert len(closed_at) == 1
    assert RunStore(tmp_path / "runs.db").run("1") is not None


@pytest.mark.parametrize("error", [sqlite3.IntegrityError("no"), sqlite3.DatabaseError("database disk image ...")])
async def test_healthy_store_is_never_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: sqlite3.DatabaseError
) -> None:
    """An error about a payload, or one that SQLite cannot confirm when asked, leaves the store where it is."""
    aside = tmp_path / "runs.db.damaged"
    sink = StoreSink(tmp_path / "runs.db", Retention(), sync="normal")
    await sink.send("traces", BODIES[:1])
    if "image" in str(error):
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT  # type: ignore[misc]  # as SQLite's own has it

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(run_writer.RunWriter, "put", fail)
        with pytest.raises(sqlite3.DatabaseError):
            await sink.send("traces", BODIES[1:2])
    await sink.send("traces", BODIES[2:3])
    await sink.close()

    assert [RunStore(tmp_path / "runs.db").run(str(number)) is not None for number in (1, 2, 3)] == [True, False, True]
    assert not aside.exists()


async def test_damaged_store_goes_aside_with_its_log(tmp_path: Path) -> None:
    """What was written last is in the log beside the store: both are moved, so that both can be looked at."""
    path = tmp_path / "runs.db"
    sink = StoreSink(path, Retention(), sync="normal")
    for body in BODIES[:3]:
        await sink.send("traces", [body])
    log = path.with_name("runs.db-wal").read_bytes()
    assert log
    aside = move_aside(path)  # under the connection that wrote it, which is how it looks after a kill
    await sink.close()

    assert aside.with_name("runs.db.damaged-wal").read_bytes() == log
    assert not path.exists()


async def test_store_that_was_damaged_between_two_starts_holds_up_nothing(tmp_path: Path) -> None:
    """A store that bears our mark and cannot be opened is begun anew with the first trace; a stranger's is refused."""
    path = tmp_path / "runs.db"
    sink = StoreSink(path, Retention(), sync="normal")
    await sink.send("traces", BODIES[:1])
    await sink.close()
    data = bytearray(path.read_bytes())
    data[100:] = b"\x5a" * (len(data) - 100)
    path.write_bytes(data)
    sink = StoreSink(path, Retention(), sync="normal")
    await sink.send("traces", BODIES[1:2])
    await sink.close()
    (tmp_path / "letter.db").write_bytes(b"Dear friend, " * 100)

    assert RunStore(path).run("2") is not None
    assert (tmp_path / "runs.db.damaged").read_bytes() == data
    with pytest.raises(ConfigError, match="expected a store of runs"):
        StoreSink(tmp_path / "letter.db", Retention())
