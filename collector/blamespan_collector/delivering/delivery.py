"""Carries the outbox to the sinks: one lane per sink and kind, none of which waits for another."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from blamespan.annotate import cut
from blamespan.errors import ConfigError
from blamespan_collector.delivering.outbox import Outbox, OutboxRow, SetAside
from blamespan_collector.delivering.sinks import (
    Doubtful,
    Oversized,
    Receipt,
    Refused,
    Remote,
    Sink,
    TryAgain,
    Undelivered,
)
from blamespan_collector.state.state import StateDamaged
from blamespan_collector.wire.outgoing import Kind
from blamespan_collector.wire.raw_spans import RawSpan, raw_spans, request

_logger = logging.getLogger("blamespan.collector")

_Item = TypeVar("_Item")

_FIRST_DELAY_S = 0.5
_LONGEST_DELAY_S = 8.0
"""So that all goes on within 10 s after a backend is back."""
_LONGEST_ASKED_S = 300.0
"""A sink that asks for more is asked after that: what it said may be an error, and asking costs one request."""
_DOUBTS = 6
"""Attempts, about 15 s, after which a failing batch is suspected rather than its sink."""
_LOOK_EVERY_S = 1.0
_BROKEN_OFF_S = 0.5
"""How long a delivery that is broken off may take to end."""
_REFUSALS = 3
"""Rows refused one after the other before the sink is suspected rather than they."""
_MAX_REASON_BYTES = 2_000
_TELL_EVERY = 16
"""Attempts between two words in the log about a sink that stays away."""


@dataclass(slots=True)
class LaneCounts:
    """What became of what one sink was to get of one kind.

    Attributes:
        delivered: Spans, log records, metrics or verdicts the sink has.
        refused: Those it will not take, set aside.
        waiting: Those it does not have yet.
        failures: Attempts that failed since the last one that did not.
        resending: Those it is to get again.
        resent: Those it got again.
    """

    delivered: int = 0
    refused: int = 0
    waiting: int = 0
    failures: int = 0
    resending: int = 0
    resent: int = 0


class Delivery:
    """Runs the lanes on an event loop in a thread of its own.

    Args:
        open_outbox: Opens the outbox, in that thread.
        sinks: Closed at the end, on that loop.
        is_tight: Tells whether room is short, so that nothing may be kept that is delivered; asked every second.
    """

    def __init__(
        self,
        open_outbox: Callable[[Sequence[Sink]], Outbox],
        sinks: Sequence[Sink],
        is_tight: Callable[[], bool] = lambda: False,
    ) -> None:
        self._open_outbox, self._is_tight = open_outbox, is_tight
        self._sinks = tuple(sinks)
        self.kinds: frozenset[Kind] = frozenset(kind for sink in sinks for kind in sink.kinds)
        """What some sink takes."""
        self.counts: dict[tuple[str, Kind], LaneCounts] = {}
        self.oldest_s: float | None = None
        """Since when (Unix time) the oldest row waits, as last looked at."""
        self.set_aside: dict[Kind, int] = {}
        """What is set aside, by kind, as last looked at."""
        self.kept_bytes = 0
        """What is kept though it was delivered."""
        self.failure: BaseException | None = None
        """What ended the lanes, which nothing should."""
        self._task: asyncio.Task[None] | None = None
        self._lanes: list[_Lane] = []
        self._stopping: asyncio.Event | None = None
        self._started = threading.Event()
        self._looked_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="blamespan-deliver", daemon=True)

    @property
    def standstill_s(self) -> float:
        """For how long the thread has not looked around, as a call in it does not come back; 0 before it does."""
        return 0.0 if self._looked_s is None else max(0.0, time.monotonic() - self._looked_s - _LOOK_EVERY_S)

    def start(self) -> None:
        """Begin to deliver what waits."""
        self._thread.start()
        self._started.wait()

    def wake(self) -> None:
        """Wake the lanes, as there is more in the outbox; from any thread."""
        self._call(self._wake)

    def count_added(self, kind: Kind, spans: int) -> None:
        """Count what was put into the outbox."""
        for (_, of), counts in self.counts.items():
            if of == kind:
                counts.waiting += spans

    def stop(self, within_s: float) -> bool:
        """Deliver what waits, trying no sink again that fails, then end; what is under way after that is broken off.

        Returns:
            Whether everything was delivered.
        """
        self._call(self._stop)
        self._thread.join(within_s)
        is_ended = not self._thread.is_alive()
        if not is_ended and self._task is not None:  # else it delivers beside the next process
            self._call(self._task.cancel)
            self._thread.join(_BROKEN_OFF_S)
        return is_ended and not any(counts.waiting or counts.resending for counts in self.counts.values())

    def _call(self, callback: Callable[[], object]) -> None:
        """Call back on the loop, if it runs; from any thread."""
        if self._task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._task.get_loop().call_soon_threadsafe(callback)

    def _run(self) -> None:
        try:
            asyncio.run(self._deliver())
        except asyncio.CancelledError:  # by `stop`
            pass
        except BaseException as error:
            self.failure = error
            _logger.exception("delivering ended")
        finally:
            self._started.set()

    async def _deliver(self) -> None:
        outbox = self._open_outbox(self._sinks)
        self._stopping = asyncio.Event()
        self._lanes = [_Lane(sink, kind, outbox, self._stopping) for sink in self._sinks for kind in sorted(sink.kinds)]
        self.counts = {(lane.sink.name, lane.kind): lane.counts for lane in self._lanes}
        self._resume(outbox)
        self._task = asyncio.current_task()
        self._started.set()
        watching = asyncio.create_task(self._watch(outbox))
        try:
            async with asyncio.TaskGroup() as group:
                for lane in self._lanes:
                    group.create_task(lane.run())
        finally:
            self._looked_s = None
            watching.cancel()
            with contextlib.suppress(sqlite3.Error):
                self._look(outbox)
            await asyncio.gather(*(sink.close() for sink in self._sinks), return_exceptions=True)
            outbox.close()

    def _resume(self, outbox: Outbox) -> None:
        for lane in self._lanes:
            _, lane.counts.waiting = outbox.waiting(lane.sink.name, lane.kind)
        self._take_resends(outbox)
        for sink in self._sinks:
            cursors = {
                kind: (
                    outbox.cursor(sink.name, kind),
                    [
                        row.payload
                        for row in outbox.next_resend(sink.name, kind, sink.max_bytes)
                        or outbox.next(sink.name, kind, sink.max_bytes)
                    ],
                )
                for kind in sink.kinds
            }
            try:
                sink.resume(cursors)
            except Exception:  # what is sent again may then come twice
                _logger.exception("%s cannot go on where it ended, and begins anew", sink.name)

    async def _watch(self, outbox: Outbox) -> None:
        while True:
            self._looked_s = time.monotonic()
            try:
                self._look(outbox)
                if self._take_resends(outbox):
                    self._wake()
                outbox.prune(is_tight=self._is_tight())
            except (sqlite3.Error, OSError) as error:  # most likely a full disk: in a second there may be room
                _logger.debug("the outbox cannot be looked after now: %s", error)
            except Exception:
                _logger.exception("looking after the outbox broke, and is tried again")
            await asyncio.sleep(_LOOK_EVERY_S)

    def _look(self, outbox: Outbox) -> None:
        self.oldest_s, self.set_aside = outbox.oldest_s(), outbox.set_aside_spans()
        self.kept_bytes = outbox.delivered.size_bytes

    def _take_resends(self, outbox: Outbox) -> bool:
        """Look whether somebody asked to send again. Returns whether somebody did."""
        asked = outbox.take_resends()
        for lane, spans in asked.items():
            if lane in self.counts:
                self.counts[lane].resending = spans
        return bool(asked)

    def _wake(self) -> None:
        for lane in self._lanes:
            lane.changed.set()

    def _stop(self) -> None:
        assert self._stopping is not None
        self._stopping.set()
        self._wake()


@dataclass
class _Lane:
    """One sink, one kind."""

    sink: Sink
    kind: Kind
    outbox: Outbox
    stopping: asyncio.Event
    counts: LaneCounts = field(default_factory=LaneCounts)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    broke: bool = False
    refusals: int = 0
    is_misaddressed: bool = False

    async def run(self) -> None:
        """Deliver until asked to stop and nothing is left, or an attempt fails then.

        A failure of ours ends neither the lane nor the others: what it was about is read again, and tried.
        """
        while True:
            try:
                await self._run()
                return
            except sqlite3.OperationalError as error:  # most likely a full disk: it may have room again
                _logger.error("the outbox cannot be read now, and is tried again: %s", error)
            except (sqlite3.DatabaseError, StateDamaged):
                raise  # the state is damaged: no lane can go on
            except Exception:
                _logger.exception("delivering %s to %s broke, and is tried again", self.kind, self.sink.name)
            if self.stopping.is_set():
                return
            self.counts.failures += 1
            await self._wait(_delay_s(self.counts.failures, None))

    async def _run(self) -> None:
        while True:
            self.changed.clear()
            rows = self.outbox.next_resend(self.sink.name, self.kind, self.sink.max_bytes)
            if not rows:
                self.counts.resending = 0
                rows = self.outbox.next(self.sink.name, self.kind, self.sink.max_bytes)
            if rows and not await self._deliver(rows):
                return
            if not rows:
                if self.outbox.has_losses:
                    self.counts.waiting = 0
                if self.stopping.is_set():
                    return
                await self.changed.wait()

    async def _deliver(self, rows: Sequence[OutboxRow]) -> bool:
        """See rows through. Returns False where the collector stops before."""
        todo = [list(rows)]
        while todo:
            some = todo.pop()
            try:
                async with self.sink.turn:
                    receipt = await self._persist(some, partial(self._send, [row.payload for row in some]))
                    if receipt is None:
                        return False
                    await self._settle(some, _list_rejected(receipt, some), receipt.cursor)
            except (Refused, Oversized) as error:
                if len(some) > 1:
                    todo += _halves(some)
                elif not await self._settle_refused(some[0], error):
                    if self.stopping.is_set():
                        return False
                    todo.append(some)
                continue
            except _Suspected as error:
                if error.following is None:  # the first of them alone, then the others
                    todo += [some[1:], some[:1]]
                    continue
                await self._settle([some[0], error.following], error.refused)
                return True  # what follows is read again
        return True

    async def _settle_refused(self, row: OutboxRow, error: Refused | Oversized) -> bool:
        """Set a row aside, or what of it is too large. Returns False where it must be tried again."""
        if isinstance(error, Oversized):
            return await self._deliver_pieces(row, error)
        if await self._is_refusing_everything(error):
            return False
        await self._settle([row], [SetAside(str(error), row.spans, row.payload)])
        return True

    async def _is_refusing_everything(self, error: Refused) -> bool:
        """Check whether a sink that refused several rows, and none in between, refuses an empty request just the same.

        Then not the rows are at fault, but the address, or what we show there: nothing more is set aside.
        """
        self.refusals += 1
        if self.kind != "traces" or self.refusals <= _REFUSALS or not isinstance(self.sink, Remote):
            return False  # many take no logs or metrics, and those must not fill the disk that spans need
        was_misaddressed = self.is_misaddressed
        try:
            await self.sink.probe(self.kind)
            self.is_misaddressed = False
        except Refused as answer:
            self.is_misaddressed = str(answer) == str(error)
        except Undelivered:  # it cannot even be asked now
            self.is_misaddressed = True
        if not self.is_misaddressed:
            self.refusals = 0
            return was_misaddressed  # the row was refused before that was mended
        self._tell(TryAgain(f"it refuses an empty request, too: {error}. Is the address right? Try it with --check"))
        await self._wait(_delay_s(self.counts.failures, None))
        return True

    async def _deliver_pieces(self, row: OutboxRow, error: Oversized) -> bool:
        """Deliver as much of a row that is too large as the sink takes, and set the rest aside."""
        refused: list[SetAside] = []
        try:
            todo = [list(raw_spans(row.payload))] if self.kind != "verdicts" else [[]]
        except Exception:  # it cannot be cut, whatever it is
            todo = [[]]
        if len(todo[0]) <= 1:
            await self._settle([row], [SetAside(str(error), row.spans, row.payload)])
            return True
        todo = _halves(todo[0])
        while todo:
            spans: list[RawSpan] = todo.pop()
            payload = request(spans)
            try:
                receipt = await self._persist([row], partial(self._send, [payload]))
            except (Refused, Oversized) as reason:
                if len(spans) > 1:
                    todo += _halves(spans)
                else:
                    refused.append(SetAside(str(reason), 1, payload))
                continue
            if receipt is None:
                return False
            refused += _list_rejected(receipt, [OutboxRow(row.row, len(spans), row.queued_s, payload)])
        await self._settle([row], refused)
        return True

    async def _settle(self, rows: Sequence[OutboxRow], refused: Sequence[SetAside], cursor: str | None = None) -> None:
        """Note that the sink has rows, but for what it refused of them."""
        refused = [replace(batch, reason=cut(batch.reason, _MAX_REASON_BYTES)) for batch in refused]
        for batch in refused:
            self.counts.refused += batch.spans
            _logger.error(
                "%s refused %d %s, which are set aside: %s",
                self.sink.name,
                batch.spans,
                "spans" if self.kind == "traces" else self.kind,
                cut(batch.reason, 500),
            )
        cursor = self.outbox.cursor(self.sink.name, self.kind) if cursor is None else cursor
        while True:
            try:
                if rows[-1].origin == "outbox":
                    size_bytes = sum(len(row.payload) for row in rows)
                    self.outbox.advance(self.sink.name, self.kind, rows[-1].row, cursor, refused, size_bytes)
                else:
                    self.outbox.advance_resend(self.sink.name, self.kind, rows, cursor, refused)
                break
            except sqlite3.OperationalError as error:  # most likely a full disk: it may have room again
                _logger.error("what was delivered cannot be noted, and is tried again: %s", error)
                await asyncio.sleep(_FIRST_DELAY_S)
        spans = sum(row.spans for row in rows)
        taken = spans - sum(batch.spans for batch in refused)
        if rows[-1].origin == "outbox":
            self.counts.waiting -= spans
        else:
            self.counts.resending = max(0, self.counts.resending - spans)
            self.counts.resent += taken
        if rows[-1].origin != "delivered":  # else they were counted
            self.counts.delivered += taken

    async def _send(self, payloads: Sequence[bytes]) -> Receipt:
        """Send payloads; what the sink raises that nobody foresaw becomes something that can be acted upon.

        Raises:
            Undelivered: if they were not taken.
        """
        try:
            return await self.sink.send(self.kind, payloads)
        except Undelivered:
            raise
        except ConfigError as error:  # e.g. certificates that are not there now
            raise TryAgain(str(error)) from error
        except (OSError, MemoryError) as error:  # the machine's fault rather than the batch's, but it may be either
            raise Doubtful(_describe(error)) from error
        except Exception as error:
            if not self.broke:
                self.broke = True
                _logger.exception("%s broke on some %s; whose fault it is, is found out", self.sink.name, self.kind)
            raise Refused(f"the sink broke on it: {_describe(error)}") from error

    async def _persist(self, rows: Sequence[OutboxRow], attempt: Callable[[], Awaitable[Receipt]]) -> Receipt | None:
        """Attempt until it works, waiting longer each time; None where the collector stops before.

        Raises:
            Refused: if the sink will not take it.
            Oversized: if it takes no request of this size.
            _Suspected: if the sink fails again and again on several rows, or on this row and takes the next one.
        """
        doubts = 0
        while True:
            is_last = self.stopping.is_set()
            try:
                receipt = await attempt()
            except (TryAgain, Doubtful) as error:
                self._tell(error)
                doubts += isinstance(error, Doubtful)
                if is_last:
                    return None
                if doubts >= _DOUBTS:
                    await self._suspect(rows, error)
                await self._wait(_wait_s(self.counts.failures, error))
                continue
            if self.counts.failures:
                _logger.warning("%s takes %s again", self.sink.name, self.kind)
            self.counts.failures = self.refusals = 0
            return receipt

    async def _suspect(self, rows: Sequence[OutboxRow], error: Undelivered) -> None:
        """Find out whether it is the sink that fails, or this row: does it take the next one?"""
        if len(rows) > 1:
            raise _Suspected(str(error)) from error
        if rows[0].origin == "outbox":
            following = self.outbox.next(self.sink.name, self.kind, 1, after=rows[0].row)
        else:
            following = self.outbox.next_resend(self.sink.name, self.kind, 1, after=rows[0])
        for row in following[:1]:
            try:
                refused = _list_rejected(await self._send([row.payload]), [row])
            except Undelivered:
                return
            try:  # it may have been down, and be back
                refused += _list_rejected(await self._send([rows[0].payload]), rows)
            except Undelivered:
                refused.append(SetAside(str(error), rows[0].spans, rows[0].payload))
            self.counts.failures = 0
            raise _Suspected(str(error), row, refused) from error

    def _tell(self, error: Undelivered) -> None:
        if self.counts.failures % _TELL_EVERY == 0:
            _logger.warning(
                "%s does not take %s now, and is tried until it does: %s",
                self.sink.name,
                self.kind,
                cut(str(error), 500),
            )
        self.counts.failures += 1

    async def _wait(self, wait_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.stopping.wait(), wait_s)


class _Suspected(Exception):
    """Rows may be what the sink fails on.

    Attributes:
        following: The row after them, where the sink took that one.
        refused: What it then refused of both.
    """

    def __init__(self, reason: str, following: OutboxRow | None = None, refused: Sequence[SetAside] = ()) -> None:
        super().__init__(reason)
        self.following = following
        self.refused = refused


def _list_rejected(receipt: Receipt, rows: Sequence[OutboxRow]) -> list[SetAside]:
    """Keep all of a batch of which the sink took only some: which, it does not say."""
    if receipt.rejected <= 0:
        return []
    spans = min(receipt.rejected, sum(row.spans for row in rows))
    return [SetAside(receipt.reason, spans, b"".join([row.payload for row in rows]))]


def _wait_s(failures: int, error: TryAgain | Doubtful) -> float:
    """Return how long to wait after an attempt that failed."""
    if isinstance(error, TryAgain) and error.is_steady and error.after_s is not None:
        return error.after_s
    return _delay_s(failures, error.after_s if isinstance(error, TryAgain) else None)


def _delay_s(failures: int, asked_s: float | None) -> float:
    """Return what was asked for, within bounds: at least our own delay, which grows, at most `_LONGEST_ASKED_S`.

    A backend in trouble that answers `Retry-After: 0` would otherwise get a thousand requests a second.
    """
    own_s = min(_FIRST_DELAY_S * 2.0 ** min(failures - 1, 16), _LONGEST_DELAY_S)
    own_s *= random.uniform(0.5, 1.0)  # noqa: S311  # so that many do not come back at once
    if asked_s is None or not asked_s > own_s:  # nor NaN
        return max(own_s, 0.5 * _FIRST_DELAY_S)
    return min(asked_s, _LONGEST_ASKED_S) * random.uniform(1.0, 1.1)  # noqa: S311  # likewise, and not too early


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _halves(items: list[_Item]) -> list[list[_Item]]:
    """Return the later half first: they are taken from the end."""
    middle = len(items) // 2
    return [items[middle:], items[:middle]]
