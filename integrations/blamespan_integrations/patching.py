"""What patching a framework takes: wrappers and who wraps whom, classes and all below them, modules imported later.

`Patches` puts wrappers in place, and everything back, also after other instrumentations are switched off.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from itertools import islice, pairwise
from types import FunctionType, ModuleType
from typing import Any, TypeAlias
from weakref import WeakSet

import wrapt
from opentelemetry import context as otel_context
from opentelemetry.context import Context
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from blamespan.forking import renewed_after_fork
from blamespan.host_safety import shield_host

_INIT = "__init_subclass__"
Function: TypeAlias = Callable[..., Any]  # a method of the framework, of any signature

_ORIGINAL = "_blamespan_original"
_MOST_WRAPPERS = 32
"""Around one method."""


def wrappers(function: Any) -> Iterator[Any]:
    """List *function* and what it wraps, outermost first."""
    visited: set[int] = set()
    while function is not None and id(function) not in visited:
        visited.add(id(function))
        yield function
        function = getattr(function, "__wrapped__", None)


def innermost(function: Any) -> tuple[Any, Any]:
    """Return the function that is wrapped by all others, and the one that wraps it."""
    chain = list(wrappers(function.__func__ if isinstance(function, staticmethod) else function))
    return (chain[-1], chain[-2] if len(chain) >= 2 else None) if chain else (None, None)


def exchange(holder: Any, old: object, new: object) -> bool:
    """Have a wrapper hold *new* where it holds *old*; returns whether it did anywhere."""
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
        elif type(value) is staticmethod and value.__func__ is old:
            setattr(holder, key, staticmethod(_function_of(new)))
    return done


def _function_of(method: Any) -> Any:
    """Return the function of a static method, and all else as it is: a proxy of one is somebody's wrapper."""
    return method.__func__ if type(method) is staticmethod else method


def class_tree(root: type) -> Iterator[type]:
    """Yield *root* and every class below it, each once."""
    visited: set[type] = set()
    waiting = [root]
    while waiting:
        kind = waiting.pop()
        if kind not in visited:
            visited.add(kind)
            waiting.extend(kind.__subclasses__())
            yield kind


