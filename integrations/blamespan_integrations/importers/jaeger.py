"""Traces as Jaeger gives them: the JSON its UI downloads, and the chunks of its v3 query API.

The UI's: `{"data": [{"traceID", "spans": [...], "processes": {...}}]}`, times in microseconds. The API's:
`{"result": {"resourceSpans": [...]}}`, one after the other. Source: Jaeger 1 and 2, `/api/traces/{id}`, `/api/v3`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from opentelemetry.trace import SpanKind

from blamespan.errors import MalformedSpan, UnreadableInput
from blamespan.spans import Scope, Span, SpanEvent, SpanLink
from blamespan.trace import AttributeValue, StepStatus
from blamespan_integrations.importers._otlp_documents import read_span_document
from blamespan_integrations.importers._records import objects_in
from blamespan_integrations.importers._span_files import JsonSpanFormat, SpanItem
from blamespan_integrations.importers._span_values import (
    as_attribute,
    nanoseconds,
    span_id_of,
    span_times,
    status_of,
    trace_id_of,
)

_START = re.compile(rb'\s*+(\{\s*+"data"\s*+:\s*+\[\s*+)?\{\s*+"traceID"\s*+:')
_KEYS = (b'"spans"', b'"spanID"', b'"processes"')
_START_V3 = re.compile(rb'\s*+\[?\s*+\{\s*+"result"\s*+:\s*+\{\s*+"(resourceSpans|resource_spans)"')
_PER_MICROSECOND = 1_000
_KINDS = {kind.name.lower(): kind for kind in SpanKind}
_SCOPE_NAMES = ("otel.scope.name", "otel.library.name")
_SCOPE_VERSIONS = ("otel.scope.version", "otel.library.version")
_OWN_TAGS = {
    *_SCOPE_NAMES,
    *_SCOPE_VERSIONS,
    "span.kind",
    "otel.status_code",
    "otel.status_description",
    "error",
    "internal.span.format",
}
"""Tags that stand for other fields of a span; Jaeger wrote them, not the program."""


class JaegerImporter(JsonSpanFormat):
    """Reads the JSON that Jaeger's UI downloads."""

    name = "jaeger"
    expected = "traces from Jaeger"
    description = "Jaeger UI JSON; loses lists' types (they are text), times below a microsecond and links' attributes"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the first keys."""
        del path
        return bool(_START.match(head)) and any(key in head for key in _KEYS)

    def _read_object(self, value: dict[str, Any], location: str) -> Iterable[SpanItem]:
        traces = value.get("data", [value])
        for number, trace in enumerate(traces if isinstance(traces, list) else [traces]):
            yield from read_ui_trace(trace, f"{location} trace {number}")


class JaegerV3Importer(JsonSpanFormat):
    """Reads the chunks of Jaeger's v3 API."""

    name = "jaeger-v3"
    expected = "a chunk of Jaeger's answer"
    description = "Jaeger v3 API JSON, chunks of OTLP-JSON; loses nothing"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the first keys."""
        del path
        return bool(_START_V3.match(head))

    def _read_object(self, value: dict[str, Any], location: str) -> Iterable[SpanItem]:
        return read_chunk(value, location)


def read_chunk(value: Mapping[str, Any], location: str) -> Iterator[SpanItem]:
    """Yield the spans of one chunk of the v3 API's answers, or the trouble it tells.

    Args:
        value: The chunk.
        location: Where it stands, for messages.
    """
    chunk = value.get("result")
    if isinstance(chunk, dict):
        yield from read_span_document(chunk, location)
    else:
        trouble = value.get("error", value)
        yield UnreadableInput(f"{location}: expected a chunk of spans, got {str(trouble)[:80]!r}. Query again.")


def read_ui_trace(trace: object, location: str) -> Iterator[SpanItem]:
    """Yield the spans of one trace of the UI's JSON, and what is wrong with the others.

    Args:
        trace: The trace.
        location: Where it stands, for messages.
    """
    spans = trace.get("spans") if isinstance(trace, Mapping) else None
    if not isinstance(trace, Mapping) or not isinstance(spans, list):
        yield UnreadableInput(f"{location}: expected a trace with 'spans', got {str(trace)[:60]!r}. Export it again.")
        return
    processes = trace.get("processes")
    for number, span in enumerate(spans):
        try:
            yield _span(span, processes if isinstance(processes, Mapping) else {}, f"{location} span {number}")
        except UnreadableInput as error:
            yield error
        except MalformedSpan as error:
            yield UnreadableInput(f"{location} span {number}: {error}")


def _span(span: Any, processes: Mapping[str, Any], location: str) -> Span:
    if not isinstance(span, Mapping):
        raise UnreadableInput(f"{location}: expected a span as an object, got {str(span)[:60]!r}. Export it again.")
    tags = _tags(span.get("tags"))
    trace_id = trace_id_of(span.get("traceID"), location)
    start_ns = nanoseconds(span.get("startTime"), location, per_unit=_PER_MICROSECOND)
    length_ns = span_times(span.get("duration", 0), None, f"{location} duration", per_unit=_PER_MICROSECOND)[0]
    references = [item for item in objects_in(span.get("references")) if item.get("spanID")]
    parents = [
        item for item in references if item.get("refType") != "FOLLOWS_FROM" and _is_of(item, trace_id, location)
    ]
    parent = parents[0] if parents else {"spanID": span.get("parentSpanID")}
    return Span(
        trace_id=trace_id,
        span_id=span_id_of(span.get("spanID"), location),
        parent_id=span_id_of(parent["spanID"], location) if parent.get("spanID") else None,
        name=str(span.get("operationName", "")),
        kind=_KINDS.get(str(tags.get("span.kind")), SpanKind.INTERNAL),
        start_ns=start_ns,
        end_ns=start_ns + length_ns,
        attributes={key: value for key, value in tags.items() if key not in _OWN_TAGS},
        status=_status(tags),
        status_message=str(tags.get("otel.status_description", "")),
        events=tuple(_event(log, location) for log in objects_in(span.get("logs"))),
        links=tuple(_link(item, trace_id, location) for item in references if item is not parent),
        resource=_resource(span, processes),
        scope=Scope(_first(tags, _SCOPE_NAMES), _first(tags, _SCOPE_VERSIONS)),
    )


def _is_of(reference: Mapping[str, Any], trace_id: str, location: str) -> bool:
    return not reference.get("traceID") or trace_id_of(reference["traceID"], location) == trace_id


def _link(reference: Mapping[str, Any], trace_id: str, location: str) -> SpanLink:
    linked = reference.get("traceID")
    return SpanLink(trace_id_of(linked, location) if linked else trace_id, span_id_of(reference["spanID"], location))


def _event(log: Mapping[str, Any], location: str) -> SpanEvent:
    fields = _tags(log.get("fields"))
    name = fields.pop("event", fields.pop("message", ""))
    return SpanEvent(str(name), nanoseconds(log.get("timestamp", 0), location, per_unit=_PER_MICROSECOND), fields)


def _status(tags: Mapping[str, AttributeValue]) -> StepStatus:
    if "otel.status_code" in tags:
        return status_of(tags["otel.status_code"])
    return "error" if tags.get("error") in (True, "true") else "unset"


def _resource(span: Mapping[str, Any], processes: Mapping[str, Any]) -> dict[str, AttributeValue]:
    process = span.get("process") or processes.get(str(span.get("processID")))
    if not isinstance(process, Mapping):
        return {}
    name = process.get("serviceName")
    return ({"service.name": name} if isinstance(name, str) else {}) | _tags(process.get("tags"))


def _tags(rows: object) -> dict[str, AttributeValue]:
    """Read tags; a list is JSON text there, and is a list again where it is one of texts."""
    return {str(tag.get("key")): _value(tag) for tag in objects_in(rows)}


def _value(tag: Mapping[str, Any]) -> AttributeValue:
    value = tag.get("value")
    if tag.get("type") == "int64" and isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        return int(value)
    if isinstance(value, str) and value.startswith('["') and value.endswith('"]') and len(value) < 100_000:
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            return value
        return tuple(read) if all(isinstance(item, str) for item in read) else value
    return as_attribute(value)


def _first(tags: Mapping[str, AttributeValue], keys: Iterable[str]) -> str:
    return next((str(tags[key]) for key in keys if key in tags), "")
