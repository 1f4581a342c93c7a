"""The collector inside the watched program: an OpenTelemetry `SpanProcessor` in front of an exporter.

Two daemon threads: one assembles, one loads the tracer, annotates and exports. The program's own threads
only put a reference into a queue.

What ends the program matters. Its own end and an unhandled exception run the SDK's `atexit` hook, which
shuts this processor down and so exports what is held; so does the end of a worker process of `multiprocessing`,
`Pool` or `ProcessPoolExecutor`. SIGTERM without a handler (as of `Pool.terminate()`, which leaving `with Pool()`
calls), SIGKILL and `os._exit` run nothing: what is held is lost, as with the SDK's `BatchSpanProcessor`. Turn SIGTERM
into `SystemExit`, or run `blamespan collect`, where that matters; the signals of the program are not ours to take.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import SpanExporter

from blamespan import conventions as words
from blamespan.forking import call_at_worker_end
from blamespan.host_safety import shield_host
from blamespan.instrumenting.exporting import EXPORTER_HANGS
from blamespan.instrumenting.settings import exit_s, is_quiet
from blamespan.otlp.sdk import span_from_sdk
from blamespan.pipeline import import_parts
from blamespan.plugins import load_plugin
from blamespan.rebuilding.runs import is_step
from blamespan.spans import Span as OurSpan
from blamespan.tracers import DEFAULT_TRACER, Tracer, load_tracer
from blamespan_collector.assembling.assembler import Assembler
from blamespan_collector.assembling.parts import Arrival, RecentTraces, TracePart
from blamespan_collector.embedded_delivery import EmbeddedDelivery, call_exporter, is_absent
from blamespan_collector.journal.entries import RUN_COMPLETE, STEP, SpanKey
from blamespan_collector.local_runs import LocalRuns, embedded_store
from blamespan_collector.run_notices import RunNotices, shown_id
from blamespan_collector.settings import Limits

_logger = logging.getLogger("blamespan")

_MAX_INBOX = 10_000
"""Starts and ends of spans that the first thread has not read yet; it reads about 20,000 a second."""
_MAX_INBOX_BYTES = 32 * 1024 * 1024
"""What those take in memory at most."""
_IMPORTING_S = 5.0
"""How long a fork waits at most for a thread of ours that imports."""
_FIRST_BATCHES = 4
"""By then what verdicts need is imported: tracer, dialects, store."""
_BATCH_TRACES = 32
_MAX_TRACES = 10_000
_MAX_BYTES = 80 * 1024 * 1024
"""Held in the program's memory at most, unless told otherwise."""
_TELL_EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class _Started:
    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None


@dataclass(frozen=True, slots=True)
class _EndedSpan:
    span: ReadableSpan
    held_bytes: int


@dataclass(frozen=True, slots=True)
class _Flush:
    """Let everything go, then say so; the last one ends the threads."""

    done: threading.Event
    is_last: bool = False


_Outbox: TypeAlias = "queue.SimpleQueue[TracePart[OurSpan] | _Flush | None]"


class _Inbox:
    """What the first thread has not read yet. Reentrant, so a span that a finalizer ends cannot deadlock."""

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[_Started | _EndedSpan | _Flush] = queue.SimpleQueue()
        self._lock = threading.RLock()
        self._held_bytes = 0

    def __len__(self) -> int:
        return self._items.qsize()

    def has_room_for(self, item: _Started | _EndedSpan) -> bool:
        """Check whether *item* is within both bounds; a span of any size is where no other one waits."""
        if len(self) >= _MAX_INBOX:
            return False
        held_bytes = self._held_bytes
        return not (isinstance(item, _EndedSpan) and held_bytes and held_bytes + item.held_bytes > _MAX_INBOX_BYTES)

    def put(self, item: _Started | _EndedSpan | _Flush) -> None:
        """Add *item*."""
        if isinstance(item, _EndedSpan):
            self._count(item.held_bytes)
        self._items.put(item)

    def get(self, *, timeout_s: float | None) -> _Started | _EndedSpan | _Flush:
        """Take the next item; wait for it at most *timeout_s*, for ever if None.

        Raises:
            queue.Empty: if none came.
        """
        item = (
            self._items.get_nowait() if timeout_s is not None and timeout_s <= 0 else self._items.get(timeout=timeout_s)
        )
        if isinstance(item, _EndedSpan):
            self._count(-item.held_bytes)
        return item

    def _count(self, held_bytes: int) -> None:
        with self._lock:
            self._held_bytes += held_bytes


