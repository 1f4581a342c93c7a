"""A list of a graph's state as somebody has seen it: what of it is new, without reading it all again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

__all__ = ["SeenList", "is_short"]

_SHORT = 200
"""Characters; shorter texts may be one object by chance, and cost nothing to say twice."""


@dataclass(slots=True)
class SeenList:
    """What was seen of a list.

    Reducers make a new list of the old objects, longer by what is new, at every step. Whether that is what
    happened is told by comparing identities at five places, so the cost does not grow with the list; whatever
    else happened to it (cut, trimmed to a window, sorted, rebuilt), its items are compared one by one.

    Attributes:
        items: The list as it was.
        length: How many of them were seen.
    """

    items: Sequence[Any] = ()
    length: int = 0
    _known: set[Hashable] | None = None
    """All items ever seen, once the list has done anything but grow."""

    def is_continued_by(self, value: Sequence[Any]) -> bool:
        """Tell whether *value* is the list as seen, or that and more."""
        items, last = self.items, self.length - 1
        if last < 0:
            return True
        if last >= len(value) or last >= len(items):
            return False
        near, middle = last // 4, last // 2
        far = last - near
        return (
            items[last] is value[last]
            and items[0] is value[0]
            and items[middle] is value[middle]
            and items[near] is value[near]
            and items[far] is value[far]
        )

    def fresh(self, value: Sequence[Any], key: Callable[[Any], Hashable]) -> list[Any]:
        """List the items not seen before, and remember them.

        Args:
            value: The list as it is now.
            key: By what two items are the same. Short plain values are new wherever the list was rebuilt.
        """
        if self.is_continued_by(value):
            found = list(value[self.length :])
            if self._known is not None:
                self._known.update(map(key, found))
        else:
            if self._known is None:
                self._known = set(map(key, self.items[: self.length]))
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
    """Tell whether *value* may be the same object as another by chance."""
    return (
        value is None or isinstance(value, (bool, int, float, Enum)) or (isinstance(value, str) and len(value) < _SHORT)
    )
