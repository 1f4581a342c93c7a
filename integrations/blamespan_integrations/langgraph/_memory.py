"""What each agent of a run has already seen, so that its spans hold only what is new.

A graph hands every node the whole state. Writing that on every span makes payload grow with the square of
the run's length. Here a span holds what is new since its agent last spoke, and of that, what other steps of
the run have said only where the agent directly builds on them: everything else stands on the span of the
step that said it. So payload grows linearly, whatever the number of agents.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from blamespan.messages import Message
from blamespan_integrations.langgraph._convert import VALUE, Given, Update
from blamespan_integrations.langgraph._messages import as_text, message_text, to_message

__all__ = ["Memory"]

_SHORT = 200
"""Characters; shorter texts may be one object by chance, and cost nothing to say twice."""


@dataclass(slots=True)
class _Seen:
    """What one agent knows."""

    messages: set[Hashable] = field(default_factory=set)
    said: Update = field(default_factory=Update)
    """Its own words since it was last given the state: LangGraph gives a message its id after the node ended."""
    lengths: dict[str, int] = field(default_factory=dict)
    """How much of each list in the state it knows."""
    values: dict[str, Any] = field(default_factory=dict)
    """The other values of the state, as it knows them."""
    sent: set[Hashable] = field(default_factory=set)
    """What it has sent to its model."""


@dataclass(slots=True)
class Memory:
    """The memory of one run; it lives as long as the run.

    Messages count as the same by their id, else by being the same object: the run holds on to them.
    """

    _of_agent: dict[str, _Seen] = field(default_factory=dict)
    _before: set[Hashable] = field(default_factory=set)
    _kept: dict[int, Any] = field(default_factory=dict)
    """Messages that are known by being the same object."""
    _authored: dict[int, tuple[int, Any]] = field(default_factory=dict)
    """The step that said an object, by the object's identity; and the object, to keep that identity its own."""
    _rewritten: dict[str, int] = field(default_factory=dict)
    """The step that said a text as a dict or tuple, which LangGraph makes a message of."""

    def start_after(self, history: Iterable[Any]) -> None:
        """Count messages of earlier runs of this conversation as known to everyone."""
        self._before.update(self._key(message) for message in history)

    def news(self, agent: str, given: Given, builds_on: Collection[int]) -> list[Message]:
        """Tell what *agent* learns from what it is given, and remember that it knows it from now on.

        Args:
            agent: Whose memory.
            given: The state it is given.
            builds_on: Indices of the steps it builds on.
        """
        seen = self._of_agent.setdefault(agent, _Seen())
        own, seen.said = seen.said, Update()
        seen.messages.update(self._key(message) for message in own.messages)
        messages = self._new_messages(seen, given.messages)
        found = [to_message(message) for message in messages if self._is_news(message, builds_on)]
        changed = self._changes(seen, given.rest, own.state)
        told = {key: self._told(value, builds_on) for key, value in changed.items()}
        told = {key: value for key, value in told.items() if not _is_nothing(value)}
        if told:
            found.append(Message.of_text("user", as_text(told.get(VALUE, told))))
        return found

    def mutations(self, agent: str, given: Given) -> Update:
        """Tell what *agent* changed in the state it was given, where it gave back that very object."""
        seen = self._of_agent.setdefault(agent, _Seen())
        changed = {key: value for key, value in self._changes(seen, given.rest, {}).items() if not _is_nothing(value)}
        return Update(self._new_messages(seen, given.messages), changed)

    def has_said(self, agent: str, update: Update, step: int) -> None:
        """Remember what *agent* itself wrote into the state, as step *step* of the run."""
        said = self._of_agent.setdefault(agent, _Seen()).said
        said.messages += update.messages
        said.state |= update.state
        for message in update.messages:
            self.is_said(message, step)
        for value in update.state.values():
            for item in [value, *value] if isinstance(value, list) else [value]:
                if not _is_short(item):
                    self._authored[id(item)] = step, item

    def is_said(self, message: Any, step: int) -> None:
        """Remember that *message* was said by step *step* of the run."""
        self._authored[id(message)] = step, message
        if isinstance(message, dict | tuple):
            self._rewritten[message_text(message)] = step

    def unsent(self, agent: str, messages: Iterable[Any]) -> list[Message]:
        """Tell which of *messages* the model of *agent* is sent for the first time, and remember them."""
        sent = self._of_agent.setdefault(agent, _Seen()).sent
        found: list[Message] = []
        for message in messages:
            key = getattr(message, "id", None) or (getattr(message, "type", ""), message_text(message))
            if key not in sent and key not in self._before:
                sent.add(key)
                found.append(to_message(message))
        return found

    def has_answered(self, agent: str, message: Any) -> None:
        """Remember that the model of *agent* wrote *message* itself."""
        sent = self._of_agent.setdefault(agent, _Seen()).sent
        sent.update({message.id, (message.type, message_text(message))} - {None})

    def _new_messages(self, seen: _Seen, messages: list[Any]) -> list[Any]:
        found: list[Any] = []
        for message in messages:
            key = self._key(message)
            if key not in seen.messages and key not in self._before:
                seen.messages.add(key)
                found.append(message)
        return found

    def _is_news(self, message: Any, builds_on: Collection[int]) -> bool:
        known = self._authored.get(id(message))
        step = known[0] if known else None
        if step is None and self._rewritten:
            step = self._rewritten.get(message_text(message))
        return step is None or step in builds_on

    def _told(self, value: Any, builds_on: Collection[int]) -> Any:
        """Leave out of a value of the state what stands on the span of an earlier step."""
        if isinstance(value, list):
            return [item for item in value if not self._is_elsewhere(item, builds_on)]
        return None if self._is_elsewhere(value, builds_on) else value

    def _is_elsewhere(self, value: Any, builds_on: Collection[int]) -> bool:
        known = self._authored.get(id(value))
        return known is not None and known[0] not in builds_on

    def _changes(self, seen: _Seen, fields: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for key, value in fields.items():
            if isinstance(value, list):
                known = seen.lengths.get(key, 0)
                fresh = value[known:] if known <= len(value) else value
                seen.lengths[key] = len(value)
                written = own.get(key)
                written = written if isinstance(written, list) else [written]
                changed[key] = [item for item in fresh if not any(item is one for one in written)]
            elif key not in seen.values or not _is_same(seen.values[key], value):
                seen.values[key] = value
                if key not in own or not _is_same(own[key], value):
                    changed[key] = value
        return changed

    def _key(self, message: Any) -> Hashable:
        named = message.get("id") if isinstance(message, dict) else getattr(message, "id", None)
        if isinstance(named, str) and named:
            return named
        self._kept[id(message)] = message
        return id(message)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str | list) and not value)


def _is_short(value: Any) -> bool:
    """Tell whether *value* may be the same object as another by chance."""
    return value is None or isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) < _SHORT)


def _is_same(known: Any, value: Any) -> bool:
    """Compare two values of the state; a foreign object's own comparison is not asked."""
    simple = (str, int, float, bool, type(None))
    return known is value or (isinstance(known, simple) and isinstance(value, simple) and known == value)