def embedded_processor(
    exporter: SpanExporter, *, tracer_name: str = DEFAULT_TRACER, page: bool = False, quiet: bool | None = None
) -> EmbeddedProcessor:
    """Make the processor of `instrument(embedded=True)`.

    Args:
        exporter: Gets the annotated spans.
        tracer_name: As for `EmbeddedProcessor`.
        page: Whether to serve the page of kept runs from this process.
        quiet: Whether nothing is written to stderr; as `BLAMESPAN_QUIET` says if None.

    Raises:
        ConfigError: if there is a page to serve and no store, or the variable is wrong.
    """
    writes_nothing = is_quiet(quiet)
    path = embedded_store()
    address = ""
    if page:
        from blamespan_collector.page.serving import serve_in_background

        address = serve_in_background(path)
    notices = None
    if not writes_nothing:
        if address:
            notices = RunNotices(lambda trace_id: f"{address}/run/{trace_id}", address)
        elif path is not None:
            notices = RunNotices(lambda trace_id: f"blamespan show {shown_id(trace_id)}", "blamespan open")
        else:
            notices = RunNotices(lambda _: "", "")
    local_runs = LocalRuns(path) if path is not None else None
    return EmbeddedProcessor(exporter, tracer_name=tracer_name, local_runs=local_runs, notices=notices)


