"""Blocking work beside the event loop, in threads that cannot keep the process from ending."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

_Result = TypeVar("_Result")


async def in_daemon_thread(work: Callable[[], _Result]) -> _Result:
    """Run *work* in a thread of its own and wait for it.

    Unlike `asyncio.to_thread`, whoever stops waiting can leave: the interpreter does not join the thread
    at its end. For work that may hang, like a model or a pipe that nobody reads. The work itself goes on: what it
    uses must not be closed under it.

    Raises:
        OSError: if the system gives us no thread.
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
        with suppress(RuntimeError):  # the loop has ended, and nobody waits
            loop.call_soon_threadsafe(settle, *outcome)

    try:
        threading.Thread(target=run, name="blamespan-work", daemon=True).start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, str(error)) from error
    return await done
