"""What patching a framework takes: wrappers and who wraps whom, classes and all below them, modules imported later."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any

import wrapt

from blamespan.forking import renewed_after_fork
from blamespan.host_safety import shield_host

_INIT = "__init_subclass__"


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
    return done


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
