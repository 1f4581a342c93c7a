"""Blocking work beside the event loop, in threads that cannot keep the process from ending."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["in_daemon_thread"]

_Result = TypeVar("_Result")


async def in_daemon_thread(work: Callable[[], _Result]) -> _Result:
    """Run *work* in a thread of its own and wait for it.

    Unlike `asyncio.to_thread`, whoever stops waiting can leave: the interpreter does not join the thread
    at its end. For work that may hang, like a model or a pipe that nobody reads.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_Result] = loop.create_future()

    def settle(result: _Result | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # None only where work gives None

    def run() -> None:
        try:
            outcome: tuple[_Result | None, BaseException | None] = (work(), None)
        except BaseException as error:
            outcome = (None, error)
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *outcome)

    threading.Thread(target=run, name="blamespan-work", daemon=True).start()
    return await done
