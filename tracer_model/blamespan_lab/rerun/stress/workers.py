"""Processes that run a subject: what hangs is killed, what dies is counted, and what it prints goes to stderr."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, TypeAlias

from blamespan.errors import ConfigError
from blamespan.tracers import Tracer, load_tracer
from blamespan_lab.rerun.stress.byzantine import ByzantineOrder, ByzantineTrial, try_byzantine
from blamespan_lab.rerun.stress.recipe import StressRecipe
from blamespan_lab.rerun.stress.subjects import SubjectSpec
from blamespan_lab.rerun.stress.trial import Clean, FaultTrial, Planned, try_fault
from blamespan_lab.rerun.worker_pool import CarryOut, RunEnded, WorkerPool

Order: TypeAlias = int | tuple[Planned, Clean] | ByzantineOrder
"""A task to run without a fault, a run with one, or a run with agents that are turned."""
Result: TypeAlias = Clean | FaultTrial | ByzantineTrial | str
"""What became of it; for a run without a fault that did not come to an end: why."""


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
    _pool: WorkerPool = field(init=False)

    def __post_init__(self) -> None:
        self._threads = ThreadPoolExecutor(self.count)
        self._pool = WorkerPool(
            open_subject, self.spec, self.recipe, name=self.spec.name, timeout_s=self.recipe.timeout_s
        )

    def __enter__(self) -> SubjectWorkers:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        self._threads.shutdown(cancel_futures=True)

    def results(self, orders: Iterable[Order]) -> Iterator[tuple[Order, Result]]:
        """Yield each order with its result, as they come.

        Raises:
            ConfigError: if the subject cannot be opened.
        """
        futures = {self._threads.submit(self._run, order): order for order in orders}
        for future in as_completed(futures):
            yield futures[future], future.result()

    def _run(self, order: Order) -> Result:
        try:
            result: Result = self._pool.ask(order)
        except RunEnded as ended:
            return _result_without_answer(order, "timed out" if str(ended) == "timed out" else "broke")
        return result


def _result_without_answer(order: Order, end: Literal["timed out", "broke"]) -> Result:
    if isinstance(order, int):
        return "it timed out" if end == "timed out" else "its process ended"
    if isinstance(order, ByzantineOrder):
        return ByzantineTrial(order, succeeded=False)
    error = "" if end == "timed out" else "process ended"
    return FaultTrial(order[0], "unknown", succeeded=False, is_changed=True, end=end, error=error)


def open_subject(spec: SubjectSpec, recipe: StressRecipe) -> CarryOut:
    """Open the subject, and return what carries out orders."""
    subject = spec.open()

    def carry_out(order: Order) -> Result:
        try:
            if isinstance(order, int):
                run = subject.run(order)
                return Clean(run, {role: tuple(names) for role, names in subject.roles(order, run).items()})
            if isinstance(order, ByzantineOrder):
                return try_byzantine(subject, order, _tracer(order.tracer))
            return try_fault(subject, *order, recipe)
        except ConfigError as error:
            return _refuse(order, str(error))

    return carry_out


def _refuse(order: Order, reason: str) -> Result:
    if isinstance(order, int):
        return reason
    if isinstance(order, ByzantineOrder):
        return ByzantineTrial(order, succeeded=False, missed=reason)
    return FaultTrial(order[0], missed=reason)


@cache
def _tracer(name: str) -> Tracer:
    return load_tracer(name)