class EmbeddedProcessor(SpanProcessor):
    """Holds the spans of a trace until all that started have ended, annotates them, exports them once.

    Add it to a `TracerProvider` in place of a `BatchSpanProcessor`. It never raises into the program. What
    is held is bounded by *limits*, as memory: past it spans of runs that go on leave without a verdict; where
    twice that waits for the exporter, they are dropped, with an error in the log. So thrice that is held at most, and
    32 MiB of spans that are not read yet.

    Args:
        exporter: Gets the annotated spans.
        tracer: Gives the verdicts.
        tracer_name: Name of an installed tracer, loaded in the background when the first agent's span
            ends; not together with *tracer*. Where it cannot be loaded, one error is logged and the
            runs' spans say so.
        limits: How long to wait and how much to hold; `BLAMESPAN_QUIET_S` and so on by default. Here a
            trace is complete at once, without a quiet time, unless one is set.
        local_runs: Where runs are kept on this machine; None: nowhere.
        notices: What is written about them; None: nothing.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        *,
        tracer: Tracer | None = None,
        tracer_name: str = DEFAULT_TRACER,
        limits: Limits | None = None,
        local_runs: LocalRuns | None = None,
        notices: RunNotices | None = None,
    ) -> None:
        self._exporter = exporter
        self._local_runs = local_runs
        self._notices = notices
        self._load: Callable[[], Tracer] = (
            (lambda: tracer) if tracer is not None else (lambda: load_tracer(tracer_name))
        )
        with suppress(Exception):  # what is wrong is said when the tracer is loaded
            import_parts()
            if tracer is None:
                load_plugin("blamespan.tracers", tracer_name)  # here: a fork waits for no import of this thread
        self._exit_s = exit_s()
        self._dropped_unread = 0
        self._limits = limits or Limits.of_environment(quiet_s=0.0, max_traces=_MAX_TRACES, max_bytes=_MAX_BYTES)
        self._is_shut_down = False
        self._is_forked = False
        self._lock = threading.Lock()
        self._renew()
        if hasattr(os, "register_at_fork"):
            this = weakref.ref(self)
            os.register_at_fork(after_in_child=lambda: _after_fork(this))
        call_at_worker_end(self, EmbeddedProcessor.shutdown)

    def _renew(self) -> None:
        """Begin with nothing held and no threads: at first, and in a forked child."""
        self._lock = threading.Lock()
        self._inbox = _Inbox()
        self._outbox: _Outbox = queue.SimpleQueue()
        self._worker: _EmbeddedWorker | None = None

    def _renew_in_child(self) -> None:
        """Begin anew in a forked child: what the parent holds, keeps and counts is the parent's."""
        self._local_runs = self._local_runs.renewed() if self._local_runs is not None else None
        self._notices = self._notices.renewed() if self._notices is not None else None
        self._is_forked = True
        self._renew()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Note that a span has begun."""
        with shield_host("embedded: note a span's start"):
            context = span.get_span_context()
            if context is not None and context.trace_flags.sampled and not self._is_shut_down:
                parent = span.parent.span_id.to_bytes(8, "big") if span.parent else None
                self._put(_Started(context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big"), parent))

    def on_end(self, span: ReadableSpan) -> None:
        """Take an ended span. Only puts it into a queue: also from a finalizer or a signal handler."""
        with shield_host("embedded: hold a span"):
            context = span.get_span_context()
            if context is not None and context.trace_flags.sampled and not self._is_shut_down:
                self._put(_EndedSpan(span, _held_bytes(span)))

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Annotate and export what is held, also traces that are not complete; their later spans get no verdict.

        Returns:
            Whether everything was exported in time.
        """
        with shield_host("embedded: flush"):
            return self._is_shut_down or self._flush(timeout_millis / 1000, is_last=False)
        return False

    def shutdown(self) -> None:
        """Annotate and export what is held, within `BLAMESPAN_EXIT_S`, and shut the exporter down; once."""
        with shield_host("embedded: shut down"):
            with self._lock:
                if self._is_shut_down:
                    return
                self._is_shut_down = True
            if self._worker is None and self._is_forked:
                return  # nothing was recorded here: the exporter is the parent's
            give_up = getattr(self._exporter, "give_up", None)
            if give_up is not None:
                call_exporter("end", self._exporter, give_up)
            try:
                if self._worker is None:
                    self._start()  # an exporter may hang: it is shut down in a thread, which can be left behind
            except RuntimeError:  # Python 3.12 and later start no thread at exit
                call_exporter("shut down", self._exporter, self._exporter.shutdown)
            is_done = self._flush(self._exit_s, is_last=True)
            if not is_done:
                _logger.error(EXPORTER_HANGS, self._exit_s)
            if is_done and self._local_runs is not None:
                self._local_runs.close()
            if self._notices is not None:
                self._notices.sum_up(is_alone=is_absent(self._exporter))

    def _put(self, item: _Started | _EndedSpan) -> None:
        if self._worker is None:
            self._start()
        if not self._inbox.has_room_for(item):
            self._dropped_unread += 1
            if self._dropped_unread.bit_count() == 1:  # the 1st, 2nd, 4th, 8th, ...
                _logger.error(
                    "%d spans dropped so far: the program makes them faster than they are read", self._dropped_unread
                )
            return
        self._inbox.put(item)

    def _start(self) -> None:
        if not self._lock.acquire(blocking=False):
            return  # another thread is at it; the item waits in the queue
        try:
            if self._worker is None:
                wake = partial(self._outbox.put, None)
                delivery = EmbeddedDelivery(self._exporter, self._load, self._local_runs, self._notices, wake)
                self._worker = _EmbeddedWorker(self._inbox, self._outbox, delivery, self._limits)
        finally:
            self._lock.release()

    def _flush(self, timeout_s: float, *, is_last: bool) -> bool:
        if self._worker is None:
            return True  # nothing ever came
        flush = _Flush(threading.Event(), is_last)
        self._inbox.put(flush)
        return flush.done.wait(timeout_s)


