"""A provider of our own whose spans can be sent elsewhere later: OpenTelemetry's global one is set once for good."""

from __future__ import annotations

import atexit
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from random import SystemRandom
from threading import Thread, main_thread

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import INVALID_SPAN_ID, INVALID_TRACE_ID

from blamespan.forking import call_at_worker_end
from blamespan.instrumenting.exporting import EXPORTER_HANGS
from blamespan.instrumenting.settings import exit_s

_logger = logging.getLogger("blamespan")
_random = SystemRandom()


class _OwnIds(IdGenerator):
    """Draws ids without Python's `random`: a program that seeds it gets the numbers that it gets without us."""

    def generate_span_id(self) -> int:
        """Return 64 bits, not all zero."""
        while (span_id := _random.getrandbits(64)) == INVALID_SPAN_ID:
            pass
        return span_id

    def generate_trace_id(self) -> int:
        """Return 128 bits, not all zero."""
        while (trace_id := _random.getrandbits(128)) == INVALID_TRACE_ID:
            pass
        return trace_id


def new_provider(resource: Resource | None = None, *, shutdown_on_exit: bool = True) -> TracerProvider:
    """Return a provider that leaves the program's random numbers alone."""
    return TracerProvider(resource=resource, id_generator=_OwnIds(), shutdown_on_exit=shutdown_on_exit)


class LentExporter(SpanExporter):
    """An exporter of the program's: it is shut down when the program ends, and until then may be given to us again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        if not _lent:
            atexit.register(_end_lent)
        _lent[id(exporter)] = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Pass spans on."""
        with self._on_its_own():
            return self._exporter.export(spans)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Pass it on."""
        with self._on_its_own():
            return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Flush what was exported; the exporter stays fit for use until the program ends."""
        if main_thread().is_alive():
            self.force_flush()
        elif _lent.pop(id(self._exporter), None) is not None:
            self._exporter.shutdown()

    @contextmanager
    def _on_its_own(self) -> Iterator[None]:
        """Do not shut the exporter down at exit while a call of it hangs: the end of the program would wait, too."""
        _lent.pop(id(self._exporter), None)
        try:
            yield
        finally:
            _lent[id(self._exporter)] = self._exporter


_lent: dict[int, SpanExporter] = {}
"""By identity: exporters of the program's own need not be hashable."""


def _end_lent() -> None:
    """Shut down at exit what nothing sends to any more, in a thread: an exporter that hangs can be left behind."""
    ending = Thread(target=_shut_down_lent, name="blamespan-end", daemon=True)
    try:
        ending.start()
    except RuntimeError:  # Python 3.12 and later start no thread at exit
        _shut_down_lent()
        return
    ending.join(exit_s())
    if ending.is_alive():
        _logger.error(EXPORTER_HANGS, exit_s())


def _shut_down_lent() -> None:
    while _lent:
        _lent.popitem()[1].shutdown()


class ExchangeableProvider:
    """A provider and the span processors that it has right now.

    Attributes:
        provider: Fit to be OpenTelemetry's global one.
    """

    def __init__(self) -> None:
        self.provider = new_provider(shutdown_on_exit=False)
        self._exchange = _Exchange()
        self.provider.add_span_processor(self._exchange)

    def send_to(self, processors: Sequence[SpanProcessor]) -> None:
        """Send spans that end from now on to *processors*; those before are flushed and shut down."""
        before, self._exchange.processors = self._exchange.processors, tuple(processors)
        atexit.unregister(self._exchange.shutdown)  # anew: after hooks of what was imported since
        atexit.register(self._exchange.shutdown)
        for processor in before:
            processor.shutdown()


class _Exchange(SpanProcessor):
    """Passes everything on to the processors of the moment."""

    def __init__(self) -> None:
        self.processors: tuple[SpanProcessor, ...] = ()
        call_at_worker_end(self, _Exchange.shutdown)

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Pass it on."""
        for processor in self.processors:
            processor.on_start(span, parent_context)

    def on_end(self, span: ReadableSpan) -> None:
        """Pass it on."""
        for processor in self.processors:
            processor.on_end(span)

    def shutdown(self) -> None:
        """Pass it on."""
        for processor in self.processors:
            processor.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Pass it on; return whether all were flushed in time."""
        flushed = [processor.force_flush(timeout_millis) for processor in self.processors]
        return all(flushed)
