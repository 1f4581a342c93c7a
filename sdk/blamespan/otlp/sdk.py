"""The OpenTelemetry SDK's ended spans to ours and back: for annotating inside the user's own program."""

from __future__ import annotations

from typing import cast

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status, StatusCode, TraceFlags, format_span_id, format_trace_id
from opentelemetry.util import types

from blamespan.errors import MalformedSpan
from blamespan.spans import Attributes, Scope, Span, SpanEvent, SpanLink
from blamespan.trace import StepStatus

_STATUSES: dict[StatusCode, StepStatus] = {
    StatusCode.UNSET: "unset",
    StatusCode.OK: "ok",
    StatusCode.ERROR: "error",
}
_CODES = {status: code for code, status in _STATUSES.items()}


def span_from_sdk(span: ReadableSpan) -> Span:
    """Read an ended span.

    Raises:
        MalformedSpan: if it has no context.
    """
    context = span.get_span_context()
    if context is None:
        raise MalformedSpan(f"expected a recorded span, got {span.name!r} without a context")
    scope = span.instrumentation_scope
    return Span(
        trace_id=format_trace_id(context.trace_id),
        span_id=format_span_id(context.span_id),
        parent_id=format_span_id(span.parent.span_id) if span.parent else None,
        name=span.name,
        kind=span.kind,
        start_ns=span.start_time or 0,
        end_ns=span.end_time or 0,
        attributes=_plain(span.attributes),
        status=_STATUSES[span.status.status_code],
        status_message=span.status.description or "",
        events=tuple(SpanEvent(event.name, event.timestamp or 0, _plain(event.attributes)) for event in span.events),
        links=tuple(
            SpanLink(
                format_trace_id(link.context.trace_id), format_span_id(link.context.span_id), _plain(link.attributes)
            )
            for link in span.links
        ),
        resource=_plain(span.resource.attributes),
        scope=Scope(scope.name, scope.version or "") if scope else Scope(),
        origin=span,
    )


def span_to_sdk(span: Span) -> ReadableSpan:
    """Write a span as the SDK's exporters want it.

    One that was read from the SDK and not changed since is its own object again.
    """
    origin = span.origin if isinstance(span.origin, ReadableSpan) else None
    if origin is not None and _plain(origin.attributes) == span.attributes:
        return origin
    attributes = cast(types.Attributes, span.attributes)
    if origin is None:
        return _write_attributes(span, attributes)
    return ReadableSpan(
        name=origin.name,
        context=origin.get_span_context(),
        parent=origin.parent,
        resource=origin.resource,
        attributes=attributes,
        events=origin.events,
        links=origin.links,
        kind=origin.kind,
        status=origin.status,
        start_time=origin.start_time,
        end_time=origin.end_time,
        instrumentation_scope=origin.instrumentation_scope,
    )


def _write_attributes(span: Span, attributes: types.Attributes) -> ReadableSpan:
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_id) if span.parent_id else None,
        resource=Resource(cast("dict[str, types.AttributeValue]", dict(span.resource))),
        attributes=attributes,
        events=[Event(e.name, cast(types.Attributes, e.attributes), timestamp=e.time_ns) for e in span.events],
        links=[
            Link(_context(link.trace_id, link.span_id), cast(types.Attributes, link.attributes)) for link in span.links
        ],
        kind=span.kind,
        status=Status(_CODES[span.status], (span.status_message or None) if span.status == "error" else None),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=InstrumentationScope(span.scope.name, span.scope.version or None),
    )


def _context(trace_id: str, span_id: str) -> SpanContext:
    return SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=False, trace_flags=TraceFlags(1))


def _plain(attributes: types.Attributes) -> Attributes:
    return cast(Attributes, dict(attributes or {}))
