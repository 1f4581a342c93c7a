"""A runnable that starts, as LangChain's callbacks describe it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Started"]

_STEP_TAG, _PART_TAG = "graph:step:", "seq:step:"


@dataclass(slots=True)  # not frozen: one is made for every runnable, and freezing doubles that cost
class Started:
    """A LangChain run that starts, as callbacks describe it."""

    id: int
    parent_id: int | None
    name: str
    inputs: Any
    tags: Sequence[str]
    metadata: Mapping[str, Any]

    @property
    def place_in_graph(self) -> tuple[int | None, bool]:
        """LangGraph's number of the superstep, if this is a node; and whether it is a part of one, as edges are."""
        is_part = False
        for tag in self.tags:
            if tag.startswith(_STEP_TAG) and (number := tag[len(_STEP_TAG) :]).lstrip("-").isdigit():
                return int(number), False
            is_part = is_part or tag.startswith(_PART_TAG)
        return None, is_part

    @property
    def is_graph(self) -> bool:
        """Return whether this, outside every run we know, is a graph. LangGraph before 1.1 does not say."""
        is_lost = self.parent_id is not None and "langgraph_step" in self.metadata  # its run was never seen
        return "ls_integration" in self.metadata and not is_lost
