"""The collector's own spans, where somebody asks for them: one per request taken."""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from blamespan._version import __version__
from blamespan_collector.delivering.backend import signal_url

_SAMPLED = 0.01
"""At thousands of requests a second, the collector's own spans must not become its largest sender."""


class OwnSpans:
    """Sends spans about our own work, one request in a hundred, to a backend that is not ourselves.

    Args:
        url: Of an OTLP/HTTP backend, read as those of `--forward` are.
        sampled: Share of requests, 0..1.
    """

    def __init__(self, url: str, *, sampled: float = _SAMPLED) -> None:
        resource = Resource.create({"service.name": "blamespan-collector", "service.version": __version__})
        self._provider = TracerProvider(resource=resource, sampler=TraceIdRatioBased(sampled))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(signal_url(url, "traces"))))
        self._tracer = self._provider.get_tracer("blamespan.collector", __version__)

    def record(self, name: str, start_ns: int, attributes: Mapping[str, str | int]) -> None:
        """Record what began at *start_ns* and ends now. Never waits for the backend."""
        self._tracer.start_span(name, start_time=start_ns, attributes=attributes).end()

    def close(self) -> None:
        """Send what is left."""
        self._provider.shutdown()
