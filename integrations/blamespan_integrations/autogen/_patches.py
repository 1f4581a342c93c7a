"""Put wrappers in place, and everything back."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice, pairwise
from types import FunctionType
from typing import Any, TypeAlias
from weakref import WeakSet

from blamespan_integrations.autogen._others import after_uninstrument
from blamespan_integrations.subclasses import class_tree, watch_subclasses
from blamespan_integrations.wrappers import exchange, wrappers

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
        self._places: list[tuple[Collection[type], Collection[str]]] = []
        """Where wrappers were put: classes and names of their methods."""
        self._made: WeakSet[Function] = WeakSet()
        self._single: list[tuple[object, object]] = []
        """Wrappers that `wrap` has made, and what they wrap."""
        self._held: dict[tuple[type, str], object] = {}
        """The wrappers of others that ours were within when we left, by class and method."""

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

        def put() -> None:
            found = vars(owner).get(name)
            if found is not None and not self._holds(found):
                ours = wrapper(found)
                if ours is not found:
                    self._single.append((ours, found))
                    setattr(owner, name, ours)

        put()
        self._renew.append(put)
        self._places.append(([owner], [name]))

    def cover(
        self,
        root: type,
        methods: Mapping[str, Callable[[Function], Function]],
        *,
        leave_out: frozenset[type] = frozenset(),
    ) -> None:
        """Wrap methods in *root* and in every class below it, those still to be defined included.

        Args:
            root: Where the methods are declared. Abstract ones are left alone.
            methods: Method name to what makes the wrapper of an original.
            leave_out: Classes whose own methods stay as they are.
        """
        covered: WeakSet[type] = WeakSet()

        def cover_class(found: type) -> None:
            if self.active and found not in leave_out:
                covered.add(found)
                lost = {name: wrapper for name, wrapper in methods.items() if not self._holds(vars(found).get(name))}
                self._made.update(_wrap_methods(found, lost))

        def cover_all() -> None:
            for found in class_tree(root):
                cover_class(found)

        cover_all()
        self._renew.append(cover_all)
        self._undo.append(watch_subclasses(root, cover_class, who="autogen"))
        self._places.append((covered, list(methods)))

    def outlast_others(self) -> None:
        """Put wrappers back that another instrumentation, switched off after us, takes out with its own."""
        self._undo.append(after_uninstrument(self._put_back))

    def undo(self) -> None:
        """Give everything back as it was.

        What another instrumentation has found of ours it puts back when it is switched off: it is taken out then.
        """
        self.active = False
        self._renew.clear()
        while self._undo:
            self._undo.pop()()
        held = [place for place in self._every_place() if self._take_out(*place)]
        if not held:
            return

        def take_out() -> None:
            if not [place for place in held if self._take_out(*place)]:
                end()

        end = after_uninstrument(take_out)

    def _put_back(self) -> None:
        if self.active:
            for put in self._renew:
                put()

    def _every_place(self) -> Iterator[tuple[type, str]]:
        return ((owner, name) for owners, names in self._places for owner in list(owners) for name in names)

    def _take_out(self, owner: type, name: str) -> bool:
        """Take our wrapper out of a method; return whether somebody else found it there, who may put it back."""
        while (original := self._original_of(vars(owner).get(name))) is not None:
            setattr(owner, name, original)
        chain, was_held = list(wrappers(vars(owner).get(name))), (owner, name) in self._held
        for outer, inner in pairwise(chain):
            if (original := self._original_of(inner)) is not None:
                exchange(outer, inner, original)
                self._held[owner, name] = chain[0]
                return True
        return was_held and any(found is self._held[owner, name] for found in chain)

    def _original_of(self, found: object) -> Any:
        """Return what *found* wraps, if it is one of our wrappers; else None."""
        if type(found) is FunctionType and found in self._made:
            return getattr(found, _ORIGINAL)
        return next((original for ours, original in self._single if ours is found), None)

    def _holds(self, method: Any) -> bool:
        """Check whether *method* is one of our wrappers, or somebody else's around one."""
        return any(self._original_of(found) is not None for found in islice(wrappers(method), _MOST_WRAPPERS))


def _wrap_methods(found: type, methods: Mapping[str, Callable[[Function], Function]]) -> Iterator[Function]:
    for name, wrapper in methods.items():
        original = vars(found).get(name)
        while _is_ours(original):  # left behind by a peer that put back what it had found, or copied from a class
            original = getattr(original, _ORIGINAL)
        if not inspect.isfunction(original) or getattr(original, "__isabstractmethod__", False):
            continue
        wrapped = wrapper(_called_with_self(original))
        setattr(wrapped, _ORIGINAL, original)
        setattr(found, name, wrapped)
        yield wrapped


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
