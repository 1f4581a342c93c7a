"""What each agent of a run has already seen, so that its spans hold only what is new.

A graph hands every node the whole state. Writing that on every span makes payload grow with the square of
the run's length. Here a span holds what is new since its agent last spoke, and of that, what other steps of
the run have said only where the agent directly builds on them: everything else stands on the span of the
step that said it. So payload grows linearly, whatever the number of agents.

Time must not grow with the run either: a list that has only grown since its agent last saw it is read from
there on (`_seen.SeenList`).
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blamespan.rebuilding.messages import Message
from blamespan_integrations.langgraph._convert import VALUE, Given, Update
from blamespan_integrations.langgraph._messages import (
    Lost,
    are_messages,
    as_text,
    is_message,
    message_id,
    message_text,
    state_message,
    to_message,
    value_message,
)
from blamespan_integrations.langgraph._seen import MANY, SeenList, are_same, is_short, without

__all__ = ["Memory", "Seen"]


@dataclass(slots=True)
class Seen:
    """What one agent knows."""

    read: dict[str, SeenList] = field(default_factory=dict)
    """The lists of messages in the state, by key, as far as they were found to be that."""
    lists: dict[str, SeenList] = field(default_factory=dict)
    """The lists of the state, by key, as far as the agent was told of them."""
    ids: set[int] = field(default_factory=set)
    """Identities of the messages it was ever given."""
    said: Update = field(default_factory=Update)
    """Its own words since it was last given the state: LangGraph gives a message its id after the node ended."""
    values: dict[str, Any] = field(default_factory=dict)
    """The other values of the state, as it knows them."""
    sent: SeenList = field(default_factory=SeenList)
    """What it has sent to its model."""
    answered: set[Hashable] = field(default_factory=set)
    """What its model has answered, and the instructions it was sent."""

    def are_messages(self, key: str, value: Any) -> bool:
        """Return whether what stands under *key* of the state is messages, reading only what is new in a list."""
        if type(value) is not list:
            return are_messages(value)
        known = self.read.get(key)
        if known is None:
            known = self.read[key] = SeenList()
        length = known.length if known.is_continued_by(value) else 0
        found = bool(value) and all(map(is_message, value[length:] if length else value))
        known.items, known.length = value, len(value) if found else 0
        return found


@dataclass(slots=True)
class Memory:
    """The memory of one run; it lives as long as the run.

    Messages count as the same by their id, else by being the same object: the run holds on to them. Branches
    that run at once share it: it locks.
    """

    _of_agent: dict[str, Seen] = field(default_factory=dict)
    _before: set[Hashable] = field(default_factory=set)
    _kept: dict[int, Any] = field(default_factory=dict)
    """Messages that are known by being the same object."""
    _authored: dict[int, tuple[int, Any]] = field(default_factory=dict)
    """The step that said an object, by the object's identity; and the object, to keep that identity its own."""
    _rewritten: dict[str, int] = field(default_factory=dict)
    """The step that said a text as a dict, tuple or chunk, which LangGraph makes another message of."""
    _written: dict[Hashable, int] = field(default_factory=dict)
    """The step that last wrote a value of the state, by what it says: a pydantic state makes copies of them."""
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def start_after(self, history: Iterable[Any]) -> None:
        """Count messages of earlier runs of this conversation as known to everyone."""
        self._before.update(self._key(message) for message in history)

    def of(self, agent: str) -> Seen:
        """Give what *agent* knows."""
        seen = self._of_agent.get(agent)
        return seen if seen is not None else self._of_agent.setdefault(agent, Seen())

    def news(self, seen: Seen, given: Given, builds_on: Collection[int], lost: Lost | None = None) -> list[Message]:
        """Tell what an agent learns from what it is given, and remember that it knows it from now on.

        Args:
            seen: What it knows.
            given: The state it is given.
            builds_on: Indices of the steps it builds on.
            lost: Told what of it could not be written.
        """
        with self._lock:
            own, seen.said = seen.said, Update()
            messages = self._new_messages(seen, given, own.messages)
            changed = self._changes(seen, given.rest, own.state) if given.rest else None
        found = [to_message(message) for message in messages if self._is_news(message, builds_on)]
        if not changed:
            return found
        told = {key: self._told(value, builds_on) for key, value in changed.items()}
        told = {key: value for key, value in told.items() if not _is_nothing(value)}
        if VALUE in told:
            found.append(value_message("user", told[VALUE], lost))
        elif told:
            found.append(state_message("user", told, lost))
        return found

    def mutations(self, seen: Seen, given: Given) -> Update:
        """Tell what an agent changed in the state it was given, where it gave back that very object."""
        with self._lock:
            changed = self._changes(seen, given.rest, {})
            messages = self._new_messages(seen, given, ())
        return Update(messages, {key: value for key, value in changed.items() if not _is_nothing(value)})

    def has_said(self, seen: Seen, update: Update, step: int) -> None:
        """Remember what an agent itself wrote into the state, as step *step* of the run."""
        seen.said.messages += update.messages
        for message in update.messages:
            self.is_said(message, step)
        if not update.state:
            return
        seen.said.state |= update.state
        for value in update.state.values():
            for item in [value, *value] if type(value) is list and len(value) <= MANY else [value]:
                if not is_short(item):
                    self._authored[id(item)] = step, item
                    self._written[_said(item)] = step

    def is_said(self, message: Any, step: int) -> None:
        """Remember that *message* was said by step *step* of the run."""
        self._authored[id(message)] = step, message
        if isinstance(message, (dict, tuple)) or getattr(message, "type", "").endswith("Chunk"):
            self._rewritten[message_text(message)] = step

    def unsent(self, agent: str, messages: Sequence[Any]) -> list[Message]:
        """Tell which of *messages* the model of *agent* is sent for the first time, and remember them."""
        with self._lock:
            seen = self.of(agent)
            head = next((place for place, one in enumerate(messages) if getattr(one, "type", "") != "system"), 0)
            found: list[Any] = []
            for message in messages[:head]:  # instructions are often made anew for every call
                said = (message.type, message_text(message))
                if said not in seen.answered:
                    seen.answered.add(said)
                    found.append(message)
            for message in seen.sent.fresh(messages[head:] if head else messages, self._sent_key):
                key = self._sent_key(message)
                if key not in seen.answered and key not in self._before:
                    found.append(message)
        return [to_message(message) for message in found]

    def has_answered(self, agent: str, message: Any) -> None:
        """Remember that the model of *agent* wrote *message* itself."""
        answered = self.of(agent).answered
        answered.add((message.type, message_text(message)))
        if message.id:
            answered.add(message.id)

    def _new_messages(self, seen: Seen, given: Given, own: Sequence[Any]) -> list[Any]:
        found: list[Any] = []
        for key, messages in given.lists.items():
            known = seen.lists.get(key)
            is_first = known is None
            if known is None:
                known = seen.lists[key] = SeenList()
            fresh = known.fresh(messages, self._key)
            seen.ids.update(map(id, fresh))
            if is_first and self._before:
                fresh = [message for message in fresh if self._key(message) not in self._before]
            found += fresh
        if own and found:
            said = {self._key(message) for message in own}
            found = [message for message in found if self._key(message) not in said]
        return found

    def _is_news(self, message: Any, builds_on: Collection[int]) -> bool:
        known = self._authored.get(id(message))
        step = known[0] if known else None
        if step is None and self._rewritten:
            step = self._rewritten.get(message_text(message))
        return step is None or step in builds_on

    def _told(self, value: Any, builds_on: Collection[int]) -> Any:
        """Leave out of a value of the state what stands on the span of an earlier step."""
        if type(value) is list and len(value) <= MANY:
            return [item for item in value if not self._is_elsewhere(item, builds_on)]
        return None if self._is_elsewhere(value, builds_on) else value

    def _is_elsewhere(self, value: Any, builds_on: Collection[int]) -> bool:
        if is_short(value):
            return False
        known = self._authored.get(id(value))
        step = known[0] if known else self._written.get(_said(value)) if self._written else None
        return step is not None and step not in builds_on

    def _changes(self, seen: Seen, fields: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for key, value in fields.items():
            if type(value) is list:
                fresh = seen.lists.setdefault(key, SeenList()).fresh(value, _said, MANY)
                changed[key] = without(fresh, own.get(key))
            elif key not in seen.values or not are_same(seen.values[key], value):
                seen.values[key] = value
                if key not in own or not are_same(own[key], value):
                    changed[key] = value
        return changed

    def _key(self, message: Any) -> Hashable:
        return message_id(message) or self._identity(message)

    def _sent_key(self, message: Any) -> Hashable:
        return getattr(message, "id", None) or (getattr(message, "type", ""), message_text(message))

    def _identity(self, value: Any) -> int:
        self._kept[id(value)] = value
        return id(value)


def _is_nothing(value: Any) -> bool:
    return value is None or (type(value) in (str, list) and not value)


def _said(value: Any) -> Hashable:
    """Give what two values share that say the same."""
    return value if isinstance(value, str) else hash(as_text(value))
