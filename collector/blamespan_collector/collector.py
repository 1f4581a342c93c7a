"""Ties receivers, assembler, annotator and sinks together.

receive -> assemble -> annotate (a thread) -> one queue per sink

Everything but reading, annotating and writing runs on one event loop. Where spans come faster than they
can be annotated and written, answers wait: OTLP's exporters send one request at a time, so they slow
down. Memory is bounded twice: what is held until complete by `Limits`, and what is on its way to the
sinks (more than usual when a backend is down) by the same number of bytes; past that, requests are
refused with 503 or UNAVAILABLE, which senders retry.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from blamespan.errors import MalformedSpan
from blamespan.spans import Span
from blamespan.tracers import Tracer
from blamespan_collector.annotator import Annotator
from blamespan_collector.assembler import Assembler, Part
from blamespan_collector.intake import Busy, Encoding, RequestReader
from blamespan_collector.settings import Limits
from blamespan_collector.sinks import GIVE_UP_S, Patience, Sink, Undelivered
from blamespan_collector.threads import in_daemon_thread

__all__ = ["Collector"]

_logger = logging.getLogger("blamespan.collector")

_BATCH_TRACES = 32
"""Traces attributed at once: enough to fill a model's batch, few enough that none waits long."""
_BATCH_BYTES = 16 * 1024 * 1024
_ALLOWED_LAG_S = 0.5
"""How far annotating and writing may be behind before answers wait: stopping has to catch up on it."""
_MAX_WAIT_S = 5.0
"""How long an answer waits at most: exporters give up on a request after 10 s."""
STOP_S = 7.0
"""How long stopping may take, after the 2 s that receivers get: `docker stop` kills after 10 s."""


@dataclass(slots=True)
class _Batch:
    """Annotated traces on their way."""

    traces: list[Sequence[Span]]
    size_bytes: int
    released_s: float
    sinks_left: int

    @property
    def spans(self) -> int:
        return sum(len(spans) for spans in self.traces)


@dataclass(slots=True)
class _Counts:
    requests: int = 0
    requests_refused: int = 0
    spans_received: int = 0
    spans_refused: int = 0
    spans_delivered: int = 0
    spans_lost: int = 0
    released: dict[str, int] = field(default_factory=dict)


