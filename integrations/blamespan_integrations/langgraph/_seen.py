"""What of a graph's state somebody has seen: whether a value is the same, and what of a list is new.

Nothing here takes longer than a value's start does, however large it is, and no foreign object is asked to compare.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from operator import is_
from typing import Any

from langchain_core.messages import BaseMessage

from blamespan_integrations.langgraph._messages import as_state, is_kind_of, message_text

__all__ = ["MANY", "SeenList", "are_same", "is_short", "without"]

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
    copies of them. Whether that is what happened is told by comparing at five places, so the cost does not
    grow with the list; whatever else happened to it (cut, trimmed to a window, sorted, rebuilt), its items
    are compared one by one.

    Attributes:
        items: The list as it was.
        length: How many of them were seen.
    """

    items: Sequence[Any] = ()
    length: int = 0
    _known: set[Hashable] | None = None
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
            places: Sequence[int] = (last, 0, middle, near, last - near)
        elif all(map(is_, items, value if len(items) == last + 1 else value[: last + 1])):
            return True
        else:
            places = range(last, -1, -1)
        for place in places:
            if items[place] is not value[place] and not are_same(items[place], value[place]):
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
            found = list(value[self.length :])
            if self._known is not None:
                self._known.update(map(key, found))
        elif len(value) > most:
            found = list(value)
        else:
            if self._known is None:
                self._known = set(map(key, self.items[max(0, self.length - most) : self.length]))
            found = [item for item in value if self._is_new(item, key)]
        self.items, self.length = value, len(value)
        return found

    def _is_new(self, item: Any, key: Callable[[Any], Hashable]) -> bool:
        assert self._known is not None
        if is_short(item):
            return True
        found = key(item)
        is_new = found not in self._known
        self._known.add(found)
        return is_new


def is_short(value: Any) -> bool:
    """Return whether *value* may be the same object as another by chance."""
    return (
        value is None or isinstance(value, (bool, int, float, Enum)) or (isinstance(value, str) and len(value) < _SHORT)
    )


def are_same(known: Any, value: Any) -> bool:
    """Return whether two values of a state say the same, as far as either is recorded."""
    if known is value:
        return True
    try:
        return _Comparison().are_same(known, value)
    except Exception:  # a mapping or model of the program's own may raise anything
        return False


def without(items: list[Any], others: Any) -> list[Any]:
    """Leave out of *items* those that say the same as one of *others*, or as *others* itself."""
    others = others if type(others) is list else [others]
    if not items or not others:
        return items
    if len(items) * len(others) > MANY * _FEW:
        return [] if are_same(items, others) else items
    return [item for item in items if not any(are_same(item, one) for one in others)]


class _Comparison:
    """Compares two values, and no more than `_MOST_COMPARED` within them."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST_COMPARED

    def are_same(self, known: Any, value: Any) -> bool:
        if known is value:
            return True
        kind = type(known)
        if kind is not type(value):
            return False
        if kind in _PLAIN:
            return bool(known == value)
        self._left -= 1
        if self._left < 0:
            return True
        if kind is list or kind is tuple:
            return self._are_items_same(known, value)
        if is_kind_of(kind, BaseMessage):
            return known.id == value.id and message_text(known) == message_text(value)
        known, value = as_state(known), as_state(value)
        if known is None or value is None or len(known) != len(value):
            return False
        pairs = zip(islice(known.items(), self._left), islice(value.items(), self._left), strict=True)
        return all(name == other and self.are_same(one, two) for (name, one), (other, two) in pairs)

    def _are_items_same(self, known: Sequence[Any], value: Sequence[Any]) -> bool:
        if len(known) != len(value):
            return False
        most = max(0, self._left)
        if all(map(is_, islice(known, most), islice(value, most))):
            return len(known) <= most or known[-1] is value[-1] or self.are_same(known[-1], value[-1])
        self._left -= min(len(known), most)
        return all(self.are_same(one, two) for one, two in zip(islice(known, most), islice(value, most), strict=True))


_PLAIN = frozenset({str, int, float, bool, bytes})
