"""OTLP log records that tell of a span, as events of that span: some instrumentations put messages there.

Source: OpenTelemetry GenAI conventions, events `gen_ai.user.message`, `gen_ai.choice` and
`gen_ai.client.inference.operation.details`.
"""

from __future__ import annotations

import base64
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs

from blamespan.errors import MalformedSpan
from blamespan.otlp.proto import mapping
from blamespan.spans import Span, SpanEvent

EventsOfSpans = Mapping[tuple[str, str], Sequence[SpanEvent]]
"""Events by the trace's and the span's id."""


def logs_from_document(document: Any) -> ExportLogsServiceRequest:
    """Read one OTLP-JSON document of log records that was parsed; it may be changed.

    Raises:
        MalformedSpan: if it is no such document.
    """
    try:
        for record in _records(document):
            for key in ("traceId", "spanId"):
                if record.get(key):
                    record[key] = base64.b64encode(bytes.fromhex(record[key])).decode()
        return json_format.ParseDict(document, ExportLogsServiceRequest(), ignore_unknown_fields=True)
    except (json_format.ParseError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise MalformedSpan(f"expected OTLP-JSON log records, got something else: {error}") from error


def message_events(groups: Iterable[ResourceLogs]) -> EventsOfSpans:
    """Read the log records that hold messages of a span; all others are left out."""
    events: dict[tuple[str, str], list[SpanEvent]] = defaultdict(list)
    for group in groups:
        for scoped in group.scope_logs:
            for record in scoped.log_records:
                event = _event(record)
                if event is not None:
                    events[record.trace_id.hex(), record.span_id.hex()].append(event)
    return events


def with_events(spans: Iterable[Span], events: EventsOfSpans) -> list[Span]:
    """Copy *spans* with the events told of them elsewhere; for reading, as what is sent is a span's origin."""
    return [
        replace(span, events=(*span.events, *events[span.trace_id, span.span_id]))
        if (span.trace_id, span.span_id) in events
        else span
        for span in spans
    ]


def _records(document: Any) -> Iterable[dict[str, Any]]:
    for group in document["resourceLogs"]:
        for scoped in group.get("scopeLogs", ()):
            yield from scoped.get("logRecords", ())


def _event(record: LogRecord) -> SpanEvent | None:
    attributes = mapping(record.attributes)
    name = record.event_name or attributes.get("event.name")
    if not isinstance(name, str) or not name.startswith("gen_ai.") or not record.span_id:
        return None
    body = record.body.WhichOneof("value")
    if body == "kvlist_value":
        attributes["body"] = mapping(record.body.kvlist_value.values)
    elif body == "string_value":
        attributes["body"] = record.body.string_value
    return SpanEvent(name, record.time_unix_nano or record.observed_time_unix_nano, attributes)
