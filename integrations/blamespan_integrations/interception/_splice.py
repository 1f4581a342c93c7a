"""Stand inside whatever wraps a method, and leave without a trace.

A fault must be written before the recording sees the text, whichever was switched on first. So a hook goes
where the framework's own function is: into the class, or, where others have wrapped that function already,
into the innermost wrapper's reference to it, as `__wrapped__` shows the way.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from blamespan_integrations.patching import class_tree, exchange, innermost, watch_subclasses, wrappers

Function: TypeAlias = Callable[..., Any]  # a function of the framework, of any signature
Make: TypeAlias = Callable[[Function], Function]
"""Makes the hook around an original."""


class Splices:
    """Hooks in place, until `undo()`.

    Attributes:
        active: False once undone: a hook that could not be taken out looks here and steps aside.
    """

    def __init__(self) -> None:
        self.active = True
        self._placed: list[tuple[Any, str, Function, Function]] = []
        self._watches: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, make: Make) -> None:
        """Put a hook around function *name* of a class or module; leave alone what is not there, or abstract."""
        method = vars(owner).get(name)
        original, holder = innermost(method)
        if not inspect.isfunction(original) or getattr(original, "__isabstractmethod__", False):
            return
        ours = functools.update_wrapper(make(original), original, updated=())
        if holder is None:
            setattr(owner, name, staticmethod(ours) if isinstance(method, staticmethod) else ours)
        elif not exchange(holder, original, ours):
            return  # somebody's wrapper that hides what it wraps: better no hook than one outside the recording
        self._placed.append((owner, name, original, ours))

    def cover(self, root: type, makes: Mapping[str, Make], *, leave_out: frozenset[type] = frozenset()) -> None:
        """Put hooks around methods of *root* and of every class below it, those still to be defined included."""

        def cover_class(kind: type) -> None:
            if self.active and kind not in leave_out:
                for name, make in makes.items():
                    self.put(kind, name, make)

        for kind in class_tree(root):
            cover_class(kind)
        self._watches.append(watch_subclasses(root, cover_class, who="injection"))

    def undo(self) -> None:
        """Put every original back, wherever it has got to."""
        self.active = False
        while self._watches:
            self._watches.pop()()
        while self._placed:
            owner, name, original, ours = self._placed.pop()
            outer = vars(owner).get(name)
            innermost = outer.__func__ if isinstance(outer, staticmethod) else outer
            if innermost is ours:
                setattr(owner, name, staticmethod(original) if isinstance(outer, staticmethod) else original)
            else:
                for holder in wrappers(innermost):
                    exchange(holder, ours, original)


class SplicedHooks:
    """What the hooks of every framework begin and end with."""

    def __init__(self) -> None:
        self._splices = Splices()

    def remove(self) -> None:
        """Put every original back."""
        self._splices.undo()
