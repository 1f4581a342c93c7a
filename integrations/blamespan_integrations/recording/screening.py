"""Spans that others make, screened: contents are withheld, masked and cut as on our own before the SDK sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import wrapt
from opentelemetry import trace
from opentelemetry.trace import Status, StatusCode

from blamespan.host_safety import shield_host
from blamespan.instrumenting.settings import ContentSettings
from blamespan.trace import AttributeValue
from blamespan_integrations.recording.content import ContentPolicy, Contents
from blamespan_integrations.recording.spans import span_limits


class ScreenedProvider(trace.TracerProvider):
    """Hands out tracers whose spans hold no more content than the settings allow.

    Args:
        provider: Where the spans go.
        content: What of contents may be recorded.
    """

    def __init__(self, provider: trace.TracerProvider, content: ContentSettings) -> None:
        self._provider = provider
        self._policy = ContentPolicy.of(content, span_limits(provider).max_span_attribute_length)

    def get_tracer(self, *args: Any, **kwargs: Any) -> trace.Tracer:
        """Return the provider's tracer, screened; arguments are OpenTelemetry's."""
        return _ScreenedTracer(self._provider.get_tracer(*args, **kwargs), self._policy)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._provider, name)


class _ScreenedTracer(trace.Tracer):
    """A tracer that screens the name and the first attributes of each span, and gives the span screened.

    No proxy: OpenInference calls `start_span` of a tracer's class, which must be this one.
    """

    def __init__(self, tracer: trace.Tracer, policy: ContentPolicy) -> None:
        self._screened = tracer
        self._policy = policy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._screened, name)

    def start_span(
        self,
        name: str,
        context: Any = None,
        kind: trace.SpanKind = trace.SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> trace.Span:
        """Start a span; arguments are OpenTelemetry's."""
        contents = Contents(self._policy)
        screened = _screen(contents, attributes or {})
        span = self._screened.start_span(contents.name(name), context, kind, screened, *args, **kwargs)
        return _ScreenedSpan(span, contents)

    @contextmanager
    def start_as_current_span(  # type: ignore[override]  # as a decorator of coroutines it is asked by nobody
        self,
        name: str,
        context: Any = None,
        kind: trace.SpanKind = trace.SpanKind.INTERNAL,
        attributes: Mapping[str, Any] | None = None,
        links: Any = None,
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
    ) -> Iterator[trace.Span]:
        """Start a span and make it the current one; arguments are OpenTelemetry's."""
        span = self.start_span(name, context, kind, attributes, links, start_time)
        with trace.use_span(span, end_on_exit, record_exception, set_status_on_exception):
            yield span


class _ScreenedSpan(wrapt.ObjectProxy):  # type: ignore[misc]  # wrapt has no types
    """A span that screens what is written onto it, and notes at its end what is missing."""

    def __init__(self, span: trace.Span, contents: Contents) -> None:
        super().__init__(span)
        self._self_contents = contents

    def set_attribute(self, key: str, value: Any) -> None:
        """Set an attribute, screened."""
        self.set_attributes({key: value})

    def set_attributes(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes, screened."""
        if self.__wrapped__.is_recording():
            self.__wrapped__.set_attributes(_screen(self._self_contents, attributes))

    def add_event(self, name: str, attributes: Any = None, timestamp: int | None = None) -> None:
        """Add an event, its attributes screened."""
        if self.__wrapped__.is_recording():
            screened = _screen(self._self_contents, attributes or {})
            self.__wrapped__.add_event(self._self_contents.name(name), screened, timestamp)

    def record_exception(
        self, exception: BaseException, attributes: Any = None, timestamp: int | None = None, escaped: bool = False
    ) -> None:
        """Record an exception without its stack trace, its message screened."""
        message = self._self_contents.text("exception.message", str(exception))
        screened = {**_screen(self._self_contents, attributes or {}), "exception.message": message or ""}
        self.__wrapped__.record_exception(exception, screened | {"exception.stacktrace": ""}, timestamp, escaped)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        """Set the status, its description screened."""
        code, told = (status.status_code, status.description) if isinstance(status, Status) else (status, description)
        if told is not None:
            told = self._self_contents.text("status", told)
        self.__wrapped__.set_status(Status(code, told if code is StatusCode.ERROR else None))

    def update_name(self, name: str) -> None:
        """Give the span another name."""
        self.__wrapped__.update_name(self._self_contents.name(name))

    def end(self, end_time: int | None = None) -> None:
        """End the span; first it notes what of contents was withheld, cut or lost."""
        if self.__wrapped__.is_recording():
            self.__wrapped__.set_attributes(self._self_contents.notes())
        self.__wrapped__.end(end_time)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        if error is not None and self.is_recording():
            self.record_exception(error)
            self.set_status(StatusCode.ERROR, f"{type(error).__name__}: {error}")
        self.end()


def _screen(contents: Contents, attributes: Mapping[str, Any]) -> dict[str, AttributeValue]:
    with shield_host("screen another instrumentation's span"):
        return contents.extras(attributes)
    return {}
