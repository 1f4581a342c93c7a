"""A full disk at any time: requests are refused so that they come again, and work goes on soon after there is room."""

from __future__ import annotations

import asyncio
import errno
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from shutil import disk_usage

import httpx
import pytest

from blamespan_collector.assembling.parts import Released
from blamespan_collector.journal import (
    JournalFull,
    JournalReader,
    JournalUnavailable,
    JournalWriter,
    NewEntry,
    Position,
    has_room,
)
from blamespan_collector.journal.entries import pack_position
from blamespan_collector.receiving.request_reader import RequestReader
from blamespan_collector.receiving.signals import SERVICES
from blamespan_collector.service import supervisor as supervising
from blamespan_collector.service.service import Service
from blamespan_collector.settings import CollectorSettings, Limits, ListenAddress
from blamespan_collector.state.reserve import Reserve
from blamespan_collector.state.state import Record, State
from blamespan_collector.store import RunStore
from blamespan_collector.store.run_writer import RunWriter
from blamespan_collector.wire.outgoing import Kind, Outgoing
from blamespan_collector.worker import main as working_on
from tests.collector import fake_workers
from tests.collector.fakes import request, run, until
from tests.collector.receiving import PROTOBUF
from tests.collector.test_supervisor import supervisor
from tests.collector.working import MemorySink, down, working
from tests.collector.working import until as until_true
from tests.faults.disk import DISK_BYTES, Disk
from tests.faults.filling import foreign_writer

SOON_S = 15.0
"""Two or three on an idle machine; backing off would take thirty."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    """A small disk of its own."""
    made = Disk(tmp_path / "disk")
    if not made.can_fill:
        pytest.skip("needs the right to mount")
    yield made
    made.close()


def settings(disk: Disk, out: Path) -> CollectorSettings:
    return CollectorSettings(
        journal=disk.folder / "journal",
        grpc=None,
        http=ListenAddress("127.0.0.1", 0),
        out=str(out),
        drain_s=3.0,
        limits=Limits(quiet_s=0.05, idle_s=0.5),
    )


def entries() -> list[NewEntry]:
    return RequestReader().read(SERVICES[0], request(run(1)).SerializeToString(), "protobuf", 1).entries


def fill(disk: Disk) -> None:
    """Take all room, also where somebody writes meanwhile."""
    while has_room(disk.folder):
        disk.fill()


async def came_true(condition: Callable[[], bool], within_s: float) -> float:
    """Wait for it; gives how long it took."""
    began_s = time.monotonic()
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  # a file that another process writes
            await asyncio.sleep(0.02)
    return time.monotonic() - began_s


async def test_collector_that_starts_on_a_full_disk_refuses_and_goes_on_when_there_is_room(
    disk: Disk, tmp_path: Path
) -> None:
    """Started on a full disk, it listens and says 429; with room it takes requests and delivers within seconds."""
    out = tmp_path / "out.jsonl"
    chosen = settings(disk, out)
    fill(disk)
    chosen.journal.mkdir()
    service = Service(chosen)
    await service.start()
    body = request(run(1)).SerializeToString()
    async with httpx.AsyncClient(base_url=f"http://{service.addresses['http']}", trust_env=False) as client:
        refused = await client.post("/v1/traces", content=body, headers=PROTOBUF)
        not_ready = await client.get("/readyz")
        disk.empty()
        async with asyncio.timeout(10):
            while (await client.post("/v1/traces", content=body, headers=PROTOBUF)).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        took_s = await came_true(lambda: out.exists() and out.stat().st_size > 0, 60)
    ended = await service.stop()

    assert (refused.status_code, not_ready.status_code) == (429, 503)
    assert float(refused.headers["retry-after"]) > 0
    assert took_s < SOON_S
    assert ended.is_all_delivered


@pytest.mark.slow
async def test_worker_killed_on_a_full_disk_is_back_soon_after_there_is_room(disk: Disk, tmp_path: Path) -> None:
    """However long the disk was full, no back-off from then keeps what was acknowledged."""
    out = tmp_path / "out.jsonl"
    service = Service(settings(disk, out))
    await service.start()
    async with httpx.AsyncClient(base_url=f"http://{service.addresses['http']}", trust_env=False) as client:
        await client.post("/v1/traces", content=request(run(1)).SerializeToString(), headers=PROTOBUF)
        await came_true(lambda: out.exists() and out.stat().st_size > 0, 60)
        before = out.stat().st_size
        await client.post("/v1/traces", content=request(run(2)[1:]).SerializeToString(), headers=PROTOBUF)
        fill(disk)
        worker = service._supervisor._worker
        assert worker is not None
        worker._process.kill()
        await came_true(lambda: service._supervisor.waits_for_room, 60)
        await asyncio.sleep(3)
        restarts = service._supervisor.restarts
        disk.empty()
        took_s = await came_true(lambda: out.stat().st_size > before, 60)
    await service.stop()

    assert restarts <= 3
    assert took_s < SOON_S


def test_writer_that_begins_on_a_full_disk_writes_when_there_is_room(disk: Disk) -> None:
    """It does not fail at its start; each append is refused as one that may come again, until it is written."""
    folder = disk.folder / "journal"
    (folder / "segments").mkdir(parents=True)
    fill(disk)
    writer = JournalWriter(folder, sync="normal")
    with pytest.raises(JournalFull, match="left on the journal's disk"):
        writer.append(entries())
    writer._min_free_bytes = -(2**40)  # as where the disk looks roomy and a quota says no
    with pytest.raises((JournalFull, JournalUnavailable), match="Send this again later"):
        writer.append(entries()).result(10)
    disk.empty()
    until_true(lambda: writer.trouble is None)
    written = writer.append(entries()).result(10)
    writer.close()

    assert written.row == 1


def test_journal_with_segments_can_be_taken_up_on_a_full_disk(disk: Disk) -> None:
    """What is there from before is looked at once there is room; nothing of it is set aside as damaged."""
    folder = disk.folder / "journal"
    first = JournalWriter(folder, sync="normal")
    first.append(entries()).result(10)
    first.close()
    fill(disk)
    second = JournalWriter(folder, sync="normal")
    disk.empty()
    second.append(entries()).result(10)
    second.close()

    reader = JournalReader(folder)
    assert len(reader.read(None, 10)) == 2
    assert reader.take_damages() == []


def test_writer_that_cannot_write_for_another_reason_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only want of room is waited for: a folder that is no folder is an error at once."""
    (tmp_path / "segments").mkdir()
    monkeypatch.setattr("blamespan_collector.journal.writer._Segment", _fails)

    with pytest.raises(JournalUnavailable, match="cannot begin a journal"):
        JournalWriter(tmp_path)