class Collector:
    """Takes requests in and sends annotated traces out. Make and use it inside one event loop.

    Args:
        tracer: Gives the verdicts; loaded, when asked for, in the annotating thread.
        sinks: Each gets every trace.
        limits: How long to wait for a trace and how much to hold.
        clock: Seconds that never run backwards.
    """

    def __init__(
        self,
        tracer: Callable[[], Tracer],
        sinks: Sequence[Sink],
        *,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limits = limits or Limits()
        self._sinks = tuple(sinks)
        self._clock = clock
        self._reader = RequestReader()
        self._assembler = Assembler(self._limits)
        self._annotator = Annotator(tracer)
        self._outbox: deque[tuple[Part, float]] = deque()
        self._queues: list[asyncio.Queue[_Batch]] = [asyncio.Queue() for _ in self._sinks]
        self._delivering: dict[Sink, tuple[_Batch, Patience]] = {}
        self._on_its_way_bytes = 0
        self._on_its_way = 0
        self._counts = _Counts()
        self._changed = asyncio.Event()
        self._released = asyncio.Event()
        self._idle = asyncio.Event()
        self._stopping = asyncio.Event()
        self._annotating: asyncio.Timeout | None = None
        self._annotate_until_s: float | None = None
        self._annotating_since_s: float | None = None
        self._workers: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to assemble and deliver."""
        work = [self._watch(), self._annotate(), *map(self._deliver, self._sinks, self._queues)]
        self._workers = [asyncio.create_task(coroutine) for coroutine in work]

    async def take(self, body: bytes, encoding: Encoding) -> ExportTraceServiceResponse:
        """Take in one request; the spans are in memory when this returns.

        Raises:
            MalformedSpan: if it is not an OTLP trace request.
            Busy: if it must be sent again later.
        """
        self._counts.requests += 1
        self._check_room()
        await self._keep_pace()
        try:
            request = await asyncio.to_thread(self._reader.read, body, encoding)
        except MalformedSpan:
            self._counts.requests_refused += 1
            raise
        self._check_room()  # others may have filled it meanwhile
        self._counts.spans_received += len(request.arrivals)
        self._counts.spans_refused += len(request.refused)
        self._release(self._assembler.add(request.arrivals, self._clock()))
        self._changed.set()
        return request.response()

    def counts(self) -> dict[str, int]:
        """Tell what came in, what is held, what went out and what was lost."""
        counts, assembler, annotator = self._counts, self._assembler, self._annotator
        return {
            "requests": counts.requests,
            "requests_refused": counts.requests_refused,
            "spans_received": counts.spans_received,
            "spans_refused": counts.spans_refused,
            "spans_duplicate": assembler.duplicates,
            "traces_held": assembler.held_traces,
            "bytes_held": assembler.held_bytes,
            "bytes_on_their_way": self._on_its_way_bytes,
            **{f"parts_{reason}": number for reason, number in sorted(counts.released.items())},
            "traces_annotated": annotator.traces,
            "traces_not_annotated": annotator.failures,
            "spans_delivered": counts.spans_delivered,
            "spans_lost": counts.spans_lost,
        }

    async def stop(self, within_s: float = STOP_S) -> int:
        """Annotate and deliver what is held, also incomplete traces: nothing more will come. Then stop.

        Stop the receivers first. Every batch gets one last attempt; a tracer that takes longer than half
        of the time is not waited for, and its traces go on without verdicts.

        Returns:
            How many spans did not reach a sink, since the start; each missing delivery counts.
        """
        loop = asyncio.get_running_loop()
        self._stopping.set()
        self._release(self._assembler.flush())
        self._annotate_until_s = loop.time() + within_s / 2
        if self._annotating is not None:
            self._annotating.reschedule(self._annotate_until_s)
        try:
            async with asyncio.timeout(within_s):
                while self._on_its_way:
                    self._idle.clear()
                    await self._idle.wait()
        except TimeoutError:
            self._counts.spans_lost += self._on_its_way
            _logger.error("stopped after %g s with %d deliveries of spans undone", within_s, self._on_its_way)
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        await asyncio.gather(*(sink.close() for sink in self._sinks), return_exceptions=True)
        return self._counts.spans_lost

    def _check_room(self) -> None:
        if self._stopping.is_set():
            raise Busy("the collector is stopping. Send this again")
        if self._on_its_way_bytes > self._limits.max_bytes:
            self._counts.requests_refused += 1
            raise Busy(
                f"{self._on_its_way_bytes} bytes of spans wait for a slow or unreachable backend. Send this again later"
            )

    async def _keep_pace(self) -> None:
        """Wait for half as long as annotating and writing are behind, past what is allowed.

        A wait in proportion settles where as much comes in as goes out; waiting for all of it swings, as
        spans are only seen to be too many a quiet time after they came. A sink that is being tried again
        does not count.
        """
        oldest = [released_s for _, released_s in itertools.islice(self._outbox, 1)]
        oldest += [] if self._annotating_since_s is None else [self._annotating_since_s]
        oldest += [batch.released_s for batch, patience in self._delivering.values() if not patience.is_retrying]
        behind_s = asyncio.get_running_loop().time() - min(oldest) if oldest else 0.0
        if behind_s > _ALLOWED_LAG_S:
            with contextlib.suppress(TimeoutError):
                wait_s = min((behind_s - _ALLOWED_LAG_S) / 2, _MAX_WAIT_S)
                await asyncio.wait_for(self._stopping.wait(), wait_s)

    def _release(self, parts: Sequence[Part]) -> None:
        now_s = asyncio.get_running_loop().time()
        for part in parts:
            self._counts.released[part.reason] = self._counts.released.get(part.reason, 0) + 1
            self._on_its_way_bytes += part.size_bytes
            self._on_its_way += len(part.spans) * len(self._sinks)
            self._outbox.append((part, now_s))
        if parts:
            self._released.set()

    async def _watch(self) -> None:
        """Let traces go when they are due."""
        while True:
            self._changed.clear()
            due_s = self._assembler.next_due_s()
            wait_s = None if due_s is None else max(0.0, due_s - self._clock())
            if wait_s != 0:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._changed.wait(), wait_s)
            self._release(self._assembler.due(self._clock()))
            await asyncio.sleep(0)

    async def _annotate(self) -> None:
        """Take released parts, some at a time, through the annotator to every sink."""
        while True:
            self._released.clear()
            while self._outbox:
                parts, released_s = self._next_parts()
                self._annotating_since_s = released_s
                size_bytes = sum(part.size_bytes for part in parts)
                batch = _Batch(await self._annotated(parts), size_bytes, released_s, len(self._sinks))
                for queue in self._queues:
                    queue.put_nowait(batch)
                self._annotating_since_s = None
            await self._released.wait()

    def _next_parts(self) -> tuple[list[Part], float]:
        parts: list[Part] = []
        released_s = self._outbox[0][1]
        size_bytes = 0
        while self._outbox and len(parts) < _BATCH_TRACES and size_bytes < _BATCH_BYTES:
            part, _ = self._outbox.popleft()
            parts.append(part)
            size_bytes += part.size_bytes
        return parts, released_s

    async def _annotated(self, parts: Sequence[Part]) -> list[Sequence[Span]]:
        try:
            async with asyncio.timeout_at(self._annotate_until_s) as self._annotating:
                return await in_daemon_thread(partial(self._annotator.annotate, parts))
        except TimeoutError:
            _logger.error("%d traces go on without verdicts: the tracer took too long to stop in time", len(parts))
        except Exception:
            _logger.exception("%d traces go on without verdicts", len(parts))
        finally:
            self._annotating = None
        return [part.spans for part in parts]

    async def _deliver(self, sink: Sink, queue: asyncio.Queue[_Batch]) -> None:
        while True:
            batch = await queue.get()
            lost = 0
            patience = Patience(self._stopping, batch.released_s + GIVE_UP_S)
            self._delivering[sink] = batch, patience
            try:
                await sink.deliver(batch.traces, patience)
            except Undelivered as error:
                lost = error.spans
                _logger.error("%d of %d spans did not reach %s: %s", lost, batch.spans, sink.name, error)
            except Exception as error:  # a sink's bug must not stop the others
                lost = batch.spans
                _logger.error("%d spans did not reach %s", lost, sink.name, exc_info=error)
            del self._delivering[sink]
            self._done(batch, lost)

    def _done(self, batch: _Batch, lost: int) -> None:
        self._counts.spans_lost += lost
        self._counts.spans_delivered += batch.spans - lost
        self._on_its_way -= batch.spans
        batch.sinks_left -= 1
        if not batch.sinks_left:
            self._on_its_way_bytes -= batch.size_bytes
        if not self._on_its_way:
            self._idle.set()
