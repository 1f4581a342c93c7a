"""Where spans, logs, metrics and verdicts go: what a sink is, and what it can say to a batch.

Undelivered
  TryAgain   it may pass; perhaps after `after_s`
  Doubtful   the sink failed inside: it may pass, or this batch may be what it cannot take
  Oversized   it may pass in smaller pieces
  Refused    it will not pass, however often it is tried
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from blamespan.errors import BlamespanError
from blamespan_collector.wire.outgoing import Kind

PARTIAL = "of a request it took, "
"""Begins the reason of what a sink took in part: it does not say which part, so that to send all doubles some."""


class Undelivered(BlamespanError):
    """A batch did not reach its sink."""


class TryAgain(Undelivered):
    """An attempt failed in a way that may pass, perhaps after `after_s`.

    Attributes:
        after_s: When the sink wants to be asked again; what is too soon, too late or no number is put right.
        is_steady: Whether it may be asked at that pace for ever, as a disk may.
    """

    def __init__(self, reason: str, after_s: float | None = None, *, is_steady: bool = False) -> None:
        super().__init__(reason)
        self.after_s = after_s
        self.is_steady = is_steady


class Doubtful(Undelivered):
    """An attempt failed inside the sink, which may be down, or unable to take this very batch."""


class Oversized(Undelivered):
    """The sink takes no request of this size."""


class Refused(Undelivered):
    """The sink will never take this batch."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a sink says to a batch that it took.

    Attributes:
        cursor: Where the sink is now, to be noted together with the delivery; empty where that means nothing.
        rejected: How many of the batch it will never take. Which ones it does not say, so that none can be sent again.
        reason: Why.
    """

    cursor: str = ""
    rejected: int = 0
    reason: str = ""


class Sink(Protocol):
    """Takes what is in the outbox, in order, one batch at a time for each kind.

    Attributes:
        name: What it is, for people and as its name in the outbox: no credentials.
        kinds: What it takes.
        max_bytes: How much at once; one row may be larger.
        turn: Held while a batch is sent and noted; a lock where kinds must not mix.
    """

    name: str
    kinds: frozenset[Kind]
    max_bytes: int
    turn: AbstractAsyncContextManager[object, bool | None]

    def resume(self, cursors: Mapping[Kind, tuple[str, Sequence[bytes]]]) -> None:
        """Go on where the last process ended.

        Args:
            cursors: Per kind the place `send` gave for the last batch that was noted as delivered, empty at first; and
                the next payloads, some of which may have been sent without being noted.
        """
        ...

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """Deliver payloads, in order.

        Raises:
            Undelivered: if they were not. Any other exception counts as this batch's fault: its rows are tried alone,
                and those that raise are set aside.
        """
        ...

    async def close(self) -> None:
        """Let go of files and connections."""
        ...


class Stateless:
    """A sink that needs to remember nothing."""

    turn: AbstractAsyncContextManager[object, bool | None] = nullcontext()

    def resume(self, cursors: Mapping[Kind, tuple[str, Sequence[bytes]]]) -> None:
        """Go on; what was sent without being noted is sent again, as the same bytes."""


class Local:
    """A sink on our own disk or pipe: what it took it has, so that nothing is kept to be sent to it again."""


class Remote(Stateless):
    """A sink behind an address, which can be asked whether it is there."""

    name: str
    kinds: frozenset[Kind]
    max_bytes: int

    def addresses(self) -> dict[Kind, str]:
        """Return where each kind goes, without credentials."""
        raise NotImplementedError

    async def probe(self, kind: Kind) -> str:
        """Ask it, without giving it anything, and return what it answered.

        Raises:
            Undelivered: if it would not take this kind now.
        """
        raise NotImplementedError

    async def send(self, kind: Kind, payloads: Sequence[bytes]) -> Receipt:
        """As `Sink.send`."""
        raise NotImplementedError

    async def close(self) -> None:
        """As `Sink.close`."""
        raise NotImplementedError