def watch_subclasses(root: type, on_class: Callable[[type], None], *, who: str) -> Callable[[], None]:
    """Call *on_class* with every class that is defined below *root* from now on.

    Args:
        root: A class that takes attributes.
        on_class: An exception of it is logged, never raised.
        who: Named in that log.

    Returns:
        Puts everything back, also inside wrappers that others have put around it since.
    """
    own: Any = vars(root).get(_INIT)
    above: Any = root

    def __init_subclass__(cls: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807 - it stands in for that
        if own is not None:
            own.__get__(None, cls)(*args, **kwargs)
        else:
            super(above, cls).__init_subclass__(*args, **kwargs)
        with shield_host(f"{who}: watch a new class"):
            on_class(cls)

    hook: Any = classmethod(__init_subclass__)
    vars(__init_subclass__)["__wrapped__"] = getattr(own, "__func__", None)

    def restore() -> None:
        outer = vars(root).get(_INIT)
        if outer is not hook:  # wrapped since: those wrappers go on without us
            for holder in wrappers(getattr(outer, "__func__", outer)):
                exchange(holder, hook, own)
                exchange(holder, hook.__func__, getattr(own, "__func__", None))
        elif own is not None:
            setattr(root, _INIT, own)
        else:
            delattr(root, _INIT)

    setattr(root, _INIT, hook)
    return restore


class AfterImport:
    """Calls something once, as soon as the program has imported a module; at once where it has already.

    Args:
        module: Its full name. All that the call imports of the framework must be loaded by then, or load without it:
            whatever imported the module is half way through itself.
    """

    def __init__(self, module: str) -> None:
        self._module = module
        self._call: Callable[[], None] | None = None
        self._is_registered = False
        self._renew()
        renewed_after_fork(self, AfterImport._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        """Held for a moment only, never while something is imported: that takes locks of its own."""

    def arm(self, call: Callable[[], None]) -> None:
        """Have *call* called, in place of what was to be called before; what it raises goes to who imports."""
        with self._lock:
            self._call = call
            is_known, self._is_registered = self._is_registered, True
        if not is_known:
            wrapt.register_post_import_hook(self._on_import, self._module)
        elif self._module in sys.modules:
            self._on_import(sys.modules[self._module])

    def disarm(self) -> None:
        """Have nothing called."""
        with self._lock:
            self._call = None

    def _on_import(self, _: ModuleType) -> None:
        with self._lock:
            call, self._call = self._call, None
        if call is not None:
            call()


class LateInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # see pyproject: mypy cannot read its module
    """Turns the recording of a framework on once the program has imported it, and off again."""

    _imported: AfterImport
    _restore: Callable[[], None] | None = None

    def _record_later(self, record: Callable[[], Callable[[], None] | None], who: str) -> None:
        """Have *record* called once the framework is there.

        Args:
            record: Turns recording on, and returns what turns it off; None where it has turned nothing on.
            who: Named in the log where *record* raises.
        """

        def turn_on() -> None:
            with shield_host(who):
                self._restore = record()

        self._imported.arm(turn_on)

    def _uninstrument(self, **_: Any) -> None:
        self._imported.disarm()
        restore, self._restore = self._restore, None
        if restore is not None:
            restore()


class attached:  # noqa: N801 - reads as a statement: `with attached(context):`
    """Makes *context* current inside a `with` block; None leaves everything as it is.

    Attributes:
        left: The context that was current when the block ended.
    """

    __slots__ = ("_context", "_token", "left")

    def __init__(self, context: Context | None) -> None:
        self._context = context
        self.left = context

    def __enter__(self) -> attached:
        self._token = otel_context.attach(self._context) if self._context is not None else None
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            self.left = self._token.var.get()
            with suppress(ValueError):  # closed from another task: what was attached there is not ours to take
                self._token.var.reset(self._token)


class Patches:
    """What has been replaced where, until `undo()`.

    Args:
        who: Whose patches they are, for the log.

    Attributes:
        active: False once undone. A wrapper that somebody else has wrapped in the meantime cannot be
            taken out; it looks here and steps aside.
    """

    def __init__(self, who: str) -> None:
        self.active = True
        self._who = who
        self._undo: list[Callable[[], None]] = []
        self._renew: list[Callable[[], None]] = []
        self._wrapped_methods: list[tuple[Collection[type], Collection[str]]] = []
        """Where wrappers were put: classes and names of their methods."""
        self._wrappers: WeakSet[Function] = WeakSet()
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
                if ours is not method:
                    function = _function_of(ours)
                    setattr(function, _ORIGINAL, method)  # where a hook within it that leaves later is exchanged, too
                    self._wrappers.add(function)
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
        self._undo.append(watch_subclasses(root, cover_class, who=self._who))
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
        function = _function_of(method)
        return getattr(function, _ORIGINAL) if type(function) is FunctionType and function in self._wrappers else None

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


def wrap_notice(patches: Patches, what: str, notice: Callable[..., None]) -> Callable[[Function], Function]:
    """Make the wrapper of coroutine functions of which *notice* is told the arguments, before they are called.

    Args:
        patches: Whose wrapper it is.
        what: Named in the log where *notice* raises.
        notice: Is not told while instrumentation is suppressed.
    """
    shield = shield_host(what)

    def wrapper(original: Function) -> Function:
        @functools.wraps(original)
        async def call(*args: Any, **kwargs: Any) -> Any:
            if patches.active and is_instrumentation_enabled():
                with shield:
                    notice(*args, **kwargs)
            return await original(*args, **kwargs)

        return call

    return wrapper


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
            with shield_host("go on without another instrumentation"):
                listener()
        return result

    return uninstrument
