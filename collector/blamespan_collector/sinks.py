"""Where annotated traces go: what a sink is, and how long one keeps trying."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from blamespan.errors import BlamespanError
from blamespan.spans import Span

__all__ = ["Patience", "Sink", "TryAgain", "Undelivered"]

GIVE_UP_S = 300.0
"""How long a batch is tried, counted from its release; then it is dropped and the loss logged. As the
OpenTelemetry Collector's exporters do."""
_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 30.0


class Undelivered(BlamespanError):
    """Spans did not reach a sink and will not be tried again."""

    def __init__(self, reason: str, spans: int) -> None:
        super().__init__(reason)
        self.spans = spans


class TryAgain(BlamespanError):
    """An attempt failed in a way that may pass, perhaps after `after_s`."""

    def __init__(self, reason: str, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.after_s = after_s


class Sink(Protocol):
    """Takes annotated traces."""

    @property
    def name(self) -> str:
        """What it is, for people: no credentials."""
        ...

    async def deliver(self, traces: Sequence[Sequence[Span]], patience: Patience) -> None:
        """Deliver whole traces, in order.

        Raises:
            Undelivered: if spans were given up on; the others are delivered.
        """
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...


class Patience:
    """How long to keep trying: until a time, and once the collector stops, only once more."""

    def __init__(self, stopping: asyncio.Event, give_up_at_s: float) -> None:
        self._stopping = stopping
        self._give_up_at_s = give_up_at_s
        self.is_retrying = False
        """Whether an attempt failed: the time it takes is the sink's, not ours."""

    async def persist(self, attempt: Callable[[], Awaitable[None]], spans: int) -> None:
        """Attempt again after every `TryAgain`, waiting twice as long each time or as long as it asks.

        Args:
            attempt: Sends one batch.
            spans: How many are in it.

        Raises:
            Undelivered: when patience ends; what *attempt* raises otherwise passes.
        """
        delay_s = _FIRST_DELAY_S
        while True:
            is_last = self._stopping.is_set()
            try:
                return await attempt()
            except TryAgain as error:
                wait_s = error.after_s if error.after_s is not None else delay_s * random.uniform(0.8, 1.2)  # noqa: S311
                self.is_retrying = True
                now_s = asyncio.get_running_loop().time()
                if is_last or now_s + wait_s > self._give_up_at_s:
                    raise Undelivered(str(error), spans) from error
            delay_s = min(delay_s * 2, _LONGEST_DELAY_S)
            await self._wait(wait_s)

    async def _wait(self, wait_s: float) -> None:
        try:
            await asyncio.wait_for(self._stopping.wait(), wait_s)
        except TimeoutError:
            return
