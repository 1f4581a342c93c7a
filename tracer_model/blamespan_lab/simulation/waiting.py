"""Ends what waits for nothing: a team whose message was lost may wait for ever for the answer to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

from blamespan_lab.simulation.sandbox import is_trying

__all__ = ["StuckError", "until_stuck"]

_LOOK_S = 0.5
"""How often it is looked at."""

_IDLE_S = 3.0
"""How long a process must do nothing to be waiting for nothing."""

_LEAST_CPU_S = 0.005
"""Processor time that looking itself may cost between two looks."""

_ResultT = TypeVar("_ResultT")


class StuckError(Exception):
    """A run waits for something that will never come."""


async def until_stuck(work: Awaitable[_ResultT], *, idle_s: float = _IDLE_S) -> _ResultT:
    """Await *work*, unless the process does nothing for *idle_s* seconds.

    Simulated agents wait for no network, only for code in the sandbox: a process that uses no processor time has
    nothing left to wake it, however busy the machine is.

    Raises:
        StuckError: then; *work* is cancelled.
    """
    task = asyncio.ensure_future(work)
    used_s, busy_at_s = time.process_time(), time.monotonic()
    while not task.done():
        await asyncio.wait({task}, timeout=_LOOK_S)
        now_s, now_used_s = time.monotonic(), time.process_time()
        if is_trying() or now_used_s - used_s > _LEAST_CPU_S:
            busy_at_s = now_s
        used_s = now_used_s
        if now_s - busy_at_s > idle_s and not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_LOOK_S)
            raise StuckError(f"expected the run to end, got nothing for {idle_s:g} s. A lost message may be the cause")
    return task.result()
