"""What is known of traces that no run here holds together: one that began elsewhere, or agents called by hand."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

from blamespan_integrations.autogen._memory import Memory
from blamespan_integrations.recording.spans import RunState

__all__ = ["Conversation", "Conversations"]

_MOST_CONVERSATIONS = 256
"""Traces whose state is kept."""

_MOST_SAID = 4_096
"""Messages of one such trace that later ones can build on."""


@dataclass(slots=True)
class Conversation:
    """What this process knows of one trace."""

    state: RunState = field(default_factory=RunState)
    memory: Memory = field(default_factory=Memory)


class Conversations:
    """The latest ones, by trace id."""

    def __init__(self) -> None:
        self._found: OrderedDict[int, Conversation] = OrderedDict()

    def of(self, trace_id: int) -> Conversation:
        """Find what is known of a trace; nothing is, of a new one."""
        found = self._found.setdefault(trace_id, Conversation())
        self._found.move_to_end(trace_id)
        while len(self._found) > _MOST_CONVERSATIONS:
            self._found.popitem(last=False)
        while len(found.state.said) > _MOST_SAID:
            found.state.said.pop(next(iter(found.state.said)))
        return found
