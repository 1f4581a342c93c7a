"""Determinism for tests, ours and yours: a clock that ticks, ids that count, spans kept in memory.

from blamespan.testing import SpanRecorder

recorder = SpanRecorder()
blamespan.instrument(tracer_provider=recorder.provider)
...run a team...
trace = blamespan.rebuild(recorder.spans())
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

from blamespan.otlp.sdk import span_from_sdk
from blamespan.spans import Span


class TickingClock:
    """A clock that moves one second at every reading, from 1 second after the epoch."""

    def __init__(self) -> None:
        self._ticks = itertools.count(1)

    def __call__(self) -> int:
        """Read the time in nanoseconds."""
        return next(self._ticks) * 1_000_000_000


class SequentialIds(IdGenerator):
    """Trace and span ids 1, 2, 3, ..."""

    def __init__(self) -> None:
        self._traces = itertools.count(1)
        self._spans = itertools.count(1)

    def generate_trace_id(self) -> int:
        """Return the next trace id."""
        return next(self._traces)

    def generate_span_id(self) -> int:
        """Return the next span id."""
        return next(self._spans)


class SpanRecorder:
    """An OpenTelemetry provider with deterministic ids and times that keeps its spans.

    Args:
        provider: Another one, with ids and times of its own.

    Attributes:
        provider: Pass it to `blamespan.instrument(tracer_provider=...)`.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider: TracerProvider = provider if provider is not None else _TickingProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def finished(self) -> Sequence[ReadableSpan]:
        """List the ended spans as the SDK's objects, in the order they ended."""
        return self._exporter.get_finished_spans()

    def spans(self) -> list[Span]:
        """List the ended spans, in the order they ended."""
        return [span_from_sdk(span) for span in self.finished()]

    def clear(self) -> None:
        """Forget the spans so far."""
        self._exporter.clear()


class _TickingProvider(TracerProvider):
    def __init__(self) -> None:
        super().__init__(
            id_generator=SequentialIds(), resource=Resource({"service.name": "test"}), shutdown_on_exit=False
        )
        self._clock = TickingClock()

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:  # the SDK's signature grows with each release
        return _TickingTracer(super().get_tracer(*args, **kwargs), self._clock)


class _TickingTracer(trace.Tracer):
    def __init__(self, tracer: trace.Tracer, clock: TickingClock) -> None:
        self._tracer = tracer
        self._clock = clock

    def start_span(self, name: str, *args: Any, **kwargs: Any) -> trace.Span:
        arguments = inspect.signature(trace.Tracer.start_span).bind(self, name, *args, **kwargs).arguments
        arguments["start_time"] = arguments.get("start_time") or self._clock()
        span = self._tracer.start_span(**{key: value for key, value in arguments.items() if key != "self"})
        end = span.end

        def end_on_tick(end_time: int | None = None) -> None:
            end(end_time or self._clock())

        span.end = end_on_tick  # type: ignore[method-assign]
        return span

    @contextmanager
    def start_as_current_span(self, name: str, *args: Any, **kwargs: Any) -> Iterator[trace.Span]:  # type: ignore[override]
        arguments = inspect.signature(trace.Tracer.start_as_current_span).bind(self, name, *args, **kwargs).arguments
        del arguments["self"]
        end_on_exit = arguments.pop("end_on_exit", True)
        options = {
            key: arguments.pop(key) for key in ("record_exception", "set_status_on_exception") if key in arguments
        }
        with trace.use_span(self.start_span(**arguments), end_on_exit=end_on_exit, **options) as span:
            yield span
