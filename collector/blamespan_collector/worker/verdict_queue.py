"""The stage between assembling and committing: parts that wait for a verdict, and traces that are owed one.

A part that waits is held back until its verdict is there or its deadline has passed. Then it goes on, and its trace is
owed a verdict, which is sent as spans of its own. A trace that changed after it went on is owed one, too.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from blamespan.attribution import Attribution
from blamespan.trace import MessageActionTrace
from blamespan_collector.assembling.parts import Released, TracePart
from blamespan_collector.judging.lanes import JudgingLane
from blamespan_collector.judging.scorer import MAX_ATTEMPTS, JudgingTask, Scored
from blamespan_collector.state.state import State
from blamespan_collector.wire.outgoing import Outgoing

_logger = logging.getLogger("blamespan.collector")

_MAX_WAITING = 512
"""Parts that wait for the tracer before more is read."""
_MAX_TRACE_BYTES = 64 * 1024 * 1024
"""Larger traces go on without a verdict: to read one takes many times its size in memory."""
_MAX_SECOND = 512
"""Traces that wait for another opinion: what more there are keeps the first one."""
_MAX_OWED = 2048
"""Owed traces held in memory. The others stand in the state, and are looked up there once these are done."""


class Hung(Exception):
    """The tracer does not come back: only a new process can get rid of it."""


@dataclass(frozen=True, slots=True)
class SecondLane:
    """Who gives other opinions on what is out; nothing waits for them.

    Attributes:
        lane: Gives them.
        wants: Tells whether one on a run is asked for.
    """

    lane: JudgingLane
    wants: Callable[[MessageActionTrace, Attribution], bool]


class VerdictQueue:
    """Lines parts up for the scorers, the overdue and the changed behind all others. For one thread.

    Args:
        state: Knows all that is owed, and which traces took the process down, also across restarts.
        lanes: Give the verdicts; a trace goes to the first that takes it.
        deadline_s: How long a part waits for its verdict.
        second: Gives other opinions where a verdict is out.
    """

    def __init__(
        self,
        state: State,
        lanes: Sequence[JudgingLane],
        deadline_s: float,
        second: SecondLane | None = None,
    ) -> None:
        self._state, self._lanes, self._deadline_s = state, lanes, deadline_s
        self._second = second
        self._attempts = state.attempts()
        self._owed: dict[bytes, JudgingTask] = {}
        self._owed_row = 0
        self._state_has_more = True  # what the last process left
        self._is_owed_short = False

    @property
    def waiting_traces(self) -> int:
        """Count the traces that wait for a verdict."""
        return self._count_waiting() + len(self._owed) + len(self._scoring)

    @property
    def room(self) -> int:
        """Return how many more parts may wait."""
        return max(0, _MAX_WAITING - self._count_waiting())

    @property
    def tasks(self) -> tuple[JudgingTask, ...]:
        """List everything that waits, is being attributed or is owed a verdict."""
        return (*self._held, *self._owed.values(), *self._asked)

    @property
    def _asked(self) -> tuple[JudgingTask, ...]:
        """List what waits for another opinion."""
        return (*self._second.lane.scoring, *self._second.lane.waiting) if self._second is not None else ()

    def add_second(self, scored: Scored, revision: int) -> bool:
        """Line a trace up for another opinion, where one is wanted on one of its runs; return whether it is.

        Args:
            scored: The first one, which is out.
            revision: Of that verdict.
        """
        if self._second is None or scored.verdict is None or scored.task.is_second:
            return False
        if not any(self._second.wants(run.trace, run.attribution) for run in scored.verdict.runs):
            return False
        if len(self._second.lane.waiting) >= _MAX_SECOND:
            _logger.warning("a trace gets no second opinion: %d wait for one", _MAX_SECOND)
            return False
        part = replace(scored.task.part, reason="revised")
        part = replace(part, released=replace(part.released, revision=revision))
        self._second.lane.waiting.append(JudgingTask(part, math.inf, is_out=True, is_second=True))
        return True

    def can_judge(self, part: TracePart[int]) -> bool:
        """Check whether a part is worth a verdict, and can be read for one."""
        is_readable = part.size_bytes <= _MAX_TRACE_BYTES and self._attempts.get(part.trace_id, 0) <= MAX_ATTEMPTS
        return part.is_worth_a_verdict and is_readable

    def add(self, part: TracePart[int], since_s: float) -> bool:
        """Line a part up from *since_s* on. Return False where its tracer is overdue, so that it must not wait."""
        lane = next(lane for lane in self._lanes if lane.takes(part))
        if lane.is_overdue:
            return False
        lane.waiting.append(JudgingTask(part, since_s + self._deadline_s, self._attempts.get(part.trace_id, 0)))
        return True

    def add_owed(self, part: TracePart[int]) -> bool:
        """Line up a trace that is out, in place of the part of it that is owed already.

        A verdict on all of its spans makes one on fewer of them needless.

        Returns:
            False where it is left to the state for now.
        """
        if len(self._owed) >= _MAX_OWED and part.trace_id not in self._owed:
            self._is_owed_short = True
            return False
        self._owed[part.trace_id] = JudgingTask(part, math.inf, self._attempts.get(part.trace_id, 0))
        return True

    def look_up_owed(self) -> list[tuple[bytes, Released[int]]]:
        """Return traces that the state says are owed a verdict, once none is in line; without those in the scorers."""
        if self._owed or not (self._state_has_more or self._is_owed_short):
            return []
        if not self._state_has_more:  # from the first one again: what was left out may be any
            self._state_has_more, self._is_owed_short, self._owed_row = True, False, 0
        rows = self._state.awaiting(self._owed_row, _MAX_OWED)
        self._state_has_more = len(rows) == _MAX_OWED
        self._owed_row = rows[-1][0] if rows else 0
        awaited = self.awaited_traces() if rows else set()
        return [(trace_id, released) for _, trace_id, released in rows if trace_id not in awaited]

    def awaited_traces(self) -> set[bytes]:
        """List the traces that are out and get a verdict."""
        being_judged = {task.part.trace_id for task in self._scoring if task.is_out or task.part.reason == "revised"}
        return being_judged.union(self._owed, (task.part.trace_id for task in self._asked))

    def take_overdue(self, now_s: float) -> Iterator[JudgingTask]:
        """Yield what a scorer has whose deadline has passed; it is out from then on, and its verdict follows."""
        for task in self._scoring:
            if task.deadline_s <= now_s and not task.is_out:
                task.is_out = True
                yield task

    def take_expired(self, now_s: float) -> Iterator[JudgingTask]:
        """Take out of the lanes, one by one, what does not wait any longer."""
        for lane in self._lanes:
            yield from lane.expired(now_s)

    def take_all(self) -> list[JudgingTask]:
        """Empty the lanes; return those parts whose spans are still held, those with a scorer among them."""
        tasks = [task for task in self._held if not task.is_out and task.part.reason != "revised"]
        for lane in self._lanes:
            lane.waiting.clear()
        return tasks

    def check_tracers(self) -> None:
        """Raise where a tracer is gone for too long.

        Raises:
            Hung: if one does not come back.
        """
        for lane in self._lanes:
            if lane.hung_s is not None:
                raise Hung(f"the tracer did not come back from {len(lane.scoring)} traces in {lane.hung_s:.0f} s")

    def submit(self) -> bool:
        """Submit their next batches to the scorers. Return whether there was one."""
        before = self._count_waiting() + len(self._owed)
        in_lanes = {task.part.trace_id for task in self._held} if self._owed else set()
        for lane in self._lanes:  # a trace is in one lane at a time, or its verdicts could overtake each other
            for task in lane.submit([task for task in self._owed.values() if task.part.trace_id not in in_lanes]):
                del self._owed[task.part.trace_id]
        if self._second is not None:
            self._second.lane.submit(())
        return self._count_waiting() + len(self._owed) < before

    def take_results(self) -> Iterator[Scored]:
        """Yield what the scorers are done with, a batch of each lane at most."""
        for lane in (*self._lanes, *([self._second.lane] if self._second is not None else [])):
            yield from lane.results()

    def write_revision(self, scored: Scored, digests: frozenset[bytes], revision: int) -> list[Outgoing]:
        """Write a verdict on spans that are out, for the runs whose last verdict was another than those *digests*."""
        return self._lanes[0].scorer.beside(scored, digests, revision)

    def suspects_among(self, parts: Sequence[TracePart[int]]) -> set[bytes]:
        """List the traces of *parts* that may have taken an earlier process down."""
        return {part.trace_id for part in parts} & self._attempts.keys()

    def clear_suspects(self, trace_ids: set[bytes]) -> None:
        """Forget the attempts on traces that did not end the process."""
        for trace_id in trace_ids:
            del self._attempts[trace_id]

    @property
    def _scoring(self) -> list[JudgingTask]:
        return [task for lane in self._lanes for task in lane.scoring]

    @property
    def _held(self) -> list[JudgingTask]:
        return [task for lane in self._lanes for task in (*lane.scoring, *lane.waiting)]

    def _count_waiting(self) -> int:
        """Count the parts that are not given to a scorer yet."""
        return sum(len(lane.waiting) for lane in self._lanes)
