"""The collector inside the watched program: an OpenTelemetry `SpanProcessor` in front of an exporter.

Two daemon threads: one assembles, one loads the tracer, annotates and exports. The program's own threads
only put a reference into a queue.

What ends the program matters. Its own end and an unhandled exception run the SDK's `atexit` hook, which
shuts this processor down and so exports what is held. SIGTERM without a handler, SIGKILL and `os._exit`
run nothing: what is held is lost, as with the SDK's `BatchSpanProcessor`. Turn SIGTERM into `SystemExit`,
or run `blamespan collect`, where that matters; the signals of the program are not ours to take.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from opentelemetry.context import Context
from opentelemetry.instrumentation.utils import suppress_instrumentation
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.util import types

from blamespan import conventions as words
from blamespan.guard import guard
from blamespan.otlp.sdk import span_from_sdk, span_to_sdk
from blamespan.runs import is_step
from blamespan.spans import Span as OurSpan
from blamespan.tracers import DEFAULT_TRACER, Tracer, load_tracer
from blamespan_collector.assembling.assembler import Assembler
from blamespan_collector.assembling.parts import Arrival, Part, RecentTraces
from blamespan_collector.journal.entries import RUN_COMPLETE, STEP, SpanKey
from blamespan_collector.judging.annotator import Annotator, Verdict
from blamespan_collector.settings import Limits

__all__ = ["EmbeddedProcessor"]

_logger = logging.getLogger("blamespan")

_SHUTDOWN_S = 30.0
_BATCH_SPANS = 512
_BATCH_BYTES = 3 * 1024 * 1024
"""Spans and their bytes per export call: as the SDK's own processor, and below gRPC's 4 MiB."""
_BATCH_TRACES = 32
_MAX_TRACES = 10_000
_MAX_BYTES = 128 * 1024 * 1024
"""Held in the program's memory at most, unless told otherwise."""
_TELL_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class _Started:
    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None


@dataclass(frozen=True, slots=True)
class _Flush:
    """Let everything go, then say so; the last one ends the threads."""

    done: threading.Event
    is_last: bool = False


_Result = TypeVar("_Result")
_Inbox: TypeAlias = "queue.SimpleQueue[Span | ReadableSpan | _Started | _Flush]"
_Outbox: TypeAlias = "queue.SimpleQueue[Part[OurSpan] | _Flush | None]"


