"""Gathers spans until their trace is complete: pure, without I/O or a clock of its own.

Times are seconds on any clock that never runs backwards. Every span that goes in comes out once, in one
part: `complete`, `idle`, `aged` and `flush` parts are worth a verdict; `late` and `overflow` parts go on
as they are.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from blamespan import conventions
from blamespan.runs import is_step
from blamespan.spans import Span
from blamespan_collector.settings import Limits

__all__ = ["Arrival", "Assembler", "Part", "Reason"]

Reason: TypeAlias = Literal["complete", "idle", "aged", "flush", "overflow", "late"]
"""Why spans were let go: the trace ended; fell silent; grew too old; somebody asked; there was no more room;
its trace had been let go before."""

_REMEMBERED_SPANS = 100_000
"""Ids of released spans kept to know late ones and duplicates by: about 10 MB."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A span as it came.

    Attributes:
        span: The span.
        size_bytes: What it counts towards `Limits.max_bytes`.
        parent_is_remote: Whether its parent ran in another process; None where its sender does not say.
    """

    span: Span
    size_bytes: int
    parent_is_remote: bool | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """Spans of one trace, let go together, in the order they came."""

    trace_id: str
    spans: tuple[Span, ...]
    reason: Reason
    size_bytes: int

    @property
    def is_worth_a_verdict(self) -> bool:
        """Tell whether it is all there is of the trace so far, rather than a fragment."""
        return self.reason not in ("overflow", "late")


@dataclass(slots=True)
class _Held:
    """A trace that is not complete."""

    first_s: float
    last_s: float
    due_s: float = float("inf")
    """Time of its earliest valid entry in the heap."""
    size_bytes: int = 0
    spans: dict[str, Span] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    """Spans known to exist that have not ended."""
    has_ended: bool = False
    """Its root or one of its runs has ended."""
    has_root: bool = False
    has_step: bool = False


@dataclass(slots=True)
class _Released:
    span_ids: set[str]
    may_go_on: bool
    """Its root is in another process: more runs may follow under the same trace id."""

    @property
    def room(self) -> int:
        return len(self.span_ids) + 1


class Assembler:
    """Holds spans by trace and lets each trace go when it is complete.

    A trace is complete when its root has ended, no span that others name as their parent is missing, and
    nothing came for `quiet_s`. A run that ended in order (`blamespan.run.complete`) under a caller in
    another process counts as a root: that caller may never be seen. Where this never comes true, `idle_s`
    of silence or an age of `max_age_s` lets the trace go as far as it came.

    Past `max_traces` or `max_bytes` the oldest traces are let go. What comes for a trace that was let go
    comes out at once as a late part; a span that came out before is dropped, as a span id must never be
    exported twice.

    Args:
        limits: When to stop waiting and how much to hold.
        sees_starts: Whether `start` tells of every span's beginning. Then nothing is guessed: a trace is
            complete when all that started has ended, and while one is open no silence is too long. Only
            agents' steps whose run is in another process still wait for `idle_s`.
    """

    def __init__(self, limits: Limits, *, sees_starts: bool = False) -> None:
        self._limits = limits
        self._sees_starts = sees_starts
        self._held: dict[str, _Held] = {}  # oldest first
        self._queue: list[tuple[float, str]] = []
        self._released: OrderedDict[str, _Released] = OrderedDict()
        self._remembered = 0
        self.held_bytes = 0
        self.duplicates = 0
        """Spans dropped because they came before."""

    @property
    def held_traces(self) -> int:
        """Count the traces held."""
        return len(self._held)

    @property
    def held_spans(self) -> int:
        """Count the spans held."""
        return sum(len(held.spans) for held in self._held.values())

    def start(self, trace_id: str, span_id: str, parent_id: str | None, now_s: float) -> list[Part]:
        """Learn that a span has started. Returns what had to be let go to make room."""
        if not self._is_late(trace_id, parent_id):
            self._hold(trace_id, now_s).open.add(span_id)
            self._schedule(trace_id)
        return self._overflow()

    def add(self, arrivals: Iterable[Arrival], now_s: float) -> list[Part]:
        """Take in ended spans. Returns what comes out at once: late parts, and what there is no more room for."""
        late: dict[str, list[Arrival]] = {}
        touched: set[str] = set()
        for arrival in arrivals:
            span = arrival.span
            if self._is_duplicate(span):
                self.duplicates += 1
            elif self._is_late(span.trace_id, span.parent_id):
                late.setdefault(span.trace_id, []).append(arrival)
                self._remember(span.trace_id, [span.span_id])
            else:
                self._put(arrival, now_s)
                touched.add(span.trace_id)
        for trace_id in touched:
            self._schedule(trace_id)
        parts = [
            Part(trace_id, tuple(item.span for item in items), "late", sum(item.size_bytes for item in items))
            for trace_id, items in late.items()
        ]
        return parts + self._overflow()

    def due(self, now_s: float) -> list[Part]:
        """Let go what is complete, silent or old by now."""
        parts: list[Part] = []
        while self._queue and self._queue[0][0] <= now_s:
            entry = heapq.heappop(self._queue)
            if not self._is_valid(entry):
                continue
            trace_id = entry[1]
            held = self._held[trace_id]
            held.due_s = float("inf")
            if self._due_s(held) > now_s:
                self._schedule(trace_id)
                continue
            parts.append(self._release(trace_id, self._reason(held, now_s)))
        return [part for part in parts if part.spans]

    def next_due_s(self) -> float | None:
        """Tell when `due` may next have something; None while nothing is held."""
        while self._queue and not self._is_valid(self._queue[0]):
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def flush(self) -> list[Part]:
        """Let everything go: what is complete but for the quiet as such, the rest as far as it came."""
        parts = [
            self._release(trace_id, "complete" if self._is_complete(held) else "flush")
            for trace_id, held in list(self._held.items())
        ]
        self._queue.clear()
        return [part for part in parts if part.spans]

    def _put(self, arrival: Arrival, now_s: float) -> None:
        span = arrival.span
        held = self._hold(span.trace_id, now_s)
        held.last_s = now_s
        held.spans[span.span_id] = span
        held.size_bytes += arrival.size_bytes
        self.held_bytes += arrival.size_bytes
        held.open.discard(span.span_id)
        held.has_step = held.has_step or is_step(span)
        is_ended_run = span.attributes.get(conventions.RUN_COMPLETE) is True
        held.has_root = held.has_root or span.parent_id is None
        held.has_ended = held.has_ended or is_ended_run or span.parent_id is None
        if self._sees_starts or span.parent_id is None or span.parent_id in held.spans:
            return
        is_elsewhere = is_ended_run if arrival.parent_is_remote is None else arrival.parent_is_remote
        if not is_elsewhere:  # a parent in another process may never come: nobody waits for it
            held.open.add(span.parent_id)

    def _hold(self, trace_id: str, now_s: float) -> _Held:
        if trace_id not in self._held:
            self._held[trace_id] = _Held(now_s, now_s)
        return self._held[trace_id]

    def _is_duplicate(self, span: Span) -> bool:
        held, released = self._held.get(span.trace_id), self._released.get(span.trace_id)
        return bool(
            (held is not None and span.span_id in held.spans)
            or (released is not None and span.span_id in released.span_ids)
        )

    def _is_late(self, trace_id: str, parent_id: str | None) -> bool:
        """Tell whether a span's trace was let go, and not so that another of its runs could follow."""
        released = self._released.get(trace_id)
        if released is None:
            return False
        return not released.may_go_on or parent_id in released.span_ids

    def _is_complete(self, held: _Held) -> bool:
        if held.open:
            return False
        return held.has_ended or (self._sees_starts and not held.has_step)

    def _due_s(self, held: _Held) -> float:
        oldest_s = held.first_s + self._limits.max_age_s
        if self._is_complete(held):
            return min(held.last_s + self._limits.quiet_s, oldest_s)
        if self._sees_starts and held.open:
            return oldest_s
        return min(held.last_s + self._limits.idle_s, oldest_s)

    def _reason(self, held: _Held, now_s: float) -> Reason:
        if self._is_complete(held):
            return "complete"
        return "aged" if now_s >= held.first_s + self._limits.max_age_s else "idle"

    def _schedule(self, trace_id: str) -> None:
        """Put the trace into the heap where it is due earlier than its entry there says."""
        held = self._held[trace_id]
        due_s = self._due_s(held)
        if due_s < held.due_s:
            held.due_s = due_s
            heapq.heappush(self._queue, (due_s, trace_id))
        if len(self._queue) > 2 * len(self._held) + 64:  # mostly entries of traces let go long before they were due
            self._queue = [entry for entry in self._queue if self._is_valid(entry)]
            heapq.heapify(self._queue)

    def _is_valid(self, entry: tuple[float, str]) -> bool:
        """Tell whether an entry of the heap is its trace's latest, rather than of before something changed."""
        held = self._held.get(entry[1])
        return held is not None and held.due_s == entry[0]

    def _overflow(self) -> list[Part]:
        parts: list[Part] = []
        while len(self._held) > self._limits.max_traces or self.held_bytes > self._limits.max_bytes:
            parts.append(self._release(next(iter(self._held)), "overflow"))
        return [part for part in parts if part.spans]

    def _release(self, trace_id: str, reason: Reason) -> Part:
        held = self._held.pop(trace_id)
        self.held_bytes -= held.size_bytes
        self._remember(trace_id, held.spans, may_go_on=reason == "complete" and not held.has_root)
        return Part(trace_id, tuple(held.spans.values()), reason, held.size_bytes)

    def _remember(self, trace_id: str, span_ids: Iterable[str], *, may_go_on: bool | None = None) -> None:
        known = self._released.pop(trace_id, None)
        if known is None:
            known = _Released(set(), False)
        else:
            self._remembered -= known.room
        known.span_ids.update(span_ids)
        if may_go_on is not None:
            known.may_go_on = may_go_on
        self._released[trace_id] = known
        self._remembered += known.room
        while self._remembered > _REMEMBERED_SPANS and len(self._released) > 1:
            _, forgotten = self._released.popitem(last=False)
            self._remembered -= forgotten.room
