"""A pool of processes that run a user's program: what hangs is killed, what dies is replaced, several work at once."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable
from pkgutil import resolve_name
from types import TracebackType
from typing import Any, Self, TypeAlias

from blamespan.errors import BlamespanError, ConfigError
from blamespan.injecting.injection import PLAN_VARIABLE
from blamespan.worker_processes import Channel, WorkerProcess

CarryOut: TypeAlias = Callable[[Any], Any]
"""Carries out an order in a process, and returns its answer; orders and answers are what the two sides agree on."""

_START_S = 120.0
"""Within which a process must have imported what it runs."""
_NOT_OURS = (PLAN_VARIABLE, "OTEL_SDK_DISABLED", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
"""Variables that would add faults of their own, or hide what happens."""


class RunEnded(Exception):
    """A process gave no answer; the message says why: it timed out, or it broke."""


class WorkerPool:
    """Processes that answer orders, made as they are needed. May be asked from several threads at once.

    Args:
        open_program: Opens the program in each process, and returns what carries out orders there; a function at the
            top of its module.
        arguments: That it is given.
        name: Of the program, for messages.
        timeout_s: Within which an answer must come.
    """

    def __init__(self, open_program: Callable[..., CarryOut], *arguments: object, name: str, timeout_s: float) -> None:
        self._arguments = f"{open_program.__module__}:{open_program.__name__}", *arguments
        self._name, self._timeout_s = name, timeout_s
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

    def ask(self, order: object) -> Any:  # the answer to it
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
            process = WorkerProcess(f"{__name__}:serve", *self._arguments)
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


def serve(channel: Channel, open_program: str, *arguments: object) -> None:
    """Carry out orders until the parent has gone. The first answer is an error, or None once the program is open."""
    logging.lastResort = logging.NullHandler()  # what breaks by a fault, or in a replay that is refused, is no news
    warnings.simplefilter("ignore")
    for framework in ("agent_framework", "autogen_core", "autogen_agentchat"):
        logging.getLogger(framework).addHandler(logging.NullHandler())
    for name in _NOT_OURS:
        os.environ.pop(name, None)
    try:
        carry_out: CarryOut = resolve_name(open_program)(*arguments)
    except BlamespanError as error:
        channel.send(_bare(error))
        return
    channel.send(None)
    while True:
        order = channel.receive()
        try:
            channel.send(carry_out(order))
        except BlamespanError as error:
            channel.send(_bare(error))


def _bare(error: BlamespanError) -> BlamespanError:
    """Return *error* without what it was raised from, which need not go through a pipe."""
    return type(error)(str(error))
