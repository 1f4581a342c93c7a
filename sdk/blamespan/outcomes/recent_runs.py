"""The latest runs of this process, and which of them a call of `record_outcome()` is about.

A run is known by where it ended: in which thread, in which asyncio task, and which tasks waited for that one. Whoever
ran it or waited for it may be asked about it; anybody else only where no other run could be meant.
"""

from __future__ import annotations

import sys
import threading
from asyncio import Task
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, Literal, Protocol
from weakref import WeakSet, ref

from blamespan.forking import renewed_after_fork
from blamespan.outcomes.awaiting import current_task, waiting
from blamespan.outcomes.run_results import ResultKey, conversation_of, key_of

MOST_RUNS: Final = 1_000
"""Runs that are known; of more, the latest."""
_MOST_OF_TRACE: Final = 8


class OutcomeTaker(Protocol):
    """A run that can be told how it ended, at work or over."""

    def take(self, outcome: Literal["succeeded", "failed"], reason: str) -> None:
        """Write it on the run's trace."""
        ...


@dataclass(slots=True, eq=False)
class RecentRun:
    """A run of this process.

    Attributes:
        taker: Takes its outcome.
        name: Of its team or graph.
        trace_id: 32 hex digits; empty where it is not recorded.
        conversation_id: Equal for runs that continue each other.
        began: Its place among all begins and ends of runs.
        ended: Likewise; None while it goes on.
        agents: Names of who took part.
        result: What it returned.
        is_told: Whether an outcome was recorded.
    """

    taker: OutcomeTaker
    name: str
    trace_id: str
    conversation_id: str | None
    began: int
    ended: int | None = None
    agents: tuple[str, ...] = ()
    result: ResultKey | None = None
    is_told: bool = False
    _begun_in: tuple[object, ref[Task[Any]] | None] | None = None
    _thread: object = None
    _thread_ref: ref[threading.Thread] | None = None
    _task: ref[Task[Any]] | None = None
    _tasks: WeakSet[Task[Any]] = field(default_factory=WeakSet)
    _is_for_thread: bool = False

    @property
    def latest(self) -> int:
        """When something was last heard of it."""
        return self.began if self.ended is None else self.ended

    def overlaps(self, other: RecentRun) -> bool:
        """Check whether both were at work at one time."""
        return self.began < other.latest and other.began < self.latest

    def note_begin(self) -> None:
        """Note where it begins: the thread and the task."""
        task = current_task()
        self._begun_in = _thread_token(), ref(task) if task is not None else None

    def note_end(self) -> None:
        """Note where it ends: the thread, the task, and who waits for it."""
        self._thread, self._thread_ref = _thread_token(), ref(threading.current_thread())
        who = waiting()
        self._task = ref(who.task) if who.task is not None else None
        self._tasks = WeakSet(who.tasks)
        self._is_for_thread = who.is_for_thread

    def is_known_to(self, task: Task[Any] | None) -> bool:
        """Check whether *task* ran it or waited for it; without a task, whether this thread did."""
        return task in self._tasks if task is not None else self._thread is _thread_token()

    def is_of(self, task: Task[Any] | None) -> bool:
        """Check whether it began and ended in *task*; without a task, in this thread outside of any."""
        if self._begun_in is None or self.ended is None:
            return False
        thread, begun_in = self._begun_in
        tasks = [reference() if reference is not None else None for reference in (begun_in, self._task)]
        is_outside = begun_in is None and self._task is None
        return tasks == [task, task] and (
            task is not None or (is_outside and thread is self._thread is _thread_token())
        )

    def is_orphan(self) -> bool:
        """Check whether nobody is left who ran it or waited for it, but for who does not show."""
        if self._is_for_thread:
            return True
        if any(not task.done() for task in self._tasks):
            return False
        if self._task is not None:
            return True
        thread = self._thread_ref() if self._thread_ref is not None else None
        return thread is None or not thread.is_alive()

    def __str__(self) -> str:
        who = f" ({', '.join(self.agents[:4])}{', ...' if len(self.agents) > 4 else ''})" if self.agents else ""
        return f"{self.name or 'a run'}{who}, trace {self.trace_id or 'not recorded'}"


