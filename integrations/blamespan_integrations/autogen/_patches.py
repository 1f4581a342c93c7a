"""Put wrappers in place, and everything back."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from types import FunctionType
from typing import Any, TypeAlias
from weakref import WeakSet

from blamespan_integrations.subclasses import class_tree, watch_subclasses

__all__ = ["Function", "Patches"]

Function: TypeAlias = Callable[..., Any]  # a method of the framework, of any signature

_ORIGINAL = "_blamespan_original"
_MOST_WRAPPERS = 32
"""Around one method."""


class Patches:
    """What has been replaced where, until `undo()`.

    Attributes:
        active: False once undone. A wrapper that somebody else has wrapped in the meantime cannot be
            taken out; it looks here and steps aside.
    """

    def __init__(self) -> None:
        self.active = True
        self._undo: list[Callable[[], None]] = []
        self._renew: list[Callable[[], None]] = []

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set attribute *name* of a class or module; leave it alone where it does not exist."""
        if name not in vars(owner):
            return
        original = vars(owner)[name]

        def restore() -> None:
            if vars(owner).get(name) is value:
                setattr(owner, name, original)

        setattr(owner, name, value)
        self._undo.append(restore)

    def wrap(self, owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
        """Set attribute *name* of a class to what *wrapper* makes of it; leave it alone where it does not exist."""
        made: list[object] = []

        def put() -> None:
            found = vars(owner).get(name)
            if found is not None and not _holds(found, made):
                made.append(wrapper(found))
                self.replace(owner, name, made[-1])

        put()
        self._renew.append(put)

    def cover(
        self,
        root: type,
        wrappers: Mapping[str, Callable[[Function], Function]],
        *,
        leave_out: frozenset[type] = frozenset(),
    ) -> None:
        """Wrap methods in *root* and in every class below it, those still to be defined included.

        Args:
            root: Where the methods are declared. Abstract ones are left alone.
            wrappers: Method name to what makes the wrapper of an original.
            leave_out: Classes whose own methods stay as they are.
        """
        covered: WeakSet[type] = WeakSet()
        made: WeakSet[Any] = WeakSet()

        def cover_class(found: type) -> None:
            if self.active and found not in leave_out:
                covered.add(found)
                lost = {name: wrapper for name, wrapper in wrappers.items() if not _holds(vars(found).get(name), made)}
                made.update(_wrap_methods(found, lost))

        def cover_all() -> None:
            for found in class_tree(root):
                cover_class(found)

        cover_all()
        self._renew.append(cover_all)
        self._undo.append(watch_subclasses(root, cover_class, who="autogen"))
        self._undo.append(lambda: _unwrap_methods(covered, tuple(wrappers)))

    def renew(self) -> None:
        """Put back what another instrumentation, on leaving, has replaced by what it once found."""
        if self.active:
            for put in self._renew:
                put()

    def undo(self) -> None:
        """Give everything back as it was."""
        self.active = False
        self._renew.clear()
        while self._undo:
            self._undo.pop()()


def _wrap_methods(found: type, wrappers: Mapping[str, Callable[[Function], Function]]) -> Iterator[Function]:
    for name, wrapper in wrappers.items():
        original = vars(found).get(name)
        while _is_ours(original):  # left behind by a peer that put back what it had found, or copied from a class
            original = getattr(original, _ORIGINAL)
        if not inspect.isfunction(original) or getattr(original, "__isabstractmethod__", False):
            continue
        wrapped = wrapper(_called_with_self(original))
        setattr(wrapped, _ORIGINAL, original)
        setattr(found, name, wrapped)
        yield wrapped


def _holds(method: Any, made: Collection[object]) -> bool:
    """Tell whether *method* is one of *made*, or somebody else's wrapper around one."""
    for _ in range(_MOST_WRAPPERS):
        if isinstance(method, FunctionType | staticmethod) and method in made:
            return True
        method = getattr(method, "__wrapped__", None)
    return False


def _unwrap_methods(classes: WeakSet[type], names: tuple[str, ...]) -> None:
    for found in list(classes):
        for name in names:
            wrapped = vars(found).get(name)
            if _is_ours(wrapped):
                setattr(found, name, getattr(wrapped, _ORIGINAL))


def _is_ours(method: object) -> bool:
    """Tell our wrapper from somebody else's around it, which shows its attributes as its own."""
    return type(method) is FunctionType and hasattr(method, _ORIGINAL)


def _called_with_self(method: Any) -> Function:
    """Make what another instrumentation put in a method's place callable as a plain function is.

    Called as such it would not know its instance: it wants to be looked up on one.
    """
    if type(method) is FunctionType:
        return method

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return method.__get__(args[0], type(args[0]))(*args[1:], **kwargs)

    return call
