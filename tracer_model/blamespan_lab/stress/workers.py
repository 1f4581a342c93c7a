"""Processes that run a subject: what hangs is killed, what dies is counted, and what it prints goes to stderr."""

from __future__ import annotations

import logging
import math
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TypeAlias

from blamespan.errors import BlamespanError, ConfigError
from blamespan.injecting.injection import PLAN_VARIABLE
from blamespan_lab.simulation.endpoint_policy import policy_from_environment
from blamespan_lab.stress.recipe import StressRecipe
from blamespan_lab.stress.subjects import SubjectSpec
from blamespan_lab.stress.trial import Clean, Planned, Trial, tried

__all__ = ["Order", "Result", "Workers"]

Order: TypeAlias = int | tuple[Planned, Clean]
"""A task to run without a fault, or a run with one."""
Result: TypeAlias = Clean | Trial | str
"""What became of it; for a run without a fault that did not come to an end: why."""

_START_S = 120.0
"""Within which a process must have imported what it runs."""
_PATIENCE_S = 3_600.0
_NOT_OURS = (PLAN_VARIABLE, "OTEL_SDK_DISABLED", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
"""Variables that would add faults of their own, or hide what happens."""


@dataclass
class _Worker:
    """A process, what it is at, and since when."""

    process: BaseProcess
    line: Connection
    deadline: float
    is_ready: bool = False
    at: tuple[int, Order] | None = None

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.line.close()


@dataclass
class Workers:
    """Runs orders in processes of their own, at most *count* at once.

    Attributes:
        spec: What is run.
        recipe: How.
        count: How many processes.
    """

    spec: SubjectSpec
    recipe: StressRecipe
    count: int
    _workers: list[_Worker] = field(default_factory=list)

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        while self._workers:
            self._workers.pop().kill()

    def results(self, orders: Iterable[Order]) -> Iterator[tuple[Order, Result]]:
        """Yield each order with its result, as they come.

        Raises:
            ConfigError: if the subject cannot be opened.
        """
        waiting = list(enumerate(orders))[::-1]
        while waiting or any(worker.at is not None for worker in self._workers):
            self._employ(waiting)
            nearest = min(worker.deadline for worker in self._workers)
            patience_s = min(max(0.0, nearest - time.monotonic()), _PATIENCE_S)
            ready = wait([one.line for one in self._workers], timeout=patience_s)
            for worker in [one for one in self._workers if one.line in ready]:
                yield from self._hear(worker)
            now = time.monotonic()
            for worker in [one for one in self._workers if now > one.deadline]:
                yield from self._end(worker, "timed out")

    def _employ(self, waiting: list[tuple[int, Order]]) -> None:
        """Give every process something to do; start as many as there is work for."""
        busy = sum(1 for worker in self._workers if worker.at is not None)
        while len(self._workers) < min(self.count, busy + len(waiting)):
            self._workers.append(self._started())
        for worker in self._workers:
            if worker.is_ready and worker.at is None:
                worker.deadline = math.inf
                if waiting:
                    worker.at = waiting.pop()
                    worker.deadline = time.monotonic() + self.recipe.timeout_s
                    worker.line.send(worker.at[1])

    def _started(self) -> _Worker:
        context = multiprocessing.get_context("spawn")  # a fork would carry threads and open loops along
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self.spec, self.recipe), daemon=True)
        process.start()
        theirs.close()
        return _Worker(process, ours, time.monotonic() + _START_S)

    def _hear(self, worker: _Worker) -> Iterator[tuple[Order, Result]]:
        try:
            said = worker.line.recv()
        except (EOFError, OSError):
            yield from self._end(worker, "broke")
            return
        if not worker.is_ready:
            if isinstance(said, Exception):
                raise said
            worker.is_ready = True
        elif worker.at is not None:
            (_, order), worker.at = worker.at, None
            yield order, said

    def _end(self, worker: _Worker, how: str) -> Iterator[tuple[Order, Result]]:
        """Bury a process that hangs or is gone; a new one takes its place."""
        self._workers.remove(worker)
        worker.kill()
        if worker.at is None:
            raise BlamespanError(
                f"expected {self.spec.name!r} to be ready within {_START_S:.0f} s, got a process that {how}. "
                "Run its module by itself to see why"
            )
        order = worker.at[1]
        if isinstance(order, int):
            yield order, f"it {how}" if how == "timed out" else "its process ended"
        elif how == "timed out":
            yield order, Trial(order[0], "unknown", succeeded=False, is_changed=True, end="timed out")
        else:
            yield (
                order,
                Trial(order[0], "unknown", succeeded=False, is_changed=True, end="broke", error="process ended"),
            )


def _end_with_parent() -> None:
    """End this process, whatever it hangs in, when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(line: Connection, spec: SubjectSpec, recipe: StressRecipe) -> None:
    """Run orders until the line is closed: the whole life of a process."""
    os.dup2(2, 1)  # what a program prints is no result of ours
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us ends us
    logging.lastResort = None  # what breaks by a fault is told in the result
    warnings.simplefilter("ignore")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for name in _NOT_OURS:
        os.environ.pop(name, None)
    try:
        subject = spec.open(policy_from_environment())
    except BlamespanError as error:
        line.send(type(error)(str(error)))
        return
    line.send("ready")
    while True:
        try:
            order = line.recv()
        except (EOFError, OSError):
            return
        try:
            if isinstance(order, int):
                run = subject.run(order)
                line.send(Clean(run, {role: tuple(names) for role, names in subject.roles(order, run).items()}))
            else:
                line.send(tried(subject, order[0], order[1], recipe))
        except ConfigError as error:
            line.send(str(error) if isinstance(order, int) else Trial(order[0], missed=str(error)))
