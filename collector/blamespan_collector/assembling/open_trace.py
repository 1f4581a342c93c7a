"""What the assembler knows of a trace that is held, or followed after it was let go."""

from __future__ import annotations

import math
from typing import Generic

from blamespan_collector.assembling.parts import Item, Reason, Released, TracePart


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
