"""What each agent of a run has already seen, so that its spans hold only what is new.

A graph hands every node the whole state. Writing that on every span makes payload grow with the square of
the run's length. Here a span holds what is new since its agent last spoke, and of that, what other steps of
the run have said only where the agent directly builds on them: everything else stands on the span of the
step that said it. So payload grows linearly, whatever the number of agents.

Time must not grow with the run either: a list that has only grown since its agent last saw it is read from
there on (`SeenList`). Comparing takes no longer than a value's start does, however large the value is, and no
foreign object is asked to compare.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from operator import is_
from typing import Any

from langchain_core.messages import BaseMessage

from blamespan.genai_messages import Message
from blamespan_integrations.langgraph._convert import VALUE, NodeInput, Update
from blamespan_integrations.langgraph._messages import (
    Lost,
    are_messages,
    as_state,
    as_text,
    is_kind_of,
    is_message,
    message_id,
    message_text,
    state_message,
    to_message,
    value_message,
)

_SHORT = 200
"""Characters; shorter texts may be one object by chance, and cost nothing to say twice."""
MANY = 1_024
"""Items; a list that is longer, and no longer the list it was, is taken as a whole."""
_FEW = 64
"""Items; a list that is no longer is compared throughout."""
_MOST_COMPARED = 10_000
"""Values within a value; what lies beyond is further than anything that is recorded of it."""


@dataclass(slots=True)
class SeenList:
    """What was seen of a list.

    Reducers make a new list of the old objects, longer by what is new, at every step; a pydantic state makes
    copies of them. Whether that is what happened is told by comparing at five indices, so the cost does not
    grow with the list; whatever else happened to it (cut, trimmed to a window, sorted, rebuilt), its items
    are compared one by one.

    Attributes:
        items: The list as it was.
        length: How many of them were seen.
    """

    items: Sequence[Any] = ()
    length: int = 0
    _keys: set[Hashable] | None = None
    """All items ever seen, once the list has done anything but grow."""

    def is_continued_by(self, value: Sequence[Any]) -> bool:
        """Return whether *value* is the list as seen, or that and more."""
        items, last = self.items, self.length - 1
        if last < 0:
            return True
        if last >= len(value) or last >= len(items):
            return False
        near, middle = last // 4, last // 2
        if last > _FEW:
            indices: Sequence[int] = (last, 0, middle, near, last - near)
        elif all(map(is_, items, value if len(items) == last + 1 else value[: last + 1])):
            return True
        else:
            indices = range(last, -1, -1)
        for index in indices:
            if items[index] is not value[index] and not are_same(items[index], value[index]):
                return False
        return True

    def fresh(self, value: Sequence[Any], key: Callable[[Any], Hashable], most: int = sys.maxsize) -> list[Any]:
        """List the items not seen before, and remember them.

        Args:
            value: The list as it is now.
            key: By what two items are the same. Short plain values are new wherever the list was rebuilt.
            most: A rebuilt list of more items than this is all new: asking for the key of each takes too long.
        """
        if self.is_continued_by(value):
            items_unseen = list(value[self.length :])
            if self._keys is not None:
                self._keys.update(map(key, items_unseen))
        elif len(value) > most:
            items_unseen = list(value)
        else:
            if self._keys is None:
                self._keys = set(map(key, self.items[max(0, self.length - most) : self.length]))
            items_unseen = [item for item in value if self._is_new(item, key)]
        self.items, self.length = value, len(value)
        return items_unseen

    def _is_new(self, item: Any, key: Callable[[Any], Hashable]) -> bool:
        assert self._keys is not None
        if is_short(item):
            return True
        item_key = key(item)
        is_new = item_key not in self._keys
        self._keys.add(item_key)
        return is_new


def is_short(value: Any) -> bool:
    """Return whether *value* may be the same object as another by chance."""
    return (
        value is None or isinstance(value, (bool, int, float, Enum)) or (isinstance(value, str) and len(value) < _SHORT)
    )


def are_same(seen: Any, value: Any) -> bool:
    """Return whether two values of a state say the same, as far as either is recorded."""
    if seen is value:
        return True
    try:
        return _BoundedComparison().are_same(seen, value)
    except Exception:  # a mapping or model of the program's own may raise anything
        return False


def without(items: list[Any], others: Any) -> list[Any]:
    """Leave out of *items* those that say the same as one of *others*, or as *others* itself."""
    others = others if type(others) is list else [others]
    if not items or not others:
        return items
    if len(items) * len(others) > MANY * _FEW:
        return [] if are_same(items, others) else items
    return [item for item in items if not any(are_same(item, other) for other in others)]


class _BoundedComparison:
    """Compares two values, and no more than `_MOST_COMPARED` within them."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST_COMPARED

    def are_same(self, seen: Any, value: Any) -> bool:
        if seen is value:
            return True
        kind = type(seen)
        if kind is not type(value):
            return False
        if kind in _PLAIN:
            return bool(seen == value)
        self._left -= 1
        if self._left < 0:
            return True
        if kind is list or kind is tuple:
            return self._are_items_same(seen, value)
        if is_kind_of(kind, BaseMessage):
            return seen.id == value.id and message_text(seen) == message_text(value)
        seen, value = as_state(seen), as_state(value)
        if seen is None or value is None or len(seen) != len(value):
            return False
        pairs = zip(islice(seen.items(), self._left), islice(value.items(), self._left), strict=True)
        return all(name == other and self.are_same(first, second) for (name, first), (other, second) in pairs)

    def _are_items_same(self, seen: Sequence[Any], value: Sequence[Any]) -> bool:
        if len(seen) != len(value):
            return False
        most = max(0, self._left)
        if all(map(is_, islice(seen, most), islice(value, most))):
            return len(seen) <= most or seen[-1] is value[-1] or self.are_same(seen[-1], value[-1])
        self._left -= min(len(seen), most)
        return all(
            self.are_same(first, second) for first, second in zip(islice(seen, most), islice(value, most), strict=True)
        )


