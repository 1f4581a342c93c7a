"""Put wrappers in place, and everything back, also after other instrumentations are switched off."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice, pairwise
from types import FunctionType
from typing import Any, TypeAlias
from weakref import WeakSet

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from blamespan.host_safety import shield_host
from blamespan_integrations.patching import class_tree, exchange, watch_subclasses, wrappers

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
        self._wrapped_methods: list[tuple[Collection[type], Collection[str]]] = []
        """Where wrappers were put: classes and names of their methods."""
        self._wrappers: WeakSet[Function] = WeakSet()
        self._single: list[tuple[object, object]] = []
        """Wrappers that `wrap` has made, and what they wrap."""
        self._others_around: dict[tuple[type, str], object] = {}
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
            method = vars(owner).get(name)
            if method is not None and not self._holds(method):
                ours = wrapper(method)
                if ours is not method and type(ours) is FunctionType:
                    setattr(ours, _ORIGINAL, method)  # where a hook within it that leaves later is exchanged, too
                    self._wrappers.add(ours)
                    setattr(owner, name, ours)
                elif ours is not method:
                    self._single.append((ours, method))
                    setattr(owner, name, ours)

        put()
        self._renew.append(put)
        self._wrapped_methods.append(([owner], [name]))

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

        def cover_class(kind: type) -> None:
            if self.active and kind not in leave_out:
                covered.add(kind)
                lost = {name: wrapper for name, wrapper in methods.items() if not self._holds(vars(kind).get(name))}
                self._wrappers.update(_wrap_methods(kind, lost))

        def cover_all() -> None:
            for kind in class_tree(root):
                cover_class(kind)

        cover_all()
        self._renew.append(cover_all)
        self._undo.append(watch_subclasses(root, cover_class, who="autogen"))
        self._wrapped_methods.append((covered, list(methods)))

    def outlast_others(self) -> None:
        """Put wrappers back that another instrumentation, switched off after us, takes out with its own."""
        self._undo.append(after_uninstrument(self._put_back))

    def undo(self) -> None:
        """Put everything back as it was.

        What another instrumentation has found of ours it puts back when it is switched off: it is taken out then.
        """
        self.active = False
        self._renew.clear()
        while self._undo:
            self._undo.pop()()
        outer_wrapped = [method for method in self._iter_wrapped() if self._take_out(*method)]
        if not outer_wrapped:
            return

        def take_out() -> None:
            if not [method for method in outer_wrapped if self._take_out(*method)]:
                end()

        end = after_uninstrument(take_out)

    def _put_back(self) -> None:
        if self.active:
            for put in self._renew:
                put()

    def _iter_wrapped(self) -> Iterator[tuple[type, str]]:
        return ((owner, name) for owners, names in self._wrapped_methods for owner in list(owners) for name in names)

    def _take_out(self, owner: type, name: str) -> bool:
        """Take our wrapper out of a method; return whether somebody else found it there, who may put it back."""
        while (original := self._original_of(vars(owner).get(name))) is not None:
            setattr(owner, name, original)
        chain, was_held = list(wrappers(vars(owner).get(name))), (owner, name) in self._others_around
        for outer, inner in pairwise(chain):
            if (original := self._original_of(inner)) is not None:
                exchange(outer, inner, original)
                self._others_around[owner, name] = chain[0]
                return True
        return was_held and any(layer is self._others_around[owner, name] for layer in chain)

    def _original_of(self, method: object) -> Any:
        """Return what *method* wraps, if it is one of our wrappers; else None."""
        if type(method) is FunctionType and method in self._wrappers:
            return getattr(method, _ORIGINAL)
        return next((original for ours, original in self._single if ours is method), None)

    def _holds(self, method: Any) -> bool:
        """Check whether *method* is one of our wrappers, or somebody else's around one."""
        return any(self._original_of(layer) is not None for layer in islice(wrappers(method), _MOST_WRAPPERS))


def _wrap_methods(kind: type, methods: Mapping[str, Callable[[Function], Function]]) -> Iterator[Function]:
    for name, wrapper in methods.items():
        original = vars(kind).get(name)
        while _is_ours(original):  # left behind by a peer that put back what it had found, or copied from a class
            original = getattr(original, _ORIGINAL)
        if not inspect.isfunction(original) or getattr(original, "__isabstractmethod__", False):
            continue
        wrapped = wrapper(_as_plain_function(original))
        setattr(wrapped, _ORIGINAL, original)
        setattr(kind, name, wrapped)
        yield wrapped


def _is_ours(method: object) -> bool:
    """Return whether this is our wrapper, not somebody else's around it, which shows its attributes as its own."""
    return type(method) is FunctionType and hasattr(method, _ORIGINAL)


def _as_plain_function(method: Any) -> Function:
    """Make what another instrumentation put in a method's place callable as a plain function is.

    Called as such it would not know its instance: it wants to be looked up on one.
    """
    if type(method) is FunctionType:
        return method

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return method.__get__(args[0], type(args[0]))(*args[1:], **kwargs)

    return call


_listeners: list[Callable[[], None]] = []
_original: Any = None
_ours: Any = None


def after_uninstrument(listener: Callable[[], None]) -> Callable[[], None]:
    """Call *listener* whenever an instrumentation has been switched off; return what ends that."""
    global _original, _ours
    if not _listeners and vars(BaseInstrumentor)["uninstrument"] is not _ours:
        _original = vars(BaseInstrumentor)["uninstrument"]
        _ours = _report_after(_original)
        BaseInstrumentor.uninstrument = _ours
    _listeners.append(listener)

    def end() -> None:
        if listener in _listeners:
            _listeners.remove(listener)
        if not _listeners and vars(BaseInstrumentor)["uninstrument"] is _ours:
            BaseInstrumentor.uninstrument = _original

    return end


def _report_after(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def uninstrument(self: Any, **kwargs: Any) -> Any:
        result = original(self, **kwargs)
        for listener in tuple(_listeners):  # one may end itself
            with shield_host("autogen: go on without another instrumentation"):
                listener()
        return result

    return uninstrument
