"""A pool of processes that run a user's program: what hangs is killed, what dies is replaced, several work at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from blamespan.errors import BlamespanError, ConfigError
from blamespan.worker_processes import Channel, WorkerProcess

_START_S = 120.0
"""Within which a process must have imported what it runs."""


class RunEnded(Exception):
    """A process gave no answer; the message says why: it timed out, or it broke."""


class WorkerPool:
    """Processes that answer orders, made as they are needed. May be asked from several threads at once.

    Args:
        serve: What runs in each: it sends an error or None once it is ready, then an answer to each order.
        arguments: That it is given beside its channel.
        name: Of the program, for messages.
        timeout_s: Within which an answer must come.
    """

    def __init__(self, serve: Callable[..., None], *arguments: object, name: str, timeout_s: float) -> None:
        self._target = f"{serve.__module__}:{serve.__name__}"
        self._arguments, self._name, self._timeout_s = arguments, name, timeout_s
        self._idle: list[WorkerProcess] = []
        self._all: set[WorkerProcess] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process at once; who waits for an answer gets `RunEnded`."""
        with self._lock:
            self._is_closed = True
            processes = list(self._all)
        for process in processes:
            process.kill()
        for process in processes:
            process.wait_for_end()

    def ask(self, order: object) -> Any:  # what `serve` answers
        """Have one process carry out *order*.

        Raises:
            RunEnded: if it times out or the process ends; another takes its place.
            BlamespanError: if the program cannot be opened, or the answer is such an error.
        """
        process = self._take()
        try:
            process.send(order)
            answer = process.receive(timeout_s=self._timeout_s)
        except TimeoutError as error:  # also an OSError
            self._drop(process)
            raise RunEnded("timed out") from error
        except (EOFError, OSError) as error:
            self._drop(process)
            raise RunEnded("broke") from error
        with self._lock:
            self._idle.append(process)
        if isinstance(answer, BlamespanError):
            raise answer
        return answer

    def _take(self) -> WorkerProcess:
        with self._lock:
            if self._is_closed:
                raise BlamespanError("expected a pool that is open, got one that was closed")
            if self._idle:
                return self._idle.pop()
            process = WorkerProcess(self._target, *self._arguments)
            self._all.add(process)
        try:
            error: BlamespanError | None = process.receive(timeout_s=_START_S)
        except (TimeoutError, EOFError, OSError) as failure:
            self._drop(process)
            end = "timed out" if isinstance(failure, TimeoutError) else "broke"
            raise ConfigError(
                f"expected {self._name!r} to be ready within {_START_S:.0f} s, got a process that {end}. "
                "Run its module by itself to see why"
            ) from failure
        if error is not None:
            raise error
        return process

    def _drop(self, process: WorkerProcess) -> None:
        process.kill()
        process.wait_for_end()
        with self._lock:
            self._all.discard(process)


def send_error(channel: Channel, error: BlamespanError) -> None:
    """Send *error* as it is, without what it was raised from, which need not go through a pipe."""
    channel.send(type(error)(str(error)))
