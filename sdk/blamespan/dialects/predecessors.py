"""What each step builds on, where only the clock and the nesting of spans tell.

A step builds on what had ended, at its own level of the nesting, when it began: of that, on whatever nothing else
had followed by then. Where nothing had ended at its level, the level above counts. So a chain gives a chain, a
fan-out gives links to what went before it, and a fan-in gives links to all branches. Where a graph counts its
supersteps they stand for the clock, as quick branches rarely overlap. Where a span says itself whose outcome it took
up, that counts instead.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from blamespan.dialects.reading import SpanReading
from blamespan.dialects.tree import Tree

_MAX_LINKS = 64
"""Most steps one step is said to build on: a wide fan-in is wider only in a hostile trace."""


class Predecessors:
    """Finds the steps that a step builds on.

    Args:
        tree: The trace.
        readings: What its spans say.
        is_step: Tells whether a span is a step.
        holders: Ids of the spans with a step below them.
    """

    def __init__(
        self, tree: Tree, readings: Mapping[str, SpanReading], is_step: Callable[[str], bool], holders: set[str]
    ) -> None:
        self._tree = tree
        self._readings = readings
        self._is_step = is_step
        self._holders = holders
        self._levels: dict[str | None, _Level] = {}
        self._exits: dict[str, tuple[str, ...]] = {}
        self._taken_up: dict[str, Sequence[str] | None] = {}
        self._earlier: dict[str, Sequence[str] | None] = {}

    def of(self, span_id: str) -> Sequence[str]:
        """List the ids of the steps that a step builds on; the answers of its own tools among them."""
        before = self._before(span_id)
        within = self._last_of(span_id) if span_id in self._holders else ()
        return tuple(dict.fromkeys([*before, *within]))[:_MAX_LINKS]

    def of_step(self, span_id: str) -> Sequence[str]:
        """List the ids of the steps whose outcome a step's span, or one around it, says it took up."""
        return self._tree.find_first(span_id, self._find_named, self._taken_up) or ()

    def _before(self, span_id: str) -> Sequence[str]:
        return self._tree.find_first(span_id, self._before_here, self._earlier) or ()

    def _before_here(self, span_id: str) -> Sequence[str] | None:
        """List what a span, taken for itself, says it took up, or what had ended at its level; None for nothing."""
        named = self._find_named(span_id)
        if named is not None:
            return named
        before = self._level(self._tree.parent_id(span_id)).before(span_id)
        return [step for child in before for step in self._end(child)] or self._call_around(span_id)

    def _call_around(self, span_id: str) -> list[str] | None:
        """Return the tool's call right around a span: what is first within a tool builds on it."""
        around = self._tree.parent_id(span_id)
        is_call = around is not None and self._is_step(around) and self._readings[around].role == "tool"
        return [around] if around is not None and is_call else None

    def _find_named(self, span_id: str) -> Sequence[str] | None:
        """List the steps whose outcome a span says it took up, looking through spans without a step.

        None where it does not say so.
        """
        waiting = list(self._causes(span_id))
        if not waiting:
            return None
        predecessors: dict[str, None] = {}
        visited: set[str] = set()
        while waiting and len(visited) < _MAX_LINKS:
            cause = waiting.pop()
            sender = self._tree.nearest(cause, self._may_send, or_self=True) if cause in self._tree.by_id else None
            if sender is None or sender in visited or self._readings[sender].role == "run":
                continue
            visited.add(sender)
            steps = self._end(sender)
            predecessors |= dict.fromkeys(steps)
            waiting += [] if steps else self._causes(sender)
        return list(predecessors) if visited else None

    def _causes(self, span_id: str) -> Sequence[str]:
        return self._readings[span_id].causes if span_id in self._readings else ()

    def _may_send(self, span_id: str) -> bool:
        return span_id in self._readings

    def _end(self, span_id: str) -> Sequence[str]:
        """List the steps that a span ends with."""
        return (span_id,) if self._is_step(span_id) else self._last_of(span_id)

    def _last_of(self, span_id: str) -> Sequence[str]:
        if span_id not in self._exits:
            self._exits[span_id] = ()  # a circle ends here
            last = self._level(span_id).last()
            self._exits[span_id] = tuple(step for child in last for step in self._end(child))[:_MAX_LINKS]
        return self._exits[span_id]

    def _level(self, parent_id: str | None) -> _Level:
        if parent_id not in self._levels:
            members = [c for c in self._tree.children[parent_id] if self._is_step(c) or c in self._holders]
            self._levels[parent_id] = _Level(self._times(members))
        return self._levels[parent_id]

    def _times(self, members: Sequence[str]) -> list[tuple[int, int, str]]:
        """Return when each began and ended: by the graph's count where it counts all of them, else by the clock."""
        counted = [self._readings[m].superstep if m in self._readings else None for m in members]
        if None not in counted:
            return [(2 * step, 2 * step + 1, m) for step, m in zip(counted, members, strict=True) if step is not None]
        spans = [self._tree.by_id[member] for member in members]
        return [(span.start_ns, span.end_ns, span.span_id) for span in spans]


class _Level:
    """The children of one span that are or hold steps, by the time they ended.

    Args:
        times: When each began and ended, with its id.
    """

    def __init__(self, times: Sequence[tuple[int, int, str]]) -> None:
        ordered = sorted(times, key=lambda time: (time[1], time[0]))
        self._ids = [span_id for _, _, span_id in ordered]
        self._ends = [end for _, end, _ in ordered]
        self._starts = [start for start, _, _ in ordered]
        self._start_of = dict(zip(self._ids, self._starts, strict=True))
        self._latest_start = list(accumulate(self._starts, max))

    def before(self, span_id: str) -> list[str]:
        """List what had ended when a child began and nothing had followed by then."""
        if span_id not in self._start_of:
            return []
        ended = bisect_right(self._ends, self._start_of[span_id])
        return [other_id for other_id in self._find_open_ends(ended) if other_id != span_id]

    def last(self) -> list[str]:
        """List what nothing followed."""
        return self._find_open_ends(len(self._ids))

    def _find_open_ends(self, count: int) -> list[str]:
        if not count:
            return []
        latest = self._latest_start[count - 1]
        open_ends: list[str] = []
        for index in range(count - 1, max(-1, count - 1 - _MAX_LINKS), -1):
            if self._ends[index] <= latest and self._starts[index] != latest:
                break
            open_ends.append(self._ids[index])
        return open_ends[::-1]
