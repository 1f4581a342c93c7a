"""Gathers spans until their trace is complete: pure, without I/O or a clock of its own.

Generic in what it holds: the in-process mode gives it spans, the collector's worker gives it places in the
journal. It looks at ids, parents and a few flags alone. Times are seconds on any clock that never runs
backwards; the clocks of the spans are never read, as those of different hosts disagree.

Every span that goes in comes out once: in a `complete`, `idle` or `flush` part, which is worth a verdict; or in
an `aged`, `overflow` or `late` part, which goes on as it is. What went on without its verdict, or changed after
it, is followed: when that has ended, too, a `revised` part asks for another verdict and lets nothing go.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Generic, Protocol

from blamespan_collector.assembling.parts import Arrival, Item, OpenTrace, Reason, Released, TracePart
from blamespan_collector.journal.entries import RUN_COMPLETE, STEP, SpanKey
from blamespan_collector.settings import Limits

_NEVER = math.inf


class Memory(Protocol[Item]):
    """Remembers the traces that were let go."""

    def get(self, trace_id: bytes) -> Released[Item] | None:
        """Return what is known of a trace that was let go; None where it was not, or long ago."""
        ...

    def put(self, trace_id: bytes, released: Released[Item]) -> None:
        """Note what was let go of a trace, beside what was noted before."""
        ...


class Assembler(Generic[Item]):
    """Holds spans by trace and lets each trace go when it is complete.

    A trace is complete when its root has ended, no span that others name as their parent is missing, and
    nothing came for `quiet_s`. A run that ended in order (`blamespan.run.complete`) under a caller in
    another process counts as a root: that caller may never be seen. Where this never comes true, `idle_s`
    of silence lets the trace go as far as it came, for a verdict; an age of `max_age_s` lets it go without one.

    Past `max_traces` or `max_bytes` the oldest traces are let go. What comes for a trace that was let go
    comes out at once as a late part; a span that came out before is dropped, as a span id must never be
    exported twice.

    Args:
        limits: When to stop waiting and how much to hold.
        memory: Remembers what was let go.
        sees_starts: Whether `start` tells of every span's beginning. Then nothing is guessed: a trace is
            complete when all that started has ended, and while one is open no silence is too long. Only
            agents' steps whose run is in another process still wait for `idle_s`.
        follows: Whether to ask for verdicts on what changed or ended after it was let go.

    Attributes:
        held_bytes: What the items held take.
        duplicates: Spans dropped because they came before.
    """

    def __init__(
        self, limits: Limits, memory: Memory[Item], *, sees_starts: bool = False, follows: bool = False
    ) -> None:
        self._limits = limits
        self._memory = memory
        self._sees_starts = sees_starts
        self._follows = follows
        self._held: dict[bytes, OpenTrace[Item]] = {}  # oldest first, as the next one
        self._followed: dict[bytes, OpenTrace[Item]] = {}
        self._queue: list[tuple[float, bytes, bool]] = []  # when, which trace, whether it is followed
        self.held_bytes = 0
        self.duplicates = 0

    @property
    def held_traces(self) -> int:
        """Count the traces held."""
        return len(self._held)

    @property
    def followed_traces(self) -> int:
        """Count the traces that were let go and are followed."""
        return len(self._followed)

    def list_items(self) -> Iterator[tuple[bytes, Sequence[Item]]]:
        """List what stands for the spans of each trace that is held or followed."""
        for traces in (self._followed, self._held):
            yield from ((trace_id, trace.items) for trace_id, trace in traces.items())

    def start(self, trace_id: bytes, span_id: bytes, parent_id: bytes | None, now_s: float) -> list[TracePart[Item]]:
        """Learn that a span has started. Returns what had to be let go to make room."""
        before = self._before(trace_id)
        if before is None or (before.may_go_on and parent_id not in before.span_ids):
            self._hold(trace_id, now_s).missing.add(span_id)
            self._schedule(trace_id)
        return self._overflow()

    def add(self, arrivals: Iterable[Arrival[Item]], now_s: float) -> list[TracePart[Item]]:
        """Take in ended spans. Returns what comes out at once: late parts, and what there is no more room for."""
        late: list[TracePart[Item]] = []
        touched: set[bytes] = set()
        for arrival in arrivals:
            before, open_trace = self._before(arrival.trace_id), self._held.get(arrival.trace_id)
            fresh = self._fresh(arrival, before, open_trace)
            if not fresh:
                continue
            if before is not None and not (before.may_go_on and not _touches(before, fresh)):
                late.append(self._late(arrival, fresh, before, now_s))
                continue
            self._put(self._hold(arrival.trace_id, now_s), arrival, fresh, now_s)
            self.held_bytes += arrival.size_bytes
            touched.add(arrival.trace_id)
        for trace_id in touched:
            self._schedule(trace_id)
        return late + self._overflow()

    def attach(self, arrival: Arrival[Item], now_s: float) -> list[TracePart[Item]]:
        """Take in what tells more of spans, e.g. their messages; its keys name them. It comes out with its trace.

        Where the trace was let go it comes out at once, as a late part without spans, and the trace is judged
        again. Where no span of it ever comes, it is forgotten after `idle_s`.
        """
        before = self._before(arrival.trace_id)
        if before is not None and not (
            before.may_go_on and not any(key.span_id in before.span_ids for key in arrival.keys)
        ):
            return [self._late(replace(arrival, keys=()), {}, before, now_s)]
        self._put(self._hold(arrival.trace_id, now_s), replace(arrival, keys=()), {}, now_s)
        self.held_bytes += arrival.size_bytes
        self._schedule(arrival.trace_id)
        return self._overflow()

    def follow(self, trace_id: bytes, released: Released[Item], now_s: float) -> None:
        """Ask for a verdict on all that was let go of a trace: when it has ended and was silent."""
        followed = self._followed.get(trace_id)
        before = self._memory.get(trace_id) if followed is None else followed.to_released()
        trace = OpenTrace.of(released if before is None else before.merged(released), now_s)
        trace.has_news = True
        self._followed[trace_id] = trace
        self._schedule(trace_id, is_followed=True)

    def take_up(self, trace_id: bytes, released: Released[Item], now_s: float) -> list[TracePart[Item]]:
        """Ask for a verdict that is owed since long: now, or when the trace has ended. Nothing if it is followed."""
        if trace_id in self._followed:
            return []
        trace = OpenTrace.of(released, now_s)
        if trace.has_ended:
            return [trace.part(trace_id, "revised")]
        self.follow(trace_id, released, now_s)
        return []

    def is_followed(self, trace_id: bytes) -> bool:
        """Check whether a verdict on what was let go of a trace will be asked for."""
        return trace_id in self._followed

    def due(self, now_s: float, most: int | None = None) -> list[TracePart[Item]]:
        """Let go what is complete, silent or old by now, *most* parts at most."""
        parts: list[TracePart[Item]] = []
        while self._queue and self._queue[0][0] <= now_s and (most is None or len(parts) < most):
            entry = heapq.heappop(self._queue)
            if not self._is_valid(entry):
                continue
            _, trace_id, is_followed = entry
            trace = self._traces(is_followed)[trace_id]
            trace.due_s = _NEVER
            if self._due_s(trace, is_followed) > now_s:
                self._schedule(trace_id, is_followed=is_followed)
            elif is_followed:
                parts += self._revise(trace_id)
            else:
                parts += self._release(trace_id, self._reason(trace, now_s), now_s)
        return parts

    def next_due_s(self) -> float | None:
        """Return when `due` may next have something; None while nothing is held."""
        while self._queue and not self._is_valid(self._queue[0]):
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def flush(self) -> list[TracePart[Item]]:
        """Let everything go: what is complete but for the quiet as such, the rest as far as it came.

        Verdicts are asked for where what was let go has ended; the others stay owed.
        """
        ended = [trace_id for trace_id, trace in self._followed.items() if trace.is_complete]
        parts = [part for trace_id in ended for part in self._revise(trace_id)]
        for trace_id, trace in list(self._held.items()):
            parts += self._release(trace_id, "complete" if self._is_complete(trace) else "flush", trace.last_s)
        self._queue.clear()
        return parts

    def _traces(self, is_followed: bool) -> dict[bytes, OpenTrace[Item]]:
        return self._followed if is_followed else self._held

    def _before(self, trace_id: bytes) -> OpenTrace[Item] | Released[Item] | None:
        """Look up what of the trace was let go."""
        if trace_id in self._followed:
            return self._followed[trace_id]
        open_trace = self._held.get(trace_id)
        return self._memory.get(trace_id) if open_trace is None or open_trace.goes_on else None

    def _fresh(
        self,
        arrival: Arrival[Item],
        before: OpenTrace[Item] | Released[Item] | None,
        open_trace: OpenTrace[Item] | None,
    ) -> dict[bytes, SpanKey]:
        """Leave out the spans that came before; the first one of an id counts."""
        fresh: dict[bytes, SpanKey] = {}
        for key in arrival.keys:
            span_id = key.span_id
            is_known = (open_trace is not None and span_id in open_trace.span_ids) or (
                before is not None and span_id in before.span_ids
            )
            if not is_known and span_id not in fresh:
                fresh[span_id] = key
        self.duplicates += len(arrival.keys) - len(fresh)
        return fresh

    def _late(
        self,
        arrival: Arrival[Item],
        fresh: dict[bytes, SpanKey],
        before: OpenTrace[Item] | Released[Item],
        now_s: float,
    ) -> TracePart[Item]:
        trace = before if isinstance(before, OpenTrace) else OpenTrace.of(before, now_s)
        trace.has_news = True
        self._put(trace, arrival, fresh, now_s)
        if self._follows:
            self._followed[arrival.trace_id] = trace
            self._schedule(arrival.trace_id, is_followed=True)
        part = TracePart(
            trace_id=arrival.trace_id,
            items=(arrival.item,),
            span_ids=frozenset(fresh),
            is_whole=len(fresh) == len(arrival.keys),
            reason="late",
            size_bytes=arrival.size_bytes,
            is_complete=trace.is_complete,
            released=Released(
                frozenset(fresh),
                (arrival.item,),
                frozenset(trace.missing),
                trace.has_root,
                trace.has_ended,
                trace.revision,
                self._follows,
            ),
        )
        self._memory.put(arrival.trace_id, part.released)
        return part

    def _put(self, trace: OpenTrace[Item], arrival: Arrival[Item], fresh: dict[bytes, SpanKey], now_s: float) -> None:
        trace.last_s = now_s
        trace.items.append(arrival.item)
        trace.size_bytes += arrival.size_bytes
        trace.is_whole = trace.is_whole and len(fresh) == len(arrival.keys)
        trace.span_ids.update(fresh)
        trace.missing.difference_update(fresh)
        for key in fresh.values():
            is_ended_run = bool(key.flags & RUN_COMPLETE)
            trace.has_step = trace.has_step or bool(key.flags & STEP)
            trace.has_root = trace.has_root or not key.has_parent
            trace.has_ended = trace.has_ended or is_ended_run or not key.has_parent
            if self._sees_starts or not key.has_parent or key.parent_id in trace.span_ids:
                continue
            is_elsewhere = is_ended_run if key.parent_is_remote is None else key.parent_is_remote
            if not is_elsewhere:  # a parent in another process may never come: nobody waits for it
                trace.missing.add(key.parent_id)

    def _hold(self, trace_id: bytes, now_s: float) -> OpenTrace[Item]:
        open_trace = self._held.get(trace_id)
        if open_trace is None:
            open_trace = self._held[trace_id] = OpenTrace(now_s, goes_on=self._memory.get(trace_id) is not None)
        return open_trace

    def _is_complete(self, trace: OpenTrace[Item]) -> bool:
        return trace.is_complete or (self._sees_starts and not trace.has_step and not trace.missing)

    def _due_s(self, trace: OpenTrace[Item], is_followed: bool) -> float:
        oldest_s = _NEVER if is_followed else trace.first_s + self._limits.max_age_s
        if self._is_complete(trace):
            return min(trace.last_s + self._limits.quiet_s, oldest_s)
        if self._sees_starts and trace.missing:
            return oldest_s
        idle_s = self._limits.max_age_s if trace.waits_for_end else self._limits.idle_s
        return min(trace.last_s + idle_s, oldest_s)

    def _reason(self, trace: OpenTrace[Item], now_s: float) -> Reason:
        if self._is_complete(trace):
            return "complete"
        return "aged" if now_s >= trace.first_s + self._limits.max_age_s else "idle"

    def _schedule(self, trace_id: bytes, *, is_followed: bool = False) -> None:
        """Put the trace into the queue where it is due earlier than its entry there says."""
        trace = self._traces(is_followed)[trace_id]
        due_s = self._due_s(trace, is_followed)
        if due_s < trace.due_s:
            trace.due_s = due_s
            heapq.heappush(self._queue, (due_s, trace_id, is_followed))
        if len(self._queue) > 2 * (len(self._held) + len(self._followed)) + 64:  # mostly of traces long let go
            self._queue = [entry for entry in self._queue if self._is_valid(entry)]
            heapq.heapify(self._queue)

    def _is_valid(self, entry: tuple[float, bytes, bool]) -> bool:
        """Check whether an entry of the queue is its trace's latest, rather than of before something changed."""
        trace = self._traces(entry[2]).get(entry[1])
        return trace is not None and trace.due_s == entry[0]

    def _overflow(self) -> list[TracePart[Item]]:
        parts: list[TracePart[Item]] = []
        while len(self._held) > self._limits.max_traces or self.held_bytes > self._limits.max_bytes:
            oldest = next(iter(self._held))
            parts += self._release(oldest, "overflow", self._held[oldest].last_s)
        while len(self._followed) > self._limits.max_traces:
            parts += self._revise(next(iter(self._followed)))
        return parts

    def _release(self, trace_id: bytes, reason: Reason, now_s: float) -> list[TracePart[Item]]:
        trace = self._held.pop(trace_id)
        self.held_bytes -= trace.size_bytes
        if not trace.span_ids:
            return []  # spans that began and never ended, or events of spans that never came
        trace.has_news = self._follows and reason in ("aged", "overflow")
        part = trace.part(trace_id, reason)
        self._memory.put(trace_id, part.released)
        # Of a run among others some may have come with those: as a fragment it was judged by less than there is
        is_fragment = self._follows and trace.goes_on and reason != "complete"
        if trace.has_news or trace_id in self._followed or is_fragment:
            self.follow(trace_id, part.released, now_s)
        return [part]

    def _revise(self, trace_id: bytes) -> list[TracePart[Item]]:
        trace = self._followed.pop(trace_id)
        return [trace.part(trace_id, "revised")] if trace.has_news else []


def _touches(before: OpenTrace[Item] | Released[Item], fresh: dict[bytes, SpanKey]) -> bool:
    """Check whether spans belong to a run that was let go, rather than to one that follows it."""
    return any(key.parent_id in before.span_ids for key in fresh.values())
