"""Processes that run a subject: what hangs is killed, what dies is counted, and what it prints goes to stderr."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, TypeAlias

from blamespan.errors import BlamespanError, ConfigError
from blamespan.injecting.injection import PLAN_VARIABLE
from blamespan.tracers import Tracer, load_tracer
from blamespan.worker_processes import Channel, WorkerProcess
from blamespan_lab.simulation.agents.endpoint import policy_from_environment
from blamespan_lab.stress.byzantine import ByzantineOrder, ByzantineTrial, try_byzantine
from blamespan_lab.stress.recipe import StressRecipe
from blamespan_lab.stress.subjects import SubjectSpec
from blamespan_lab.stress.trial import Clean, FaultTrial, Planned, try_fault

__all__ = ["Order", "Result", "SubjectWorkers", "serve"]

Order: TypeAlias = int | tuple[Planned, Clean] | ByzantineOrder
"""A task to run without a fault, a run with one, or a run with agents that are turned."""
Result: TypeAlias = Clean | FaultTrial | ByzantineTrial | str
"""What became of it; for a run without a fault that did not come to an end: why."""

_START_S = 120.0
"""Within which a process must have imported what it runs."""
_NOT_OURS = (PLAN_VARIABLE, "OTEL_SDK_DISABLED", "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")
"""Variables that would add faults of their own, or hide what happens."""


@dataclass
class SubjectWorkers:
    """Runs orders in processes of their own, at most *count* at once: each is held by a thread that waits for it.

    Attributes:
        spec: What is run.
        recipe: How.
        count: How many processes.
    """

    spec: SubjectSpec
    recipe: StressRecipe
    count: int
    _threads: ThreadPoolExecutor = field(init=False)
    _held_by_thread: threading.local = field(default_factory=threading.local)
    _processes: set[WorkerProcess] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_closed: bool = False

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.count)

    def __enter__(self) -> SubjectWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._is_closed = True
            processes = list(self._processes)
        for process in processes:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process in processes:
            process.wait_for_end()

    def results(self, orders: Iterable[Order]) -> Iterator[tuple[Order, Result]]:
        """Yield each order with its result, as they come.

        Raises:
            ConfigError: if the subject cannot be opened.
        """
        futures = {self._threads.submit(self._run, order): order for order in orders}
        for future in as_completed(futures):
            yield futures[future], future.result()

    def _run(self, order: Order) -> Result:
        process: WorkerProcess = getattr(self._held_by_thread, "process", None) or self._start_process()
        try:
            process.send(order)
            result: Result = process.receive(timeout_s=self.recipe.timeout_s)
        except TimeoutError:  # also an OSError
            self._drop(process)
            return _result_without_answer(order, "timed out")
        except (EOFError, OSError):
            self._drop(process)
            return _result_without_answer(order, "broke")
        return result

    def _start_process(self) -> WorkerProcess:
        with self._lock:
            if self._is_closed:
                raise BlamespanError("expected a campaign that goes on, got one that has ended")
            process = WorkerProcess(f"{serve.__module__}:{serve.__name__}", self.spec, self.recipe)
            self._processes.add(process)
        try:
            error: BlamespanError | None = process.receive(timeout_s=_START_S)
        except (TimeoutError, EOFError) as failure:
            self._drop(process)
            end = "timed out" if isinstance(failure, TimeoutError) else "broke"
            raise BlamespanError(
                f"expected {self.spec.name!r} to be ready within {_START_S:.0f} s, got a process that {end}. "
                "Run its module by itself to see why"
            ) from failure
        if error is not None:
            raise error
        self._held_by_thread.process = process
        return process

    def _drop(self, process: WorkerProcess) -> None:
        """End a process that hangs or is gone; a new one takes its place."""
        process.kill()
        process.wait_for_end()
        self._held_by_thread.process = None
        with self._lock:
            self._processes.discard(process)


def _result_without_answer(order: Order, end: Literal["timed out", "broke"]) -> Result:
    if isinstance(order, int):
        return "it timed out" if end == "timed out" else "its process ended"
    if isinstance(order, ByzantineOrder):
        return ByzantineTrial(order, succeeded=False)
    error = "" if end == "timed out" else "process ended"
    return FaultTrial(order[0], "unknown", succeeded=False, is_changed=True, end=end, error=error)


def serve(channel: Channel, spec: SubjectSpec, recipe: StressRecipe) -> None:
    """Run orders until the parent has gone: the whole life of a process. The first answer is an error, or None."""
    logging.lastResort = None  # what breaks by a fault is part of the result
    warnings.simplefilter("ignore")
    for name in _NOT_OURS:
        os.environ.pop(name, None)
    try:
        subject = spec.open(policy_from_environment())
    except BlamespanError as error:
        channel.send(type(error)(str(error)))
        return
    channel.send(None)
    while True:
        order: Order = channel.receive()
        try:
            if isinstance(order, int):
                run = subject.run(order)
                channel.send(Clean(run, {role: tuple(names) for role, names in subject.roles(order, run).items()}))
            elif isinstance(order, ByzantineOrder):
                channel.send(try_byzantine(subject, order, _tracer(order.tracer)))
            else:
                channel.send(try_fault(subject, order[0], order[1], recipe))
        except ConfigError as error:
            channel.send(_refuse(order, str(error)))


def _refuse(order: Order, reason: str) -> Result:
    if isinstance(order, int):
        return reason
    if isinstance(order, ByzantineOrder):
        return ByzantineTrial(order, succeeded=False, missed=reason)
    return FaultTrial(order[0], missed=reason)


@cache
def _tracer(name: str) -> Tracer:
    return load_tracer(name)
