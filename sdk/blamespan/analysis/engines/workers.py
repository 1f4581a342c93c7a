"""Worker processes of this machine: each unit of work runs in one of them, twice if the first dies on it."""

from __future__ import annotations

import contextlib
import os
import pickle  # frames of our own children
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from blamespan.analysis.engines.worker import TracerOf, Unit, read_frame, write_frame
from blamespan.cores import shared_among

__all__ = ["Answers", "WorkerDied", "Workers"]

_BOOT = (
    "import pickle, sys; size = int(sys.stdin.buffer.readline()); "
    "sys.path[:] = pickle.loads(sys.stdin.buffer.read(size)); "
    "from blamespan.analysis.engines.worker import main; main()"
)
_HELD_BYTES = 16 * 1024 * 1024
"""Answers of a unit that wait in memory; beyond, on disk, or the worker waits where they are being read."""
_END_S = 5.0
"""How long a worker may take to end once its pipe is closed."""


class WorkerDied(Exception):  # says what happened
    """A unit's worker ended twice without finishing it."""


class Answers:
    """The frames that a unit gives, in order, while they come.

    Whoever reads them sees each once, also where the worker died and the unit was done again.
    """

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=_HELD_BYTES)  # noqa: SIM115  # closed by `close`
        self._change = threading.Condition()
        self.given = 0
        """How many frames came."""
        self._sizes: list[int] = []
        self._read = 0
        self._read_at = self._written_at = 0
        self._is_over = self._is_read = self._is_closed = False
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[Any]:
        """Yield what the unit gives, as it comes.

        Raises:
            WorkerDied: if it cannot be finished; what it gave before was yielded.
        """
        self._is_read = True
        while True:
            with self._change:
                self._change.wait_for(lambda: self._read < len(self._sizes) or self._is_over or self._is_closed)
                if self._is_closed:
                    return
                if self._read == len(self._sizes):
                    if self._error is not None:
                        raise self._error
                    return
                data = self._take()
                self._change.notify_all()
            yield pickle.loads(data)  # noqa: S301  # from our own worker

    def put(self, data: bytes) -> None:
        """Keep one frame; waits where much is kept already and somebody reads."""
        with self._change:
            self._change.wait_for(
                lambda: self._is_closed or not self._is_read or self._written_at - self._read_at < _HELD_BYTES
            )
            if self._is_closed:
                return
            self._file.seek(self._written_at)
            self._file.write(data)
            self._written_at += len(data)
            self._sizes.append(len(data))
            self.given += 1
            self._change.notify_all()

    def end(self, error: BaseException | None = None) -> None:
        """Say that no more frames come."""
        with self._change:
            self._is_over, self._error = True, error
            self._change.notify_all()

    def close(self) -> None:
        """Drop what was not read."""
        with self._change:
            self._is_closed = True
            self._file.close()
            self._change.notify_all()

    def _take(self) -> bytes:
        self._file.seek(self._read_at)
        data = self._file.read(self._sizes[self._read])
        self._read += 1
        self._read_at += len(data)
        if self._read == len(self._sizes):  # all read: begin anew, so that the file does not grow
            self._sizes.clear()
            self._read = self._read_at = self._written_at = 0
            self._file.seek(0)
            self._file.truncate()
        return data


class Workers:
    """So many processes that hold the tracer; they start when there is work.

    Args:
        count: How many.
        tracer: Where they get it from; None where they only read.
    """

    def __init__(self, count: int, tracer: TracerOf | None) -> None:
        self._greeting = tracer, count
        self._environment = shared_among(count)
        self._asked: queue.SimpleQueue[tuple[Unit, Answers, int] | None] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()
        self._is_closed = False
        # daemons: a program that ends without closing its results must not wait for them
        self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(count)]

    def submit(self, unit: Unit, *, tries: int = 2) -> Answers:
        """Have *unit* done as soon as a worker is free.

        Args:
            unit: The work.
            tries: How many workers may die on it.
        """
        answers = Answers()
        self._asked.put((unit, answers, tries))
        for thread in self._threads:
            if thread.ident is None:
                thread.start()
                break
        return answers

    @property
    def pids(self) -> list[int]:
        """Ids of the processes that were started and not ended."""
        with self._lock:
            return [worker.pid for worker in self._workers]

    def close(self) -> None:
        """End all workers at once, whatever they are doing; nothing that was asked for is finished."""
        with self._lock:
            self._is_closed = True
            left = list(self._workers)
        for worker in left:
            worker.kill()
        for _ in self._threads:
            self._asked.put(None)
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()
        for worker in left:
            worker.ended()

    def _serve(self) -> None:
        """Give units to one worker, and to the next where it dies."""
        worker: _Worker | None = None
        while (asked := self._asked.get()) is not None:
            unit, answers, tries = asked
            for left in reversed(range(tries)):
                try:
                    worker = worker or self._started()
                    _pass_on(worker.frames(unit), answers)
                    answers.end()
                    break
                except (OSError, EOFError) as error:
                    said = worker.ended() if worker else f"cannot be started ({error})"
                    self._forget(worker)
                    worker = None
                    if not left or self._is_closed:
                        answers.end(WorkerDied(said))
                        break
                except BaseException as error:  # what cannot be sent, say: whoever reads the answers is told
                    answers.end(error)
                    break

    def _started(self) -> _Worker:
        with self._lock:
            if self._is_closed:
                raise OSError("no more work is wanted")
            worker = _Worker(self._environment)
            self._workers.append(worker)
        worker.greet(self._greeting)
        return worker

    def _forget(self, worker: _Worker | None) -> None:
        with self._lock:
            if worker in self._workers:
                self._workers.remove(worker)


def _pass_on(frames: Iterable[bytes], answers: Answers) -> None:
    """Pass on the frames of a unit but for those that another worker gave before it died."""
    given = answers.given
    for number, data in enumerate(frames):
        if number >= given:
            answers.put(data)


class _Worker:
    """One process."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(  # noqa: S603  # our own interpreter and code
            [sys.executable, "-P", "-c", _BOOT],  # -P: a module in the folder we are in must not stand for another
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            process_group=0,  # Ctrl-C is for us; we end our workers
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def greet(self, greeting: tuple[TracerOf | None, int]) -> None:
        """Tell it where modules are, which tracer to hold, and how many workers there are."""
        paths = pickle.dumps([os.path.abspath(path) for path in sys.path])  # noqa: PTH100  # "" is the folder we are in
        asked = self._process.stdin
        assert asked is not None
        asked.write(b"%d\n" % len(paths))
        asked.write(paths)
        write_frame(asked, greeting)
        asked.flush()

    def frames(self, unit: Unit) -> Iterator[bytes]:
        """Have it do *unit*.

        Raises:
            EOFError: if it ends before.
            OSError: likewise.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        write_frame(self._process.stdin, unit)
        self._process.stdin.flush()
        while data := read_frame(self._process.stdout):
            yield data

    def kill(self) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def ended(self) -> str:
        """Wait for its end, and say how it came."""
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:  # its pipe is closed, and it goes on
            self.kill()
            code = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        return f"killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
