"""A worker process answers in order, hurts nobody when it ends, and never outlives who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from blamespan.worker_processes import Channel, WorkerProcess


def serve(channel: Channel, factor: int) -> None:
    """Multiply numbers, and do what texts say."""
    while True:
        request = channel.receive()
        if request == "print":
            print("in between")  # noqa: T201  # what is tested
        elif request == "exit":
            raise SystemExit(3)
        elif request == "break":
            raise ValueError("no number")
        elif request == "hang":
            time.sleep(60)
        elif request == "note":
            channel.send_note("half way")
        channel.send(os.getpid() if isinstance(request, str) else factor * request)


@contextmanager
def worker(factor: int = 2, on_note: Callable[[Any], None] | None = None) -> Iterator[WorkerProcess]:
    with closing(WorkerProcess(f"{__name__}:serve", factor, on_note=on_note)) as process:
        yield process


def ask(process: WorkerProcess, request: object) -> Any:
    process.send(request)
    return process.receive()


def until(is_so: Callable[[], bool], within_s: float = 10.0) -> None:
    end_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_requests_are_answered_in_order_whatever_is_printed_between() -> None:
    """Its standard output carries answers only, and what is large arrives whole."""
    with worker(3) as process:
        assert [ask(process, number) for number in range(3)] == [0, 3, 6]
        assert ask(process, "print") == process.pid
        assert ask(process, [1] * 1_000_000) == [1] * 3_000_000


def test_notes_go_beside_the_answers() -> None:
    """A note is no answer, and comes before the one that follows it."""
    notes: list[str] = []
    with worker(on_note=notes.append) as process:
        assert ask(process, "note") == process.pid

    assert notes == ["half way"]


@pytest.mark.parametrize(("request_", "code"), [("exit", 3), ("break", 1)])
def test_process_that_ends_says_how(request_: str, code: int) -> None:
    """Whoever waits for an answer gets an EOFError, not half of one."""
    with worker() as process:
        with pytest.raises(EOFError):
            ask(process, request_)

        assert process.wait_for_end() == f"ended with exit code {code}"


def test_killed_process_names_the_signal() -> None:
    """As memory running out looks from here."""
    with worker() as process:
        process.send("hang")
        process.kill()
        with pytest.raises(EOFError):
            process.receive()

        assert process.wait_for_end() == "killed by signal 9"
        with pytest.raises(OSError, match="the process has ended"):
            process.send(1)


def test_answer_that_does_not_come_is_waited_for_no_longer_than_asked() -> None:
    """The process is killed then: nobody knows what it is at."""
    with worker() as process:
        assert ask(process, 1) == 2
        process.send("hang")
        with pytest.raises(TimeoutError, match=r"no answer within 0\.2 s"):
            process.receive(timeout_s=0.2)


def test_closing_ends_a_process_in_the_middle_of_a_request() -> None:
    """It goes by itself, with exit code 0."""
    with worker() as process:
        ask(process, 1)
        process.send("hang")
        process.close()

        assert process.returncode == 0


PARENT = """
import os, time
from blamespan.worker_processes import WorkerProcess
processes = [WorkerProcess("tests.sdk.test_worker_processes:serve", 2) for _ in range(2)]
for process in processes:
    process.send(1)
    process.receive()
    process.send("hang")
if os.fork() == 0:  # a process that holds our ends of the pipes
    time.sleep(20)
    os._exit(0)
print(*(process.pid for process in processes), flush=True)
time.sleep(60)
"""


def test_processes_end_with_their_parent() -> None:
    """After `kill -9` of the parent nobody is left, though a fork of it holds the pipes open."""
    here = str(Path(__file__).parents[2])
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": here},
        process_group=0,
    )
    assert parent.stdout is not None
    pids = [int(pid) for pid in parent.stdout.readline().split()]
    assert len(pids) == 2

    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))

    parent.stdout.close()
    os.killpg(parent.pid, signal.SIGKILL)
