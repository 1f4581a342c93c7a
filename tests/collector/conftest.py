"""What the collector's tests share: less waiting, tracers of their own, a store's path and a clock."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import AsyncIterator, Iterator
from multiprocessing import popen_forkserver
from multiprocessing.connection import wait
from pathlib import Path

import pytest
import pytest_asyncio

from blamespan_collector.delivering import delivery
from blamespan_collector.service import supervisor
from blamespan_collector.store import RunStore
from tests.collector.fakes import Clock
from tests.collector.paging import annotated, stored
from tests.collector.receiving import Receiving, receiving
from tests.sdk.talks import talk


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a hundredth as long between attempts to deliver."""
    monkeypatch.setattr(delivery, "_FIRST_DELAY_S", 0.005)
    monkeypatch.setattr(delivery, "_LONGEST_DELAY_S", 0.05)
    monkeypatch.setattr(delivery, "_LOOK_EVERY_S", 0.02)


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fork a supervisor's workers from a process that has imported what they need: Python is not started for each."""
    lock, ask = threading.Lock(), popen_forkserver.Popen.poll

    def poll(process: popen_forkserver.Popen, flag: int = os.WNOHANG) -> int | None:
        """Let one thread at a time read the exit code: the second one would find the end of the pipe, and say 255."""
        if process.returncode is None and wait([process.sentinel], 0 if flag == os.WNOHANG else None):
            with lock:
                ask(process)
        return process.returncode

    monkeypatch.setattr(popen_forkserver.Popen, "poll", poll)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "blamespan_collector.worker.main", "tests.collector.fake_workers"])
    monkeypatch.setattr(supervisor.multiprocessing, "get_context", lambda _: context)
    yield
    for left in multiprocessing.active_children():  # by a test that failed: it heeds no other signal
        left.kill()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture(scope="session")
def distribution(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a distribution that offers tracers, as somebody would install them."""
    folder = tmp_path_factory.mktemp("installed")
    about = folder / "test_tracers-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: test-tracers\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[blamespan.tracers]\nfirst-step = tests.collector.fakes:FirstStepTracer\nodd = tests.collector.fakes:Odd\n"
    )
    return folder


@pytest.fixture(scope="session")
def tracers_path(distribution: Path) -> str:
    """Where processes find the tracers `first-step` and `odd`, as PYTHONPATH."""
    return os.pathsep.join((str(distribution), str(Path(__file__).parents[2])))


@pytest.fixture
def installed_tracers(distribution: Path, tracers_path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the tracers `first-step` and `odd`, also for processes that start now."""
    monkeypatch.syspath_prepend(distribution)
    monkeypatch.setenv("PYTHONPATH", tracers_path)


@pytest.fixture
def own_folders(installed_tracers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every collector of a test a journal of its own, and the first step's tracer."""
    monkeypatch.setenv("BLAMESPAN_TRACER", "first-step")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def receivers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Receiving]:
    """Both receivers, which take requests of 1 MiB: for modules whose tests share a loop."""
    async with receiving(tmp_path_factory.mktemp("receiving"), max_request_bytes=1024 * 1024) as running:
        yield running


@pytest.fixture
def running(receivers: Receiving) -> Receiving:
    """The module's receivers, as if nothing had come before."""
    return receivers.anew()


@pytest.fixture(scope="session")
def talked(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A store of one run, to be read only."""
    return stored(tmp_path_factory.mktemp("talked") / "runs.db", *annotated(talk(1)))


@pytest.fixture(scope="session")
def long_run(tmp_path_factory: pytest.TempPathFactory) -> RunStore:
    """A store of one run of 1,200 steps, to be read only."""
    contents = [f"word {number}" for number in range(1_200)]
    return stored(tmp_path_factory.mktemp("long") / "runs.db", *annotated(talk(1, contents)))
