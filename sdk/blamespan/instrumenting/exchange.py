"""A provider of our own whose spans can be sent elsewhere later: OpenTelemetry's global one is set once for good."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from random import SystemRandom

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import INVALID_SPAN_ID, INVALID_TRACE_ID

__all__ = ["ExchangeableProvider", "LentExporter", "new_provider"]

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
            atexit.register(_shut_down_lent)
        _lent[id(exporter)] = exporter

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Pass spans on."""
        return self._exporter.export(spans)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Pass it on."""
        return self._exporter.force_flush(timeout_millis)

    def shutdown(self) -> None:
        """Flush what was exported; the exporter stays fit for use."""
        self._exporter.force_flush()


_lent: dict[int, SpanExporter] = {}
"""By identity: exporters of the program's own need not be hashable."""


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
