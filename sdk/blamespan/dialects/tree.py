"""The spans of a trace by their parents; safe on traces with lost parents, circles and any depth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

from blamespan.spans import Span

__all__ = ["Tree"]

_MAX_DEPTH = 128
"""How far up anybody looks: real traces are some twenty deep, hostile ones may be as deep as they are long."""


class Tree:
    """Looks up spans, their parents and their children."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = spans
        self.by_id = {span.span_id: span for span in spans}
        self.children: dict[str | None, list[str]] = defaultdict(list)
        for span in spans:
            self.children[self.parent_id(span.span_id)].append(span.span_id)

    def parent_id(self, span_id: str) -> str | None:
        """Give the parent's id; None where it is not in the trace."""
        parent_id = self.by_id[span_id].parent_id
        return parent_id if parent_id in self.by_id and parent_id != span_id else None

    def above(self, span_id: str) -> Iterator[str]:
        """Yield the ids of the spans above one, nearest first."""
        seen = {span_id}
        at = self.parent_id(span_id)
        while at is not None and at not in seen and len(seen) <= _MAX_DEPTH:
            yield at
            seen.add(at)
            at = self.parent_id(at)

    def nearest(self, span_id: str, is_wanted: Callable[[str], bool], *, or_self: bool = False) -> str | None:
        """Find the nearest span above one that is wanted."""
        if or_self and is_wanted(span_id):
            return span_id
        return next((at for at in self.above(span_id) if is_wanted(at)), None)
