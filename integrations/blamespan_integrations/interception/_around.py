"""Functions that stand in for a framework's, written once for what is async and for what is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import nullcontext, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

from blamespan_integrations.interception._splice import Function, Make

ValueT = TypeVar("ValueT")


class Original:
    """The function that a hook stands around: the hook asks it alike whether it is async or not.

    Args:
        function: The framework's.
        waits: Whether it is async; else nothing that the hook does may wait for an event loop.
    """

    __slots__ = ("_function", "waits")

    def __init__(self, function: Function, waits: bool) -> None:
        self._function = function
        self.waits = waits

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._function(*args, **kwargs)
        return await result if self.waits else result

    def iterate(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Return what a streaming function yields."""
        source = self._function(*args, **kwargs)
        return aiter(source) if self.waits else _iterate_plain(iter(source))

    async def pause(self, seconds: float) -> None:
        """Wait; without a delay not even for one turn of the loop: answers given side by side keep their order."""
        if seconds and self.waits:
            await asyncio.sleep(seconds)
        elif seconds:
            time.sleep(seconds)  # noqa: ASYNC251 - no loop runs this

    async def call(self, is_slow: bool, call: Callable[..., ValueT], *arguments: Any) -> ValueT:
        """Call what may wait for an endpoint or a person in a thread of its own, and everything else here."""
        return await asyncio.to_thread(call, *arguments) if is_slow and self.waits else call(*arguments)


async def _iterate_plain(source: Iterator[Any]) -> AsyncIterator[Any]:
    try:
        for item in source:
            yield item
    finally:
        close = getattr(source, "close", None)
        if close is not None:
            close()


def around(stand_in: Callable[..., Coroutine[Any, Any, Any]], *, waits: bool = True) -> Make:
    """Write a hook as `put` takes it: *stand_in* gets the `Original` and what that is called with.

    Args:
        stand_in: Async; what it awaits must not wait where *waits* is False.
        waits: Whether the original is async.
    """

    def make(function: Function) -> Function:
        async def waiting(*args: Any, **kwargs: Any) -> Any:
            return await stand_in(Original(function, waits=True), *args, **kwargs)

        def plain(*args: Any, **kwargs: Any) -> Any:
            return _run_now(stand_in(Original(function, waits=False), *args, **kwargs))

        return waiting if waits else plain

    return make


def around_stream(stand_in: Callable[..., AsyncIterator[Any]], *, waits: bool = True) -> Make:
    """Write a hook around a function that streams, as `around`."""

    def make(function: Function) -> Function:
        async def waiting(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            async for item in iterate_within(nullcontext, stand_in(Original(function, waits=True), *args, **kwargs)):
                yield item

        def plain(*args: Any, **kwargs: Any) -> Iterator[Any]:
            items: Any = stand_in(Original(function, waits=False), *args, **kwargs)
            try:
                while True:
                    try:
                        item = _run_now(anext(items))
                    except StopAsyncIteration:
                        return
                    yield item
            finally:
                _run_now(items.aclose())

        return waiting if waits else plain

    return make


def _run_now(awaitable: Any) -> Any:
    """Run a coroutine that waits for nothing."""
    try:
        awaitable.__await__().send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("expected a hook that does not wait, got one that does: report this as a bug")


class within:  # noqa: N801 - reads as a statement: `with within(current_run, scope):`
    """Sets a context variable in a `with` block; never held across a `yield`."""

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: ContextVar[Any], value: object) -> None:
        self._variable, self._value = variable, value

    def __enter__(self) -> None:
        self._token = self._variable.set(self._value)

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):  # closed from another task
            self._variable.reset(self._token)


async def iterate_within(around: Callable[[], Any], source: AsyncIterator[ValueT]) -> AsyncIterator[ValueT]:
    """Read on in *source*, with a context manager that *around* makes, at each step and never across a `yield`."""
    try:
        while True:
            with around():
                try:
                    item = await anext(source)
                except StopAsyncIteration:
                    return
            yield item
    finally:
        close = getattr(source, "aclose", None)
        if close is not None:
            with around():
                await close()
