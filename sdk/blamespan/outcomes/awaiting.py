"""Which asyncio tasks wait for the code that runs now: whoever awaits a run may be asked about it.

asyncio keeps this in private attributes of its futures, and offers it to nobody before Python 3.14. Everything here
is read, never changed; what a future release keeps elsewhere is not found, and callers then know less.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future as ThreadFuture
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Final

_MOST_FUTURES: Final = 64
_MOST_FRAMES: Final = 400
_FUTURE_OF = {
    "concurrent.futures.thread": ("self", "future"),
    "anyio._backends._asyncio": ("future", None),
    "anyio.from_thread": ("future", None),
}
"""Where the future is of what another thread asked for: the module, the local variable, its attribute."""
_LOOP_MODULES = ("asyncio.events", "asyncio.base_events")
_ENDS_OF_LOOPS = ("_run_until_complete_cb", "done_cb")
"""Names of the callbacks by which asyncio and uvloop end a loop that runs for one task alone."""


@dataclass(frozen=True, slots=True)
class Awaiters:
    """Who waits for the code that runs now.

    Attributes:
        task: The asyncio task that this is, or None.
        tasks: That task, and the tasks that wait for it, directly or through others, nearest first. A task that will
            await it later is not among them.
        is_for_thread: Whether it was handed over by another thread, and no task is known to wait for it.
    """

    task: asyncio.Task[Any] | None
    tasks: Sequence[asyncio.Task[Any]]
    is_for_thread: bool


def current_task() -> asyncio.Task[Any] | None:
    """Return the asyncio task that this is called in, or None."""
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop runs in this thread
        return None


def waiting() -> Awaiters:
    """Return who waits for the code that calls this."""
    task = current_task()
    tasks, is_alone = _waiting_for(task) if task is not None else ([], True)
    item = _work_item(beyond_loop=is_alone)
    others = _waiting_for(item)[0] if item is not None else []
    return Awaiters(task, [*tasks, *others], item is not None and not others)


def _waiting_for(start: Any) -> tuple[list[asyncio.Task[Any]], bool]:
    """Return the tasks that wait for a future, itself included, and whether its loop runs for it alone."""
    tasks: list[asyncio.Task[Any]] = []
    is_alone = False
    visited: set[int] = set()
    futures = deque([start])
    while futures and len(visited) < _MOST_FUTURES:
        future = futures.popleft()
        if id(future) in visited:
            continue
        visited.add(id(future))
        if isinstance(future, asyncio.Task):
            tasks.append(future)
        for callback in _callbacks(future):
            is_alone = is_alone or getattr(callback, "__name__", "") in _ENDS_OF_LOOPS
            futures.extend(_futures_behind(callback))
    return tasks, is_alone


def _callbacks(future: Any) -> list[Any]:
    if isinstance(future, ThreadFuture):
        return list(getattr(future, "_done_callbacks", ()) or ())
    return [callback for callback, *_ in getattr(future, "_callbacks", ()) or ()]


def _futures_behind(callback: Any) -> Iterator[Any]:
    """Yield the futures that *callback* will complete, and the tasks that it will wake."""
    if isinstance(callback, partial):
        for argument in callback.args:
            yield from _futures_of(argument)
        callback = callback.func
    yield from _futures_of(getattr(callback, "__self__", None))
    for cell in getattr(callback, "__closure__", None) or ():
        try:
            content = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        yield from _futures_of(content)


def _futures_of(owner: Any) -> Iterator[Any]:
    if isinstance(owner, asyncio.Future | ThreadFuture):
        yield owner
    elif isinstance(owner, asyncio.Queue):  # what `as_completed` reads from
        yield from list(getattr(owner, "_getters", ()))
    elif owner is not None:
        scope = getattr(owner, "cancel_scope", None)  # a task group: asyncio's, or anyio's
        parent = getattr(owner, "_parent_task", None) or getattr(scope, "_host_task", None)
        if isinstance(parent, asyncio.Task):
            yield parent


def _work_item(*, beyond_loop: bool) -> Any:
    """Return the future of what another thread asked this one for, or None.

    Args:
        beyond_loop: Whether what called the event loop counts, rather than this task alone.
    """
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_MOST_FRAMES):
        if frame is None:
            return None
        module = frame.f_globals.get("__name__", "")
        if module in _LOOP_MODULES and not beyond_loop:
            return None
        variable, attribute = _FUTURE_OF.get(module, (None, None))
        if variable is not None:
            holder = frame.f_locals.get(variable)
            future = getattr(holder, attribute, None) if attribute else holder
            if isinstance(future, asyncio.Future | ThreadFuture):
                return future
        frame = frame.f_back
    return None