class _EmbeddedWorker:
    """The two threads and what they hold."""

    def __init__(self, inbox: _Inbox, outbox: _Outbox, delivery: EmbeddedDelivery, limits: Limits) -> None:
        self._inbox = inbox
        self._outbox = outbox
        self._delivery = delivery
        self._limits = limits
        self._assembler: Assembler[OurSpan] = Assembler(limits, RecentTraces(), sees_starts=True)
        self._waiting_lock = threading.Lock()
        self._waiting_bytes = 0
        self._saw_step = False
        self._batch_count = 0
        self._dropped = 0
        self._tell_after_s = 0.0
        for name, run in (("blamespan-assemble", self._assemble), ("blamespan-annotate", self._annotate)):
            threading.Thread(target=run, name=name, daemon=True).start()

    def _assemble(self) -> None:
        is_last = False
        while not is_last:
            item = self._next()
            with shield_host("embedded: assemble spans"):
                now_s = time.monotonic()
                if isinstance(item, _Started):
                    self._release(self._assembler.start(item.trace_id, item.span_id, item.parent_id, now_s))
                elif isinstance(item, _EndedSpan):
                    self._release(self._assembler.add([self._arrival(item)], now_s))
                self._release(self._assembler.due(now_s))
            if isinstance(item, _Flush):
                with shield_host("embedded: flush spans"):
                    self._release(self._assembler.flush())
                self._outbox.put(item)
                is_last = item.is_last

    def _next(self) -> _Started | _EndedSpan | _Flush | None:
        due_s = self._assembler.next_due_s()
        wait_s = None if due_s is None else due_s - time.monotonic()
        try:
            return self._inbox.get(timeout_s=wait_s)
        except queue.Empty:
            return None

    def _arrival(self, ended: _EndedSpan) -> Arrival[OurSpan]:
        ours = span_from_sdk(ended.span)
        if not self._saw_step and is_step(ours):
            self._saw_step = True
            self._outbox.put(None)  # a sign to load the tracer while the run goes on
        return Arrival(bytes.fromhex(ours.trace_id), [_key(ours)], ours, ended.held_bytes)

    def _release(self, parts: Sequence[TracePart[OurSpan]]) -> None:
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
            with shield_host("embedded: annotate and export"), self._may_import():
                self._delivery.send(parts)
            self._batch_count += bool(parts)
            with self._waiting_lock:
                self._waiting_bytes -= sum(part.size_bytes for part in parts)
            if other is None:
                with self._may_import(), shield_host("embedded: export second opinions"):
                    self._delivery.warm_up()
                    self._delivery.send_opinions()
            if isinstance(other, _Flush):
                is_last = other.is_last
                self._delivery.flush()
                if is_last:
                    self._delivery.end()
                other.done.set()

    def _may_import(self) -> AbstractContextManager[None]:
        return _importing if self._batch_count < _FIRST_BATCHES else nullcontext()

    def _next_parts(self) -> tuple[list[TracePart[OurSpan]], TracePart[OurSpan] | _Flush | None]:
        """Take parts until one batch is full, none is left, or something else comes; give that, too."""
        item = self._outbox.get()
        parts: list[TracePart[OurSpan]] = []
        while isinstance(item, TracePart):
            parts.append(item)
            if len(parts) == _BATCH_TRACES:
                break
            try:
                item = self._outbox.get_nowait()
            except queue.Empty:
                break
        return parts, item


def _key(span: OurSpan) -> SpanKey:
    flags = STEP * is_step(span) + RUN_COMPLETE * (span.attributes.get(words.RUN_COMPLETE) is True)
    return SpanKey(bytes.fromhex(span.span_id), bytes.fromhex(span.parent_id or "0" * 16), flags)


_SPAN_BYTES = 3_000
_OWNER_BYTES = 400
_ATTRIBUTE_BYTES = 100
"""What an SDK span and our own record of it take in memory beside its texts: measured, see test_embedded_memory.py."""


def _held_bytes(span: ReadableSpan) -> int:
    """Estimate what a span takes in memory while it is held."""
    owners = [span.attributes, *(event.attributes for event in span.events), *(link.attributes for link in span.links)]
    values = [value for attributes in owners for value in (attributes or {}).values()]
    own = _SPAN_BYTES + _OWNER_BYTES * (len(owners) - 1) + _ATTRIBUTE_BYTES * len(values)
    return own + sum(map(_value_held_bytes, values))


def _value_held_bytes(value: object) -> int:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return sys.getsizeof(value) + sum(map(sys.getsizeof, value))
    return sys.getsizeof(value)


class _Importing:
    """Holds back a fork while a thread of ours imports: a child would wait for that module for ever."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_held = False
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._hold, after_in_parent=self._release, after_in_child=self._renew)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _hold(self) -> None:
        self._is_held = self._lock.acquire(timeout=_IMPORTING_S)

    def _release(self) -> None:
        if self._is_held:
            self._is_held = False
            self._lock.release()

    def _renew(self) -> None:
        self._lock, self._is_held = threading.Lock(), False


_importing = _Importing()


def _after_fork(processor: weakref.ref[EmbeddedProcessor]) -> None:
    """Start afresh in a forked child: what the parent holds, the parent exports."""
    this = processor()
    if this is not None:
        this._renew_in_child()