_PLAIN = frozenset({str, int, float, bool, bytes})


@dataclass(slots=True)
class AgentMemory:
    """What one agent knows."""

    read: dict[str, SeenList] = field(default_factory=dict)
    """The lists of messages in the state, by key, as far as they were found to be that."""
    lists: dict[str, SeenList] = field(default_factory=dict)
    """The lists of the state, by key, as far as the agent was told of them."""
    ids: set[int] = field(default_factory=set)
    """Identities of the messages it was ever given."""
    own_update: Update = field(default_factory=Update)
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
        listed = self.read.get(key)
        if listed is None:
            listed = self.read[key] = SeenList()
        length = listed.length if listed.is_continued_by(value) else 0
        is_all_messages = bool(value) and all(map(is_message, value[length:] if length else value))
        listed.items, listed.length = value, len(value) if is_all_messages else 0
        return is_all_messages


@dataclass(slots=True)
class GraphMemory:
    """The memory of one run; it lives as long as the run.

    Messages count as the same by their id, else by being the same object: the run holds on to them. Branches
    that run at once share it: it locks.
    """

    _of_agent: dict[str, AgentMemory] = field(default_factory=dict)
    _before: set[Hashable] = field(default_factory=set)
    _held_objects: dict[int, Any] = field(default_factory=dict)
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

    def of(self, agent: str) -> AgentMemory:
        """Return what *agent* knows."""
        memory = self._of_agent.get(agent)
        return memory if memory is not None else self._of_agent.setdefault(agent, AgentMemory())

    def select_new(
        self, memory: AgentMemory, node_input: NodeInput, builds_on: Collection[int], lost: Lost | None = None
    ) -> list[Message]:
        """Return what an agent learns from what it is given, and remember that it knows it from now on.

        Args:
            memory: What it knows.
            node_input: The state it is given.
            builds_on: Indices of the steps it builds on.
            lost: Called with what of it could not be written.
        """
        with self._lock:
            own, memory.own_update = memory.own_update, Update()
            messages = self._new_messages(memory, node_input, own.messages)
            changed = self._changes(memory, node_input.rest, own.state) if node_input.rest else None
        new = [to_message(message) for message in messages if self._is_news(message, builds_on)]
        if not changed:
            return new
        unwritten = {key: self._without_elsewhere(value, builds_on) for key, value in changed.items()}
        unwritten = {key: value for key, value in unwritten.items() if not _is_nothing(value)}
        if VALUE in unwritten:
            new.append(value_message("user", unwritten[VALUE], lost))
        elif unwritten:
            new.append(state_message("user", unwritten, lost))
        return new

    def mutations(self, memory: AgentMemory, node_input: NodeInput) -> Update:
        """Return what an agent changed in the state it was given, where it gave back that very object."""
        with self._lock:
            changed = self._changes(memory, node_input.rest, {})
            messages = self._new_messages(memory, node_input, ())
        return Update(messages, {key: value for key, value in changed.items() if not _is_nothing(value)})

    def note_update(self, memory: AgentMemory, update: Update, step: int) -> None:
        """Remember what an agent itself wrote into the state, as step *step* of the run."""
        memory.own_update.messages += update.messages
        for message in update.messages:
            self.note_message(message, step)
        if not update.state:
            return
        memory.own_update.state |= update.state
        for value in update.state.values():
            for item in [value, *value] if type(value) is list and len(value) <= MANY else [value]:
                if not is_short(item):
                    self._authored[id(item)] = step, item
                    self._written[_content_key(item)] = step

    def note_message(self, message: Any, step: int) -> None:
        """Remember that *message* was said by step *step* of the run."""
        self._authored[id(message)] = step, message
        if isinstance(message, (dict, tuple)) or getattr(message, "type", "").endswith("Chunk"):
            self._rewritten[message_text(message)] = step

    def select_unsent(self, agent: str, messages: Sequence[Any]) -> list[Message]:
        """Return which of *messages* the model of *agent* is sent for the first time, and remember them."""
        with self._lock:
            memory = self.of(agent)
            head = next(
                (index for index, message in enumerate(messages) if getattr(message, "type", "") != "system"), 0
            )
            unsent: list[Any] = []
            for message in messages[:head]:  # instructions are often made anew for every call
                instruction = (message.type, message_text(message))
                if instruction not in memory.answered:
                    memory.answered.add(instruction)
                    unsent.append(message)
            for message in memory.sent.fresh(messages[head:] if head else messages, self._sent_key):
                key = self._sent_key(message)
                if key not in memory.answered and key not in self._before:
                    unsent.append(message)
        return [to_message(message) for message in unsent]

    def note_answer(self, agent: str, message: Any) -> None:
        """Remember that the model of *agent* wrote *message* itself."""
        answered = self.of(agent).answered
        answered.add((message.type, message_text(message)))
        if message.id:
            answered.add(message.id)

    def _new_messages(self, memory: AgentMemory, node_input: NodeInput, own: Sequence[Any]) -> list[Any]:
        new: list[Any] = []
        for key, messages in node_input.lists.items():
            listed = memory.lists.get(key)
            is_first = listed is None
            if listed is None:
                listed = memory.lists[key] = SeenList()
            fresh = listed.fresh(messages, self._key)
            memory.ids.update(map(id, fresh))
            if is_first and self._before:
                fresh = [message for message in fresh if self._key(message) not in self._before]
            new += fresh
        if own and new:
            own_keys = {self._key(message) for message in own}
            new = [message for message in new if self._key(message) not in own_keys]
        return new

    def _is_news(self, message: Any, builds_on: Collection[int]) -> bool:
        authored = self._authored.get(id(message))
        step = authored[0] if authored else None
        if step is None and self._rewritten:
            step = self._rewritten.get(message_text(message))
        return step is None or step in builds_on

    def _without_elsewhere(self, value: Any, builds_on: Collection[int]) -> Any:
        """Leave out of a value of the state what stands on the span of an earlier step."""
        if type(value) is list and len(value) <= MANY:
            return [item for item in value if not self._is_elsewhere(item, builds_on)]
        return None if self._is_elsewhere(value, builds_on) else value

    def _is_elsewhere(self, value: Any, builds_on: Collection[int]) -> bool:
        if is_short(value):
            return False
        authored = self._authored.get(id(value))
        step = authored[0] if authored else self._written.get(_content_key(value)) if self._written else None
        return step is not None and step not in builds_on

    def _changes(self, memory: AgentMemory, fields: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = {}
        for key, value in fields.items():
            if type(value) is list:
                fresh = memory.lists.setdefault(key, SeenList()).fresh(value, _content_key, MANY)
                changed[key] = without(fresh, own.get(key))
            elif key not in memory.values or not are_same(memory.values[key], value):
                memory.values[key] = value
                if key not in own or not are_same(own[key], value):
                    changed[key] = value
        return changed

    def _key(self, message: Any) -> Hashable:
        return message_id(message) or self._identity(message)

    def _sent_key(self, message: Any) -> Hashable:
        return getattr(message, "id", None) or (getattr(message, "type", ""), message_text(message))

    def _identity(self, value: Any) -> int:
        self._held_objects[id(value)] = value
        return id(value)


def _is_nothing(value: Any) -> bool:
    return value is None or (type(value) in (str, list) and not value)


def _content_key(value: Any) -> Hashable:
    """Return what two values share that say the same."""
    return value if isinstance(value, str) else hash(as_text(value))
