"""The worker is started, started again when it dies, and ended in time."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from blamespan_collector.journal import Position
from blamespan_collector.service import supervisor as supervising
from blamespan_collector.service.supervisor import Supervisor
from blamespan_collector.settings import CollectorSettings
from blamespan_collector.worker.messages import WorkerMessage
from tests.collector import fake_workers
from tests.collector.fakes import until

pytestmark = pytest.mark.usefixtures("forked_workers")


def supervisor(folder: Path, work: Any, messages: list[WorkerMessage]) -> Supervisor:
    return Supervisor(CollectorSettings(journal=folder, out="-"), messages.append, work)


async def test_worker_hears_and_is_heard(tmp_path: Path) -> None:
    """What is said to the worker arrives, many wakes as one; what it says last is known after its end."""
    messages: list[WorkerMessage] = []
    here = supervisor(tmp_path, fake_workers.steady, messages)
    await here.start()
    is_ready = await here.until_ready(30)
    for row in range(1000):
        here.wake(Position(1, row))
    await until(lambda: any(message.get("heard") == {"wake": [1, 999]} for message in messages))
    await here.stop(5)

    assert is_ready
    assert len([message for message in messages if "heard" in message]) < 100
    assert (here.ended_in_order, here.last_words) == (True, fake_workers.LAST_WORDS)


async def test_dead_worker_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that dies is started again, later each time, until it stays."""
    monkeypatch.setattr(supervising, "_FIRST_DELAY_S", 0.01)
    here = supervisor(tmp_path, fake_workers.dies_twice, [])
    await here.start()
    is_ready = await here.until_ready(60)
    await here.stop(5)

    assert (is_ready, here.restarts, here.failed) == (True, 2, None)


async def test_worker_that_breaks_again_and_again_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One death is no trouble; a third in a row is, with what it died of, until a worker stays."""
    monkeypatch.setattr(supervising, "_FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(supervising, "_CALM_S", 0.3)
    monkeypatch.setattr(supervising, "_TROUBLED_S", 1_000.0)
    here = supervisor(tmp_path, fake_workers.breaks_until_mended, [])
    troubles: dict[int, str | None] = {}
    await here.start()
    async with asyncio.timeout(60):
        while here.trouble is None:
            troubles[here.restarts] = here.trouble
            await asyncio.sleep(0.01)
    said = here.trouble
    (tmp_path / "mended").touch()
    await until(lambda: here.trouble is None, 60)
    await here.stop(5)

    assert troubles == {0: None, 1: None, 2: None}
    assert said.startswith(
        "the worker died 3 times, one after the other, the last with code 1 (ValueError: cannot read"
    )
    assert here.last_words == fake_workers.LAST_WORDS


async def test_worker_that_gives_up_is_not_started_again(tmp_path: Path) -> None:
    """What another start cannot mend is said, with whether a setting is to blame."""
    here = supervisor(tmp_path, fake_workers.gives_up, [])
    await here.start()
    is_ready = await here.until_ready(30)
    await here.stop(1)

    assert (is_ready, here.failed, here.was_misused, here.restarts) == (False, "expected a backend, got none", True, 0)


async def test_worker_that_does_not_stop_is_ended(tmp_path: Path) -> None:
    """A worker that ignores its end is killed soon after its time, and known not to have ended in order."""
    here = supervisor(tmp_path, fake_workers.hangs, [])
    await here.start()
    await here.until_ready(30)
    began = time.monotonic()
    await here.stop(0.2)

    assert time.monotonic() - began < 3
    assert not here.ended_in_order


async def test_stop_before_the_worker_is_there(tmp_path: Path) -> None:
    """Stopping while the worker starts ends in order, too."""
    here = supervisor(tmp_path, fake_workers.steady, [])
    await here.start()
    await asyncio.sleep(0)
    await here.stop(20)

    assert here.restarts == 0


async def test_worker_that_gives_up_after_it_worked_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once one has worked, no setting is to blame: what a later one stumbles over may pass, and is said meanwhile."""
    monkeypatch.setattr(supervising, "_FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(supervising, "_TROUBLED_S", 0.0)
    troubles: list[str | None] = []
    settings = CollectorSettings(journal=tmp_path, out="-")
    here = Supervisor(settings, lambda _: troubles.append(here.trouble), fake_workers.gives_up_once)
    await here.start()
    await until(lambda: here.restarts == 2 and here.is_ready, 60)
    await here.stop(5)

    assert str(troubles[1]).startswith("no worker has been at work for 0 s (")
    assert (here.failed, here.last_words) == (None, fake_workers.LAST_WORDS)


async def test_process_that_cannot_be_started_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever breaks while a worker is looked after, supervision goes on, and says why there is no worker."""
    monkeypatch.setattr(supervising, "_FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(supervising, "_TROUBLED_S", 0.0)
    begin = ForkServerProcess.start
    attempts: list[int] = []
    troubles: list[str | None] = []

    def fail_twice(process: ForkServerProcess) -> None:
        attempts.append(1)
        troubles.append(here.trouble)
        if len(attempts) < 3:
            raise OSError(5, "Input/output error")
        begin(process)

    monkeypatch.setattr(ForkServerProcess, "start", fail_twice)
    here = supervisor(tmp_path, fake_workers.steady, [])
    await here.start()
    is_ready = await here.until_ready(30)
    await here.stop(5)

    assert is_ready
    assert troubles[-1] is not None
    assert "OSError: [Errno 5] Input/output error" in troubles[-1]


@pytest.mark.skipif(sys.platform == "win32", reason="sends POSIX signals")
async def test_stopped_worker_is_told_and_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that stands still makes us not ready although it lives, and is replaced; one that beats stays."""
    monkeypatch.setattr(supervising, "_FIRST_DELAY_S", 0.01)
    monkeypatch.setattr(supervising, "_TICK_S", 0.1)
    monkeypatch.setattr(supervising, "_SILENCE_TICKS", 20)
    monkeypatch.setattr(supervising, "_TROUBLED_S", 0.8)
    messages: list[WorkerMessage] = []
    here = supervisor(tmp_path, fake_workers.beats, messages)
    await here.start()
    await here.until_ready(30)
    await asyncio.sleep(2.2)
    before = here.trouble, here.restarts
    os.kill(messages[0]["pid"], signal.SIGSTOP)
    await until(lambda: here.trouble is not None, 30)
    trouble = here.trouble
    await until(lambda: here.restarts == 1 and here.is_ready, 30)
    await here.stop(5)

    assert before == (None, 0)
    assert trouble is not None
    assert trouble.startswith("the worker has stood still for ")
