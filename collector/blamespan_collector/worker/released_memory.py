"""What was let go, as the assembler sees it: what is noted on disk, and what is about to be."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from blamespan_collector.assembling.parts import Released
from blamespan_collector.state.state import State

__all__ = ["ReleasedMemory"]


class ReleasedMemory:
    """Answers from what was let go but is not committed yet, then from the state file.

    Args:
        state: The state file.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._fresh: dict[bytes, tuple[Released[int], int]] = {}
        self._looked_up: dict[bytes, Released[int] | None] = {}

    def look_up(self, trace_ids: Collection[bytes]) -> None:
        """Read what is noted of some traces that are about to be asked for; until the next commit."""
        found = self._state.get_all(trace_ids)
        self._looked_up = {trace_id: found.get(trace_id) for trace_id in trace_ids}

    def get(self, trace_id: bytes) -> Released[int] | None:
        """Tell what was let go of a trace; None where nothing was, or it is forgotten."""
        noted = self._looked_up[trace_id] if trace_id in self._looked_up else self._state.get(trace_id)
        fresh = self._fresh.get(trace_id)
        if fresh is None:
            return noted
        return fresh[0] if noted is None else noted.merged(fresh[0])

    def put(self, trace_id: bytes, released: Released[int]) -> None:
        """Note what was let go until `committed` says that it is on disk."""
        known = self._fresh.get(trace_id)
        self._fresh[trace_id] = (released, 1) if known is None else (known[0].merged(released), known[1] + 1)

    def committed(self, trace_ids: Iterable[bytes]) -> None:
        """Forget one `put` for each: it is on disk."""
        self._looked_up = {}
        for trace_id in trace_ids:
            released, count = self._fresh[trace_id]
            if count == 1:
                del self._fresh[trace_id]
            else:
                self._fresh[trace_id] = released, count - 1
