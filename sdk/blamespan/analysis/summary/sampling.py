"""A sample of failures that does not depend on the order they come in, nor on how they are spread over files."""

from __future__ import annotations

import heapq
from hashlib import blake2b

from blamespan.analysis.summary.facts import Fact


class Sample:
    """Keeps the failures whose ids hash lowest: an even sample, and all of them while they are few.

    Args:
        most: How many are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._heap: list[tuple[int, str]] = []  # the highest hash first: negated
        self._facts: dict[tuple[int, str], Fact] = {}
        self._again: dict[tuple[int, str], int] = {}
        self.seen = 0

    def add(self, fact: Fact) -> None:
        """Take notice of a failure."""
        self.seen += 1
        key = _key(fact)
        if len(self._heap) >= self._most and key < self._heap[0]:
            return
        if key in self._facts:
            self._again[key] = self._again.get(key, 0) + 1
            self._facts[key] = min(self._facts[key], fact, key=lambda other: (other.source, other.text))
            return
        self._facts[key] = fact
        heapq.heappush(self._heap, key)
        if len(self._heap) > self._most:
            gone = heapq.heappop(self._heap)
            del self._facts[gone]
            self._again.pop(gone, None)

    @property
    def facts(self) -> list[Fact]:
        """What was kept, in an order of its own that looks random and is always the same."""
        return [self._facts[key] for key in sorted(self._facts, reverse=True)]

    @property
    def repeated(self) -> int:
        """How many of those that were kept came more than once."""
        return len(self._again)


def _key(fact: Fact) -> tuple[int, str]:
    name = f"{fact.trace_id} {fact.span_id}"
    digest = blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()
    return -int.from_bytes(digest, "big"), name
