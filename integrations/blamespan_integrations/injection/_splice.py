"""Stand inside whatever wraps a method, and leave without a trace.

A fault must be written before the recording sees the text, whichever was switched on first. So a hook goes
where the framework's own function is: into the class, or, where others have wrapped that function already,
into the innermost wrapper's reference to it, as `__wrapped__` shows the way.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import FunctionType
from typing import Any, TypeAlias

from blamespan.guard import guard

__all__ = ["Function", "SplicedHooks", "Splices"]

Function: TypeAlias = Callable[..., Any]  # a function of the framework, of any signature
Make: TypeAlias = Callable[[Function], Function]
"""Makes the hook around an original."""

_INIT = "__init_subclass__"


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
        found = vars(owner).get(name)
        original, holder = _innermost(found)
        if not inspect.isfunction(original) or getattr(original, "__isabstractmethod__", False):
            return
        ours = functools.update_wrapper(make(original), original, updated=())
        if holder is None:
            setattr(owner, name, staticmethod(ours) if isinstance(found, staticmethod) else ours)
        elif not _exchange(holder, original, ours):
            return  # somebody's wrapper that hides what it wraps: better no hook than one outside the recording
        self._placed.append((owner, name, original, ours))

    def cover(self, root: type, makes: Mapping[str, Make], *, leave_out: frozenset[type] = frozenset()) -> None:
        """Put hooks around methods of *root* and of every class below it, those still to be defined included."""

        def cover_class(found: type) -> None:
            if self.active and found not in leave_out:
                for name, make in makes.items():
                    self.put(found, name, make)

        for found in _tree(root):
            cover_class(found)
        self._watch(root, cover_class)

    def undo(self) -> None:
        """Give every original back, wherever it has got to."""
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
                for holder in _wrappers(innermost):
                    _exchange(holder, ours, original)

    def _watch(self, root: type, cover_class: Callable[[type], None]) -> None:
        own: Any = vars(root).get(_INIT)
        above: Any = root

        def __init_subclass__(cls: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it stands in for that
            if own is not None:
                own.__get__(None, cls)(*args, **kwargs)
            else:
                super(above, cls).__init_subclass__(*args, **kwargs)
            with guard("injection: watch a new class"):
                cover_class(cls)

        hook: Any = classmethod(__init_subclass__)

        def restore() -> None:
            outer = vars(root).get(_INIT)
            if outer is not hook:  # wrapped since: that wrapper goes on without us
                _exchange(getattr(outer, "__func__", outer), hook, own)
            elif own is not None:
                setattr(root, _INIT, own)
            else:
                delattr(root, _INIT)

        setattr(root, _INIT, hook)
        self._watches.append(restore)


class SplicedHooks:
    """What the hooks of every framework begin and end with."""

    def __init__(self) -> None:
        self._splices = Splices()

    def remove(self) -> None:
        """Give every original back."""
        self._splices.undo()


def _tree(root: type) -> Iterator[type]:
    seen: set[type] = set()
    waiting = [root]
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            waiting.extend(found.__subclasses__())
            yield found


def _wrappers(found: Any) -> Iterator[Any]:
    """List *found* and what it wraps, outermost first."""
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = getattr(found, "__wrapped__", None)


def _innermost(found: Any) -> tuple[Any, Any]:
    """Give the function that is wrapped by all others, and the one that wraps it."""
    chain = list(_wrappers(found.__func__ if isinstance(found, staticmethod) else found))
    return (chain[-1], chain[-2] if len(chain) >= 2 else None) if chain else (None, None)


def _exchange(holder: Any, old: object, new: object) -> bool:
    """Have a wrapper hold *new* where it holds *old*; gives whether it did anywhere."""
    if type(holder) is not FunctionType:  # wrapt's, which calls what it shows
        if getattr(holder, "__wrapped__", None) is not old:
            return False
        holder.__wrapped__ = new
        return True
    done = False
    for cell in holder.__closure__ or ():
        with suppress(ValueError):  # an empty cell
            if cell.cell_contents is old:
                cell.cell_contents = new
                done = True
    for key, value in list(vars(holder).items()):  # by which a wrapper may give back what it found
        if value is old:
            setattr(holder, key, new)
    return done
