"""Tools as objects: which functions are behind one, under which names they go, and which other tools share them.

A tool may be called anything. What it does is what its functions do, so whoever forbids a tool means those. They are
followed as far as the program's own code names them: through wrappers, what is filled in or closed over, globals,
attributes of objects and modules, and what collections hold.
"""

from __future__ import annotations

import gc
import inspect
import sys
import sysconfig
import threading
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Final, TypeAlias

from blamespan.forking import renewed_after_fork

_FUNCTION_KEYS: Final = ("_func", "func", "coroutine", "_function", "fn", "afunc", "__wrapped__")
"""Where tools of AutoGen, LangChain and others keep the function that they call."""
_PART_KEYS: Final = (
    *("bound", "first", "middle", "last", "steps", "steps__"),
    *("branches", "default", "runnable", "mapper"),
)
"""Where chains of LangChain keep what they are made of."""
_NAME_KEYS: Final = ("_name", "name")
_MOST: Final = 20_000
"""Objects looked at behind one tool: one with more cannot be judged."""
_LIBRARIES: Final = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_COLLECTIONS: Final = (list, tuple, set, frozenset, dict, OrderedDict, defaultdict, deque)
_LEAVES: Final = (str, bytes, int, float, complex, bool, type(None))


_Key: TypeAlias = tuple[int, int]
"""A function, and the object that it is a method of or 0."""


