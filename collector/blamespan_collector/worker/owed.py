"""Traces that went on before their verdict, and get it when the tracer has time for them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from blamespan_collector.assembling.parts import Part, Released
from blamespan_collector.judging.scorer import Task
from blamespan_collector.state.state import State

__all__ = ["Owed"]

_MOST = 2048
"""Held in memory. What else is owed stands in the state, and is looked up there once these are done."""


class Owed:
    """Lines them up, each trace once: a verdict on all of its spans makes one on fewer of them needless.

    Args:
        state: Knows all that is owed, also across restarts.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._tasks: dict[bytes, Task] = {}
        self._row = 0
        self._has_more = True  # what the last process left
        self._is_short = False

    def __len__(self) -> int:
        return len(self._tasks)

    @property
    def tasks(self) -> Sequence[Task]:
        """List them, in order."""
        return tuple(self._tasks.values())

    def add(self, part: Part[int], attempts: int) -> bool:
        """Line one up, in the place of the one there is on the trace. False where it is left to the state."""
        if len(self._tasks) >= _MOST and part.trace_id not in self._tasks:
            self._is_short = True
            return False
        self._tasks[part.trace_id] = Task(part, math.inf, attempts)
        return True

    def remove(self, tasks: Sequence[Task]) -> None:
        """Take them out of the line."""
        for task in tasks:
            del self._tasks[task.part.trace_id]

    def more(self) -> list[tuple[bytes, Released[int]]]:
        """Look up some of what the state says is owed, once nothing is in line; also what is seen to already."""
        if self._tasks or not (self._has_more or self._is_short):
            return []
        if not self._has_more:  # from the first one again: what was left out may be any
            self._has_more, self._is_short, self._row = True, False, 0
        found = self._state.awaiting(self._row, _MOST)
        self._has_more = len(found) == _MOST
        self._row = found[-1][0] if found else 0
        return [(trace_id, released) for _, trace_id, released in found]
