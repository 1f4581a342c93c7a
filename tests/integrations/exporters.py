"""Exporters that fail a program which records its runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class _Failing(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError("no network")


class _Hanging(SpanExporter):
    def __init__(self) -> None:
        self.is_over = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.is_over.wait(60)
        return SpanExportResult.SUCCESS


@contextmanager
def troubled_exporters(instrumentor: Any) -> Iterator[None]:
    """Record to an exporter that raises and to one that hangs."""
    hanging = _Hanging()
    provider = TracerProvider(shutdown_on_exit=False)
    for exporter in (_Failing(), hanging):
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=1, max_export_batch_size=1))
    instrumentor.instrument(tracer_provider=provider)
    try:
        yield
    finally:
        instrumentor.uninstrument()
        hanging.is_over.set()
        provider.shutdown()
