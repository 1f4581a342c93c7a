"""Worker processes of this machine: each unit of work runs in one of them, twice if the first dies on it."""

from __future__ import annotations

import pickle  # frames of our own children
import queue
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from blamespan.analysis.engines.worker import TracerOf, Unit, pass_note
from blamespan.cores import shared_among
from blamespan.worker_processes import WorkerProcess

_HELD_BYTES = 16 * 1024 * 1024
"""Answers of a unit that wait in memory; beyond, on disk, or the worker waits where they are being read."""


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
        self._workers: list[WorkerProcess] = []
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
            worker.wait_for_end()

    def _serve(self) -> None:
        """Give units to one worker, and to the next where it dies."""
        worker: WorkerProcess | None = None
        while (asked := self._asked.get()) is not None:
            unit, answers, tries = asked
            for left in reversed(range(tries)):
                try:
                    if worker is None:
                        worker = self._start_worker()
                        worker.send(self._greeting)
                    _pass_on(worker, unit, answers)
                    answers.end()
                    break
                except (OSError, EOFError) as error:
                    reason = worker.wait_for_end() if worker else f"cannot be started ({error})"
                    self._forget(worker)
                    worker = None
                    if not left or self._is_closed:
                        answers.end(WorkerDied(reason))
                        break
                except BaseException as error:  # what cannot be sent, say: whoever reads the answers is told
                    answers.end(error)
                    break

    def _start_worker(self) -> WorkerProcess:
        with self._lock:
            if self._is_closed:
                raise OSError("no more work is wanted")
            worker = WorkerProcess(
                "blamespan.analysis.engines.worker:serve", environment=self._environment, on_note=pass_note
            )
            self._workers.append(worker)
        return worker

    def _forget(self, worker: WorkerProcess | None) -> None:
        with self._lock:
            if worker in self._workers:
                self._workers.remove(worker)


def _pass_on(worker: WorkerProcess, unit: Unit, answers: Answers) -> None:
    """Have *worker* do *unit*, and pass on its frames but for those that another worker gave before it died.

    Raises:
        EOFError: if it ends before.
        OSError: likewise.
    """
    worker.send(unit)
    given = answers.given
    number = 0
    while data := worker.receive_bytes():
        if number >= given:
            answers.put(data)
        number += 1