class RecentRuns:
    """Keeps the latest runs, and finds the one that is meant."""

    def __init__(self) -> None:
        self._latest: ContextVar[RecentRun | None] = ContextVar("blamespan-latest-run", default=None)
        self.forget()
        renewed_after_fork(self, RecentRuns._renew_lock)

    def forget(self) -> None:
        """Forget every run, but for the last one of each context."""
        self._renew_lock()
        self._clock = count(1)
        self._runs: OrderedDict[int, RecentRun] = OrderedDict()
        self._of_trace: OrderedDict[str, list[RecentRun]] = OrderedDict()

    def begin(
        self, taker: OutcomeTaker, trace_id: str, *, name: str, conversation_id: str | None, begins_trace: bool
    ) -> RecentRun:
        """Note that a run begins here. Deterministic ids may come again, for another trace."""
        run = RecentRun(taker, name, trace_id, conversation_id, next(self._clock))
        run.note_begin()
        self._latest.set(run)
        with self._lock:
            self._runs[run.began] = run
            if trace_id:
                before = [] if begins_trace else self._of_trace.get(trace_id, [])
                self._of_trace[trace_id] = [*before[-_MOST_OF_TRACE + 1 :], run]
                self._of_trace.move_to_end(trace_id)
            while len(self._runs) > MOST_RUNS:
                self._runs.popitem(last=False)
            while len(self._of_trace) > MOST_RUNS:
                self._of_trace.popitem(last=False)
        return run

    def end(self, run: RecentRun, *, agents: Iterable[str], result: object) -> None:
        """Note that *run* ends here, and what it returned.

        No context variable is set: a run that the program dropped may be ended by the garbage collector, anywhere.
        Where that is within another `ContextVar.set()`, a second one frees what the first reads: Python 3.11 crashes.
        """
        run.ended = next(self._clock)
        run.agents = tuple(agents)
        run.note_end()
        if result is not None:
            run.result = key_of(result)

    def of_trace(self, trace_id: str) -> Sequence[RecentRun]:
        """Return the runs of a trace; more than one cannot be told apart by it."""
        with self._lock:
            return tuple(self._of_trace.get(trace_id, ()))

    def of_result(self, result: object) -> Sequence[RecentRun]:
        """Return the run that returned *result*, or several where that cannot be said.

        The very object counts most, then what it says, then the conversation that it names.
        """
        ended = [run for run in self._all() if run.ended is not None]
        matches = [run for run in ended if run.result is not None and run.result.is_of(result)]
        if not matches:
            asked = key_of(result)
            matches = [run for run in ended if run.result is not None and run.result.is_like(asked)]
            if len(matches) > 1:
                matches = [run for run in matches if run.result and run.result.address == asked.address] or matches
        conversation = conversation_of(result)
        if conversation is not None:
            within = [run for run in matches or ended if run.conversation_id == conversation]
            matches = within[-1:] if within and not _some_overlap(within[-1], within) else within or matches
        if len(matches) > 1:
            nearest = self.here()
            matches = list(nearest) if len(nearest) == 1 and nearest[0] in matches else matches
        return matches

    def here(self) -> Sequence[RecentRun]:
        """Return the run that began or ended last here, or several where that cannot be said.

        It is the run of this context, or a later one whose end this task waited for, or this thread. Where there is
        none, or the program goes one way alone, it may also be one that nobody who is still there has waited for.
        """
        task, direct = current_task(), self._latest.get()
        runs = self._all()
        candidates = [run for run in runs if run.ended is not None and run.is_known_to(task)]
        newest = max([*candidates, *([direct] if direct is not None else [])], key=lambda run: run.latest, default=None)
        orphans = [
            run
            for run in runs
            if run.ended is not None
            and not run.is_told
            and run not in candidates
            and (newest is None or run.ended > newest.latest)
            and (run.is_orphan() or _is_interactive())
        ]
        if orphans and _goes_one_way(task):
            return _last_alone(orphans[-1], [*candidates, *orphans])
        if newest is None:
            return orphans
        if orphans and newest.is_told:
            return [newest, *orphans]
        return [newest] if newest is direct or newest.is_of(task) else _last_alone(newest, candidates)

    def latest(self, most: int) -> Sequence[RecentRun]:
        """Return the latest runs, the last one last."""
        return self._all()[-most:]

    def _all(self) -> list[RecentRun]:
        with self._lock:
            return sorted(self._runs.values(), key=lambda run: run.latest)

    def _renew_lock(self) -> None:
        """Begin with a free lock: in a forked child whoever held it is not there."""
        self._lock = threading.Lock()


def _last_alone(last: RecentRun, among: Sequence[RecentRun]) -> list[RecentRun]:
    """Return *last*, and beside it those that were at work at the same time and have no outcome yet."""
    return [*(run for run in among if run is not last and not run.is_told and run.overlaps(last)), last]


def _some_overlap(run: RecentRun, among: Sequence[RecentRun]) -> bool:
    return any(other is not run and other.overlaps(run) for other in among)


def _goes_one_way(task: Task[Any] | None) -> bool:
    """Check whether what is called now follows what was called before: a script, or a person at a notebook."""
    return (task is None and threading.current_thread() is threading.main_thread()) or _is_interactive()


def _is_interactive() -> bool:
    """Check for a notebook: each of its cells runs in a task of its own."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return shell is not None and shell() is not None


class _Here(threading.local):
    """Something of each thread that no later thread has, unlike its number."""

    def __init__(self) -> None:
        self.token = object()


_here = _Here()


def _thread_token() -> object:
    return _here.token
