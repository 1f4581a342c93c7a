"""What goes into the assembler, what it knows of a trace, and what comes out of it."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Generic, Literal, TypeAlias, TypeVar

from blamespan_collector.journal.entries import SpanKey

Item = TypeVar("Item")
"""What stands for spans while they are held: the spans themselves, or where they are."""

Reason: TypeAlias = Literal["complete", "idle", "flush", "aged", "overflow", "late", "revised"]
"""Why spans were let go: the trace ended; fell silent; somebody asked; it grew too old; there was no more room;
its trace had been let go before. `revised` lets nothing go: it asks for another verdict."""


@dataclass(frozen=True, slots=True)
class Arrival(Generic[Item]):
    """Spans of one trace, as they came.

    Attributes:
        trace_id: 16 bytes.
        keys: One per span; one span may be named twice.
        item: What stands for them.
        size_bytes: What it counts towards `Limits.max_bytes`.
    """

    trace_id: bytes
    keys: Collection[SpanKey]
    item: Item
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Released(Generic[Item]):
    """What is remembered of a trace that was let go, as a whole or in part.

    Attributes:
        span_ids: The spans that went on.
        items: What stood for them, in the order they came.
        missing: Spans that others named as their parent and that had not come.
        has_root: Whether its root has come.
        has_ended: Whether its root or one of its runs has ended.
        revision: Of the last verdict.
        awaits_verdict: Whether it went on without one, or changed since.
    """

    span_ids: frozenset[bytes]
    items: tuple[Item, ...] = ()
    missing: frozenset[bytes] = frozenset()
    has_root: bool = False
    has_ended: bool = False
    revision: int = 0
    awaits_verdict: bool = False

    @property
    def may_go_on(self) -> bool:
        """Check whether more runs may follow under the same trace id: what ended has its caller elsewhere."""
        return self.has_ended and not self.has_root and not self.missing

    def merged(self, later: Released[Item]) -> Released[Item]:
        """Add what was let go later."""
        span_ids = self.span_ids | later.span_ids
        return replace(
            later,
            span_ids=span_ids,
            items=(*self.items, *(item for item in later.items if item not in self.items)),
            missing=(self.missing | later.missing) - span_ids,
            has_root=self.has_root or later.has_root,
            has_ended=self.has_ended or later.has_ended,
            revision=max(self.revision, later.revision),
        )


@dataclass(frozen=True, slots=True)
class TracePart(Generic[Item]):
    """Spans of one trace, let go together.

    Attributes:
        trace_id: 16 bytes.
        items: In the order they came.
        span_ids: The spans let go; in a `revised` part, those a verdict is asked for.
        is_whole: Whether the items hold each of `span_ids` once and nothing else.
        reason: Why.
        size_bytes: Of the items.
        is_complete: Whether its run has ended and nothing known of it is missing.
        released: What to remember of it; for a `revised` part, what is remembered already.
    """

    trace_id: bytes
    items: tuple[Item, ...]
    span_ids: frozenset[bytes]
    is_whole: bool
    reason: Reason
    size_bytes: int
    is_complete: bool
    released: Released[Item]

    @property
    def is_worth_a_verdict(self) -> bool:
        """Check whether it is all there is of the trace so far, rather than a fragment."""
        return self.reason in ("complete", "idle", "flush")


class RecentTraces(Generic[Item]):
    """Remembers the latest traces in memory, without their items.

    Args:
        max_spans: How many span ids to keep; the default takes about 10 MB.
    """

    def __init__(self, max_spans: int = 100_000) -> None:
        self._max_spans = max_spans
        self._released: OrderedDict[bytes, Released[Item]] = OrderedDict()
        self._spans = 0

    def get(self, trace_id: bytes) -> Released[Item] | None:
        """Return what is known of a trace; None where it was not let go, or long ago."""
        return self._released.get(trace_id)

    def put(self, trace_id: bytes, released: Released[Item]) -> None:
        """Note what was let go, beside what was before."""
        before = self._released.pop(trace_id, None)
        self._spans -= len(before.span_ids) + 1 if before else 0
        latest = replace(released if before is None else before.merged(released), items=())
        self._released[trace_id] = latest
        self._spans += len(latest.span_ids) + 1
        while self._spans > self._max_spans and len(self._released) > 1:
            _, forgotten = self._released.popitem(last=False)
            self._spans -= len(forgotten.span_ids) + 1


class OpenTrace(Generic[Item]):
    """What is known of a trace that is held, or followed after it was let go.

    Attributes:
        due_s: Time of its earliest valid entry in the queue.
        missing: Spans known to exist that have not ended.
        is_whole: Its items hold each of its spans once, and no other.
        has_ended: Its root or one of its runs has ended.
        has_news: A verdict is owed.
        waits_for_end: It reached the maximum age before it ended.
        goes_on: Other runs of it were let go before.
    """

    __slots__ = (
        "due_s",
        "first_s",
        "goes_on",
        "has_ended",
        "has_news",
        "has_root",
        "has_step",
        "is_whole",
        "items",
        "last_s",
        "missing",
        "revision",
        "size_bytes",
        "span_ids",
        "waits_for_end",
    )

    def __init__(self, now_s: float, *, goes_on: bool = False) -> None:
        self.goes_on = goes_on
        self.first_s = self.last_s = now_s
        self.due_s = math.inf
        self.size_bytes = 0
        self.span_ids: set[bytes] = set()
        self.items: list[Item] = []
        self.missing: set[bytes] = set()
        self.is_whole = True
        self.has_ended = self.has_root = self.has_step = False
        self.has_news = self.waits_for_end = False
        self.revision = 0

    @classmethod
    def of(cls, released: Released[Item], now_s: float) -> OpenTrace[Item]:
        """Take up a trace that was let go."""
        trace = cls(now_s)
        trace.span_ids, trace.missing = set(released.span_ids), set(released.missing)
        trace.items = list(released.items)
        trace.is_whole = False
        trace.has_root, trace.has_ended = released.has_root, released.has_ended
        trace.has_news = released.awaits_verdict
        trace.waits_for_end = released.awaits_verdict and not released.has_ended
        trace.revision = released.revision
        return trace

    @property
    def may_go_on(self) -> bool:
        """Check whether more runs may follow under the same trace id: what ended has its caller elsewhere."""
        return self.has_ended and not self.has_root and not self.missing

    @property
    def is_complete(self) -> bool:
        """Check whether it has ended and nothing known of it is missing."""
        return self.has_ended and not self.missing

    def to_released(self) -> Released[Item]:
        """Sum up what there is to remember."""
        return Released(
            frozenset(self.span_ids),
            tuple(self.items),
            frozenset(self.missing),
            self.has_root,
            self.has_ended,
            self.revision,
            self.has_news,
        )

    def part(self, trace_id: bytes, reason: Reason) -> TracePart[Item]:
        """Let all of it go."""
        released = self.to_released()
        return TracePart(
            trace_id,
            released.items,
            released.span_ids,
            self.is_whole,
            reason,
            self.size_bytes,
            self.is_complete,
            released,
        )