def _fails(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.usefixtures("forked_workers")
async def test_worker_that_ends_for_want_of_room_starts_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process is started again and again on a full disk, and none is late once it has room."""
    room: list[bool] = []
    monkeypatch.setattr(supervising, "_LOOK_FOR_ROOM_S", 0.02)
    monkeypatch.setattr(supervising, "has_room", lambda _: bool(room))
    here = supervisor(tmp_path, fake_workers.wants_room_once, [])
    await here.start()
    is_ready = await here.until_ready(30)
    waited = here.waits_for_room
    await asyncio.sleep(0.3)
    restarts = here.restarts
    room.append(True)
    await until(lambda: here.is_ready, 30)
    await here.stop(5)

    assert (is_ready, waited, restarts) == (False, True, 1)
    assert (here.restarts, here.failed) == (1, None)


def test_state_is_taken_up_on_a_full_disk(disk: Disk) -> None:
    """Its next user begins with what was set aside: it finds all that was committed, and can commit."""
    path = disk.folder / "state.db"
    state = State(path)
    reserve = Reserve(path, state, 2**40)
    reserve.keep(0)
    with foreign_writer(disk.folder):
        until_true(lambda: disk_usage(disk.folder).free == 0)
        with state.commit():
            state.enqueue([Outgoing("traces", 1, bytes(reserve.commit_bytes))])
        state.close()
        state = State(path)
        with state.commit():
            state.enqueue([Outgoing("traces", 1, bytes(reserve.commit_bytes))])
        rows = state.database.execute("SELECT count(*) FROM outbox").fetchone()
        state.close()

    assert rows == (2,)


def test_what_was_let_go_is_forgotten_only_where_no_sink_can_make_room(disk: Disk) -> None:
    """On a full disk the notes that tell a repeat from news stay, as long as a delivery gives room as well."""
    state = State(disk.folder / "state.db")
    reserve = Reserve(disk.folder / "state.db", state, 2**40)
    with state.commit():
        state.record([Record(bytes(16), Released(frozenset({bytes(8)}), (pack_position(Position(1, 1)),)))])
    reserve.keep(2)
    disk.fill()
    may_try = [reserve.find_room(is_waiting=True), reserve.find_room(is_waiting=False)]
    state.close()

    assert may_try == [False, True]


def test_store_yields_first(disk: Disk) -> None:
    """On a disk that is short of room the store drops its oldest runs and gives their room back."""
    writer = RunWriter(disk.folder / "runs.db")
    noise = random.Random(1)
    number = 0
    disk.fill(DISK_BYTES // 3)
    while disk_usage(disk.folder).free > DISK_BYTES // 8:
        number += 1
        writer.put([request(run(number, content=noise.randbytes(100_000).hex())).SerializeToString()])
    disk.fill(DISK_BYTES // 20)
    writer.prune()
    free = disk_usage(disk.folder).free
    writer.close()
    kept = RunStore(disk.folder / "runs.db").search()

    assert free >= DISK_BYTES // 20 + 1_000_000
    assert int(kept[0].trace_id, 16) == int(run(number)[0].trace_id, 16)


@pytest.mark.slow
def test_journal_that_filled_its_disk_drains_beside_a_foreign_writer(disk: Disk) -> None:
    """Loaded to its limit while the back end is away, and the rest eaten by others, it delivers all when that is back.

    What a segment gives back is eaten at once, too: draining lives on what was set aside.
    """
    folder, is_back = disk.folder / "journal", threading.Event()

    def away(kind: Kind, payloads: Sequence[bytes]) -> Exception | None:
        return None if is_back.is_set() else down(kind, payloads)

    sink = MemorySink(fails=away, kinds=frozenset({"traces"}))
    taken = 0
    disk.fill(60 * 1024 * 1024)
    with working(folder, sink, limits=Limits(quiet_s=0.05, idle_s=1)) as one:
        until_true(lambda: (folder / "state.db-wal").stat().st_size >= one.worker._reserve.size_bytes, 30)
        with suppress(JournalFull):
            while True:
                one.take(*[run(taken + number + 1, content="x" * 30_000) for number in range(10)])
                taken += 10
        with foreign_writer(disk.folder):
            until_true(lambda: disk_usage(disk.folder).free == 0)
            is_back.set()
            until_true(lambda: len(sink.traces) >= taken, 60)

    assert {span.span_id for span in sink.spans} == {
        span.span_id for number in range(taken) for span in run(number + 1)
    }
    assert one.counts["spans_lost"] == 0


def test_trace_larger_than_what_is_set_aside_takes_the_room_that_is_left(
    disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing else waits, it gets what the intake leaves free, also on a disk that is short of room."""
    monkeypatch.setattr(working_on, "_TELL_EVERY_S", 0.1)
    folder, sink = disk.folder / "journal", MemorySink(kinds=frozenset({"traces"}))
    with working(folder, sink, limits=Limits(quiet_s=0.05, idle_s=1)) as one:
        size_bytes = one.worker._reserve.size_bytes
        until_true(lambda: (folder / "state.db-wal").stat().st_size >= size_bytes, 30)
        large = run(1, content="x" * (size_bytes // 2))
        disk.fill(sum(len(request([span]).SerializeToString()) for span in large) + DISK_BYTES // 11)
        one.take(large)
        until_true(lambda: len(sink.spans) >= len(large), 30)

    assert {span.span_id for span in large} <= {span.span_id for span in sink.spans}


def test_worker_without_room_for_what_is_to_be_delivered_says_so(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has no room on a full disk waits, its worker says so, and goes on by itself when there is room."""
    monkeypatch.setattr(working_on, "_TELL_EVERY_S", 0.1)
    monkeypatch.setattr(working_on, "_STUCK_AFTER_S", 0.2)
    monkeypatch.setattr(working_on, "_FAILS_AGAIN_S", 0.5)
    folder, sink = disk.folder / "journal", MemorySink(kinds=frozenset({"traces"}))
    with working(folder, sink, limits=Limits(quiet_s=0.5, idle_s=1)) as one:
        size_bytes = one.worker._reserve.size_bytes
        until_true(lambda: (folder / "state.db-wal").stat().st_size >= size_bytes, 30)
        large = run(1, content="x" * (size_bytes // 2))
        one.take(large)
        disk.fill()
        until_true(lambda: one.worker._message()["trouble"], 30)
        disk.empty()
        until_true(lambda: len(sink.spans) >= len(large), 30)
        until_true(lambda: not one.worker._message()["trouble"], 5)

    assert {span.span_id for span in large} <= {span.span_id for span in sink.spans}
