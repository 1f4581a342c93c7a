"""A program with an embedded processor, and what goes out of it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from blamespan_collector.embedded import EmbeddedProcessor


class EmbeddedProgram:
    """A program with an embedded processor and an exporter in memory."""

    def __init__(self, processor: EmbeddedProcessor, exporter: InMemorySpanExporter) -> None:
        self.processor = processor
        self.exporter = exporter
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(processor)
        self.tracer = self.provider.get_tracer("test")

    def exported(self, count: int, timeout_s: float = 20) -> Sequence[ReadableSpan]:
        """Wait for so many exported spans, and return what there is."""
        deadline = time.monotonic() + timeout_s
        while len(self.exporter.get_finished_spans()) < count and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.exporter.get_finished_spans()