class EmbeddedProcessor(SpanProcessor):
    """Holds the spans of a trace until all that started have ended, annotates them, exports them once.

    Add it to a `TracerProvider` in place of a `BatchSpanProcessor`. It never raises into the program. What
    is held is bounded by *limits*; past it, and where the exporter cannot keep up, spans go on without a
    verdict, and only where twice that much waits are they dropped, with an error in the log.

    Args:
        exporter: Gets the annotated spans.
        tracer: Gives the verdicts.
        tracer_name: Name of an installed tracer, loaded in the background when the first agent's span
            ends; not together with *tracer*. Where it cannot be loaded, one error is logged and the
            runs' spans say so.
        limits: How long to wait and how much to hold; `BLAMESPAN_QUIET_S` and so on by default. Here a
            trace is complete at once, without a quiet time, unless one is set.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        tracer: Tracer | None = None,
        tracer_name: str = DEFAULT_TRACER,
        limits: Limits | None = None,
    ) -> None:
        self._exporter = exporter
        self._load: Callable[[], Tracer] = (
            (lambda: tracer) if tracer is not None else (lambda: load_tracer(tracer_name))
        )
        self._limits = limits or Limits.of_environment(quiet_s=0.0, max_traces=_MAX_TRACES, max_bytes=_MAX_BYTES)
        self._is_shut_down = False
        self._lock = threading.Lock()
        self._renew()
        if hasattr(os, "register_at_fork"):
            this = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _after_fork(this))

    def _renew(self) -> None:
        """Begin with nothing held and no threads: at first, and in a forked child."""
        self._lock = threading.Lock()
        self._inbox: _Inbox = queue.SimpleQueue()
        self._outbox: _Outbox = queue.SimpleQueue()
        self._worker: _Worker | None = None

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note that a span has begun."""
        with guard("embedded: note a span's start"):
            context = span.get_span_context()
            if context is not None and context.trace_flags.sampled and not self._is_shut_down:
                parent = span.parent.span_id.to_bytes(8, "big") if span.parent else None
                self._put(_Started(context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big"), parent))

    def on_end(self, span: ReadableSpan) -> None:
        """Take an ended span. Only puts it into a queue: also from a finalizer or a signal handler."""
        with guard("embedded: hold a span"):
            context = span.get_span_context()
            if context is not None and context.trace_flags.sampled and not self._is_shut_down:
                self._put(span)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Annotate and export what is held, also traces that are not complete; their later spans get no verdict.

        Returns:
            Whether everything was exported in time.
        """
        with guard("embedded: flush"):
            return self._is_shut_down or self._flush(timeout_millis / 1000, is_last=False)
        return False

    def shutdown(self) -> None:
        """Annotate and export what is held, within 30 s, and shut the exporter down. A second call does nothing."""
        with guard("embedded: shut down"):
            with self._lock:
                if self._is_shut_down:
                    return
                self._is_shut_down = True
            if not self._flush(_SHUTDOWN_S, is_last=True):
                _logger.error("spans were held for more than %g s at shutdown and are lost", _SHUTDOWN_S)
            _attempt("shut down", self._exporter, self._exporter.shutdown)

    def _put(self, item: ReadableSpan | _Started | _Flush) -> None:
        if self._worker is None:
            self._start()
        self._inbox.put(item)  # reentrant, so a span that a finalizer ends cannot deadlock

    def _start(self) -> None:
        if not self._lock.acquire(blocking=False):
            return  # another thread is at it; the item waits in the queue
        try:
            if self._worker is None:
                self._worker = _Worker(self._inbox, self._outbox, self._exporter, Annotator(self._load), self._limits)
        finally:
            self._lock.release()

    def _flush(self, timeout_s: float, *, is_last: bool) -> bool:
        if self._worker is None:
            return True  # nothing ever came
        flush = _Flush(threading.Event(), is_last)
        self._inbox.put(flush)
        return flush.done.wait(timeout_s)


class _Worker:
    """The two threads and what they hold."""

    def __init__(
        self, inbox: _Inbox, outbox: _Outbox, exporter: SpanExporter, annotator: Annotator, limits: Limits
    ) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._exporter = exporter
        self._annotator = annotator
        self._limits = limits
        self._assembler: Assembler[OurSpan] = Assembler(limits, RecentTraces(), sees_starts=True)
        self._waiting_lock = threading.Lock()
        self._waiting_bytes = 0
        self._saw_step = False
        self._dropped = 0
        self._tell_after_s = 0.0
        for name, run in (("blamespan-assemble", self._assemble), ("blamespan-annotate", self._annotate)):
            threading.Thread(target=run, name=name, daemon=True).start()

    def _assemble(self) -> None:
        is_last = False
        while not is_last:
            item = self._next()
            with guard("embedded: assemble spans"):
                now_s = time.monotonic()
                if isinstance(item, _Started):
                    self._release(self._assembler.start(item.trace_id, item.span_id, item.parent_id, now_s))
                elif isinstance(item, ReadableSpan):
                    self._release(self._assembler.add([self._arrival(item)], now_s))
                self._release(self._assembler.due(now_s))
            if isinstance(item, _Flush):
                with guard("embedded: flush spans"):
                    self._release(self._assembler.flush())
                self._outbox.put(item)
                is_last = item.is_last

    def _next(self) -> Span | ReadableSpan | _Started | _Flush | None:
        due_s = self._assembler.next_due_s()
        wait_s = None if due_s is None else due_s - time.monotonic()
        try:
            if wait_s is not None and wait_s <= 0:
                return self._inbox.get_nowait()
            return self._inbox.get(timeout=wait_s)
        except queue.Empty:
            return None

    def _arrival(self, span: ReadableSpan) -> Arrival[OurSpan]:
        ours = span_from_sdk(span)
        if not self._saw_step and is_step(ours):
            self._saw_step = True
            self._outbox.put(None)  # a sign to load the tracer while the run goes on
        return Arrival(bytes.fromhex(ours.trace_id), [_key(ours)], ours, _size_bytes(span))

    def _release(self, parts: Sequence[Part[OurSpan]]) -> None:
        for part in parts:
            with self._waiting_lock:
                is_full = self._waiting_bytes > 2 * self._limits.max_bytes
                if not is_full:
                    self._waiting_bytes += part.size_bytes
            if is_full:
                self._drop(len(part.items))
            else:
                self._outbox.put(part)

    def _drop(self, spans: int) -> None:
        self._dropped += spans
        now_s = time.monotonic()
        if now_s >= self._tell_after_s:  # not for every span: the log must not become the next thing to fill up
            self._tell_after_s = now_s + _TELL_EVERY_S
            _logger.error("%d spans dropped so far: the exporter or the tracer cannot keep up", self._dropped)

    def _annotate(self) -> None:
        is_last = False
        while not is_last:
            parts, other = self._next_parts()
            with guard("embedded: annotate and export"):
                self._export(parts)
            with self._waiting_lock:
                self._waiting_bytes -= sum(part.size_bytes for part in parts)
            if other is None:
                self._annotator.warm_up()
            if isinstance(other, _Flush):
                _attempt("flush", self._exporter, self._exporter.force_flush)
                is_last = other.is_last
                other.done.set()

    def _next_parts(self) -> tuple[list[Part[OurSpan]], Part[OurSpan] | _Flush | None]:
        """Take parts until one batch is full, none is left, or something else comes; give that, too."""
        item = self._outbox.get()
        parts: list[Part[OurSpan]] = []
        while isinstance(item, Part):
            parts.append(item)
            if len(parts) == _BATCH_TRACES:
                break
            try:
                item = self._outbox.get_nowait()
            except queue.Empty:
                break
        return parts, item

    def _export(self, parts: Sequence[Part[OurSpan]]) -> None:
        if not parts:
            return
        # Here nothing is kept to be judged later: what grew too old is judged as far as it came
        chosen = [part for part in parts if part.is_worth_a_verdict or part.reason == "aged"]
        verdicts = dict(zip(map(id, chosen), self._annotator.attribute([part.items for part in chosen]), strict=True))
        spans = [
            span
            for part in parts
            for span in verdicts.get(id(part), Verdict()).on(part.items, is_complete=part.reason == "complete")
        ]
        for batch in _batches(spans):
            with suppress_instrumentation():
                result = _attempt("export to", self._exporter, partial(self._exporter.export, batch))
            if result is not SpanExportResult.SUCCESS:
                _logger.error("%d spans were not taken by %s", len(batch), type(self._exporter).__name__)


def _attempt(what: str, exporter: SpanExporter, call: Callable[[], _Result]) -> _Result | None:
    """Call the exporter, which is other people's code: an error is logged and None given back."""
    try:
        return call()
    except Exception:
        _logger.exception("could not %s %s", what, type(exporter).__name__)
        return None


def _batches(spans: Sequence[OurSpan]) -> Iterator[list[ReadableSpan]]:
    batch: list[ReadableSpan] = []
    size_bytes = 0
    for span in map(span_to_sdk, spans):
        grown_bytes = size_bytes + _size_bytes(span)
        if batch and (len(batch) == _BATCH_SPANS or grown_bytes > _BATCH_BYTES):
            yield batch
            batch, grown_bytes = [], _size_bytes(span)
        batch.append(span)
        size_bytes = grown_bytes
    if batch:
        yield batch


def _key(span: OurSpan) -> SpanKey:
    flags = STEP * is_step(span) + RUN_COMPLETE * (span.attributes.get(words.RUN_COMPLETE) is True)
    return SpanKey(bytes.fromhex(span.span_id), bytes.fromhex(span.parent_id or "0" * 16), flags)


def _size_bytes(span: ReadableSpan) -> int:
    """Estimate what a span takes on the wire and about in memory."""
    owners = (span.attributes, *(event.attributes for event in span.events), *(link.attributes for link in span.links))
    return 300 + sum(map(_attributes_bytes, owners))


def _attributes_bytes(attributes: types.Attributes) -> int:
    return 50 + sum(20 + len(key) + _value_bytes(value) for key, value in (attributes or {}).items())


def _value_bytes(value: object) -> int:
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, Sequence):
        return sum(map(_value_bytes, value))
    return 8


def _after_fork(processor: weakref.ref[EmbeddedProcessor]) -> None:
    """Start afresh in a forked child: what the parent holds, the parent exports."""
    this = processor()
    if this is not None:
        this._renew()
