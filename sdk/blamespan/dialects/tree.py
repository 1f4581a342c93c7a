"""The spans of a trace by their parents; safe on traces with lost parents, circles and any depth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import TypeVar

from blamespan.spans import Span

Said = TypeVar("Said")

_MAX_DEPTH = 128
"""How far up anybody looks: real traces are some twenty deep, hostile ones may be as deep as they are long."""


class Tree:
    """Looks up spans, their parents and their children."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = spans
        self.by_id = {span.span_id: span for span in spans}
        self._parents = {
            span.span_id: span.parent_id if span.parent_id in self.by_id and span.parent_id != span.span_id else None
            for span in spans
        }
        self.children: dict[str | None, list[str]] = defaultdict(list)
        for span in spans:
            self.children[self._parents[span.span_id]].append(span.span_id)

    def parent_id(self, span_id: str) -> str | None:
        """Return the parent's id; None where it is not in the trace."""
        return self._parents[span_id]

    def above(self, span_id: str) -> Iterator[str]:
        """Yield the ids of the spans above one, nearest first; round a circle until it is too deep."""
        at = self._parents[span_id]
        for _ in range(_MAX_DEPTH):
            if at is None:
                return
            yield at
            at = self._parents[at]

    def find_first(
        self, span_id: str, say: Callable[[str], Said | None], answers: dict[str, Said | None]
    ) -> Said | None:
        """Return what *say* answers of a span, or of the nearest span above it that it answers anything of.

        Args:
            span_id: Where to begin.
            say: Answers for one span; None where there is nothing to say of it.
            answers: What was found from each span: a deep chain is walked once, not once for each of its spans.
        """
        path: list[str] = []
        answer: Said | None = None
        for at in chain((span_id,), self.above(span_id)):
            if at in answers:
                answer = answers[at]
                break
            path.append(at)
            if (answer := say(at)) is not None:
                break
        answers.update(dict.fromkeys(path, answer))
        return answer

    def nearest(self, span_id: str, is_wanted: Callable[[str], bool], *, or_self: bool = False) -> str | None:
        """Find the nearest span above one that is wanted."""
        if or_self and is_wanted(span_id):
            return span_id
        at = self._parents[span_id]
        for _ in range(_MAX_DEPTH):
            if at is None or is_wanted(at):
                return at
            at = self._parents[at]
        return None
