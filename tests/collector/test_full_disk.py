"""A full disk at any time: requests are refused so that they come again, and work goes on soon after there is room."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from blamespan_collector import supervisor as supervising
from blamespan_collector.journal import JournalFull, JournalUnavailable, JournalWriter, NewEntry, has_room
from blamespan_collector.receiving.request_reader import RequestReader
from blamespan_collector.receiving.signals import SERVICES
from blamespan_collector.service import Service
from blamespan_collector.settings import Address, CollectorSettings, Limits
from tests.collector import fake_workers
from tests.collector.fakes import request, run, until
from tests.collector.test_supervisor import supervisor
from tests.faults.disk import Disk

SOON_S = 15.0
"""Two or three on an idle machine; backing off would take thirty."""
PROTOBUF = {"content-type": "application/x-protobuf"}


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
        http=Address("127.0.0.1", 0),
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
        await asyncio.sleep(0.6)
        taken = await client.post("/v1/traces", content=body, headers=PROTOBUF)
        took_s = await came_true(lambda: out.exists() and out.stat().st_size > 0, 60)
    ended = await service.stop()

    assert (refused.status_code, not_ready.status_code, taken.status_code) == (429, 503, 200)
    assert float(refused.headers["retry-after"]) > 0
    assert took_s < SOON_S
    assert ended.is_all_delivered


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

    assert not list(folder.rglob("*.damaged"))


def test_writer_that_cannot_write_for_another_reason_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only want of room is waited for: a folder that is no folder is an error at once."""
    (tmp_path / "segments").mkdir()
    monkeypatch.setattr("blamespan_collector.journal.writer.create", _fails)

    with pytest.raises(JournalUnavailable, match="cannot begin a journal"):
        JournalWriter(tmp_path)


def _fails(*_: object) -> None:
    raise sqlite3.OperationalError("disk I/O error")


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