class KnownTools:
    """The tools of this process, by the function behind them: two names of one function are two names of one tool."""

    def __init__(self) -> None:
        self._tools: dict[int, weakref.ref[Any]] = {}
        self._kinds: set[type] = set()
        self._renew()
        renewed_after_fork(self, KnownTools._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def add(self, tool: Any) -> None:
        """Remember a tool as long as the program keeps it."""
        key = id(tool)
        try:
            reference = weakref.ref(tool, lambda _: self._tools.pop(key, None))
        except TypeError:  # some objects take no weak references
            return
        with self._lock:
            self._tools[key] = reference

    def watch(self, kind: type) -> None:
        """Remember which class tools are of: hooks call `add` for every one that is made from now on."""
        self._kinds.add(kind)

    def find(self) -> None:
        """Remember the tools that the program made before anybody listened."""
        kinds = _with_subclasses(self._kinds)
        for tool in [item for item in gc.get_objects() if type(item) in kinds]:
            self.add(tool)

    def names_sharing(self, functions: frozenset[_Key]) -> Iterator[str]:
        """Yield the names of the tools behind which there is one of *functions*."""
        with self._lock:
            references = list(self._tools.values())
        for reference in references:
            tool = reference()
            if tool is not None and any(_key(function) in functions for function in _values(tool, _FUNCTION_KEYS)):
                yield from _own_names(tool)


def _with_subclasses(kinds: Iterable[type]) -> set[type]:
    """Return classes and all below them: to look one up costs a process of a million objects less than its bases do."""
    found: set[type] = set()
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        if kind not in found:
            found.add(kind)
            waiting += type.__subclasses__(kind)
    return found


known_tools = KnownTools()
"""Those of this process, while hooks are in place."""


def names_behind(tool: object) -> frozenset[str]:
    """Return every name that what *tool* does goes by: its own, its functions', and those of tools that share them.

    Raises:
        ValueError: if it uses more objects than can be looked at.
    """
    names: set[str] = set()
    functions: set[_Key | None] = set()
    visited: set[tuple[int | _Key | None, frozenset[str]]] = set()
    waiting: list[tuple[Any, frozenset[str]]] = [(tool, frozenset())] if tool is not None else []
    while waiting:
        item, used = waiting.pop()
        # a bound method is a new object each time that it is read: what it binds tells it from others
        visit = (_key(item) if isinstance(item, MethodType) else id(item)), used
        if isinstance(item, _LEAVES) or visit in visited:
            continue
        visited.add(visit)
        if len(visited) > _MOST:
            raise ValueError(f"expected a tool that uses at most {_MOST:,} objects, got {names!r:.80} with more")
        if isinstance(item, FunctionType | MethodType):
            functions.add(_key(item))
            names.update(name for name in (item.__name__,) if name[:1] != "<" and name[:2] != "__")
        elif isinstance(item, BuiltinFunctionType):
            names.add(item.__name__)
        elif not isinstance(item, ModuleType):
            names.update(_own_names(item))
        waiting += _used_by(item, used)
    names.update(known_tools.names_sharing(frozenset(key for key in functions if key is not None)))
    return frozenset(names)


def _key(function: Any) -> _Key | None:
    """Return what tells a function from others; None for one with arguments filled in, which many tools may share."""
    if isinstance(function, MethodType):
        return id(function.__func__), id(function.__self__)
    while isinstance(function, partial) and not (function.args or function.keywords):
        function = function.func
    return None if isinstance(function, partial) else (id(function), 0)


def _used_by(item: Any, used: frozenset[str]) -> Iterable[tuple[Any, frozenset[str]]]:
    """List what an object may call, each with the names that the code which has it reads."""
    if isinstance(item, MethodType):
        # as `self` it is not called itself
        return [(item.__func__, frozenset()), *_attributes(item.__self__, _names_read(item.__func__))]
    if isinstance(item, FunctionType):
        read = _names_read(item)
        return [(value, read) for value in _held_by(item)]
    if isinstance(item, partial):
        return [(value, used) for value in (item.func, *item.args, *item.keywords.values())]
    if isinstance(item, SimpleNamespace):
        return [(value, used) for value in vars(item).values()]
    if type(item) in _COLLECTIONS:
        return [(value, used) for value in (item.values() if isinstance(item, dict) else item)]
    parts = [(value, used) for value in _values(item, (*_FUNCTION_KEYS, *_PART_KEYS))]
    return [*parts, *_attributes(item, used | {"__call__", "__init__"})]


def _held_by(function: FunctionType) -> Iterator[Any]:
    """Yield what a function has at hand: what it wraps, closes over, has as defaults, and the globals that it names."""
    yield getattr(function, "__wrapped__", None)
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # an empty cell
            continue
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    if not _is_library(function.__code__.co_filename):
        for name in _names_in(function.__code__, with_texts=False):
            yield function.__globals__.get(name) or sys.modules.get(name)


def _attributes(item: Any, names: frozenset[str]) -> list[tuple[Any, frozenset[str]]]:
    """List the attributes of an object of the program's own, by name; its methods are bound to it."""
    if isinstance(item, ModuleType):
        is_own = not _is_library(getattr(item, "__file__", None) or "<frozen")
        return [(vars(item).get(name), names) for name in names] if is_own else []
    kind = item if isinstance(item, type) else type(item)
    if _is_library(getattr(sys.modules.get(kind.__module__), "__file__", None) or "<frozen"):
        return []
    return [(_bind(inspect.getattr_static(item, name, None), item), names) for name in names]


def _bind(value: Any, item: Any) -> Any:
    """Return what an attribute of an object gives, without running any code of it."""
    if isinstance(value, staticmethod | classmethod):
        return value.__func__
    if isinstance(value, property | cached_property):
        value = value.fget if isinstance(value, property) else value.func
    if isinstance(value, FunctionType) and not any(value is one for one in _own_dict(item).values()):
        return MethodType(value, item)
    return value.__get__(item) if isinstance(value, MemberDescriptorType) and not isinstance(item, type) else value


def _names_read(function: Any) -> frozenset[str]:
    code = getattr(function, "__code__", None)
    return frozenset(_names_in(code, with_texts=True)) if isinstance(code, CodeType) else frozenset()


def _names_in(code: CodeType, *, with_texts: bool) -> Iterator[str]:
    """Yield the names that code reads, and texts by which it may look for an attribute."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant, with_texts=with_texts)
        elif with_texts and isinstance(constant, str) and constant.isidentifier():
            yield constant


def _is_library(file: str) -> bool:
    return file.startswith((*_LIBRARIES, "<frozen"))


def _own_dict(item: Any) -> dict[str, Any]:
    values = getattr(item, "__dict__", None)
    return values if type(values) is dict else {}


def _values(item: Any, keys: Iterable[str]) -> Iterator[Any]:
    values = _own_dict(item)
    return (values[key] for key in keys if values.get(key) is not None)


def _own_names(item: Any) -> Iterator[str]:
    is_tool = any(callable(value) for value in _values(item, _FUNCTION_KEYS))
    return (name for name in _values(item, _NAME_KEYS) if is_tool and isinstance(name, str) and name)
