"""Tools as objects: which functions are behind one, under which names they go, and which other tools share them.

A tool may be called anything. What it does is what its function does, so whoever forbids a tool means the function.
"""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any, TypeAlias

from blamespan.instrumenting.forking import renewed_after_fork

__all__ = ["KnownTools", "known_tools", "names_behind"]

_FUNCTION_KEYS = ("_func", "func", "coroutine", "_function", "fn")
"""Where tools of AutoGen, LangChain and others keep the function that they call."""
_NAME_KEYS = ("_name", "name")
_MOST = 200
"""Objects looked at behind one tool."""


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
        for item in gc.get_objects():
            if not self._kinds.isdisjoint(type(item).__mro__):
                self.add(item)

    def names_sharing(self, functions: frozenset[_Key]) -> Iterator[str]:
        """Yield the names of the tools behind which there is one of *functions*."""
        with self._lock:
            references = list(self._tools.values())
        for reference in references:
            tool = reference()
            if tool is not None and any(_key(function) in functions for function in _own_functions(tool)):
                yield from _own_names(tool)


known_tools = KnownTools()
"""Those of this process, while hooks are in place."""


def names_behind(tool: object) -> frozenset[str]:
    """Return every name that what *tool* does goes by: its own, its functions', and those of tools that share them.

    Followed are wrappers, partial functions, methods, what a function closes over, and the globals that it uses.
    """
    if tool is None:
        return frozenset()
    names: set[str] = set()
    functions: set[_Key | None] = set()
    visited: set[int] = set()
    waiting: list[Any] = [tool]
    while waiting and len(visited) < _MOST:
        item = waiting.pop()
        if id(item) in visited:
            continue
        visited.add(id(item))
        if isinstance(item, FunctionType):
            functions.add(_key(item))
            names.update(name for name in (item.__name__,) if not name.startswith("<"))
            waiting += _used_by(item)
        elif isinstance(item, BuiltinFunctionType):
            names.add(item.__name__)
        elif isinstance(item, MethodType):
            functions.add(_key(item))
            names.add(item.__func__.__name__)
            waiting += [*_used_by(item.__func__), item.__self__]
        elif isinstance(item, partial):
            names.update(filter(None, (getattr(item.func, "__name__", ""),)))
            waiting += [
                item for value in (item.func, *item.args, *item.keywords.values()) for item in _tool_like(value)
            ]
        else:
            names.update(_own_names(item))
            waiting += _own_functions(item)
    names.update(known_tools.names_sharing(frozenset(key for key in functions if key is not None)))
    return frozenset(names)


def _key(function: Any) -> _Key | None:
    """Return what tells a function from others; None for one with arguments filled in, which many tools may share."""
    if isinstance(function, MethodType):
        return id(function.__func__), id(function.__self__)
    while isinstance(function, partial) and not (function.args or function.keywords):
        function = function.func
    return None if isinstance(function, partial) else (id(function), 0)


def _used_by(function: Any) -> Iterator[Any]:
    """Yield what a function calls, as far as it shows: what it wraps, closes over, and the globals that it names."""
    wrapped = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield wrapped
    if not isinstance(function, FunctionType):
        return
    for cell in function.__closure__ or ():
        try:
            yield from _tool_like(cell.cell_contents)
        except ValueError:  # an empty cell
            continue
    for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        yield from _tool_like(value)
    for name in _global_names(function.__code__):
        yield from _tool_like(function.__globals__.get(name))


def _tool_like(value: Any) -> Iterator[Any]:
    """Yield a value, or what a collection holds, where it may be a tool or its function."""
    items = value if type(value) in (list, tuple, set) else value.values() if type(value) is dict else (value,)
    for item in list(items)[:_MOST]:
        if isinstance(item, FunctionType | MethodType | partial) or _is_tool(item):
            yield item


def _global_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _global_names(constant)


def _is_tool(item: Any) -> bool:
    return (
        not isinstance(item, type) and any(True for _ in _own_functions(item)) and any(True for _ in _own_names(item))
    )


def _own_functions(item: Any) -> Iterator[Any]:
    values = getattr(item, "__dict__", None)
    if type(values) is not dict:
        return
    for key in _FUNCTION_KEYS:
        value = values.get(key)
        if callable(value):
            yield value


def _own_names(item: Any) -> Iterator[str]:
    values = getattr(item, "__dict__", None)
    if type(values) is not dict:
        return
    for key in _NAME_KEYS:
        if isinstance(name := values.get(key), str) and name:
            yield name
