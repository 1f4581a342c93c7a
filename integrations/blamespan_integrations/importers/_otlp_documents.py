"""What OTLP documents tell, whoever wrote them down: ids in hex or base64, today's field names or older ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

from blamespan.errors import BlamespanError, MalformedSpan, UnreadableInput
from blamespan.otlp.json import request_from_document
from blamespan.otlp.logs import logs_from_document, message_events
from blamespan.otlp.proto import spans_from_proto
from blamespan_integrations.importers._span_files import SpanItem
from blamespan_integrations.importers._span_values import span_id_of, trace_id_of

_GROUPS = ("resourceSpans", "resource_spans", "batches")
_SCOPED = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans", "instrumentation_library_spans")
_SCOPES = ("scope", "instrumentationLibrary", "instrumentation_library")
_IDS = {
    "traceId": trace_id_of,
    "trace_id": trace_id_of,
    "spanId": span_id_of,
    "span_id": span_id_of,
    "parentSpanId": span_id_of,
    "parent_span_id": span_id_of,
}


def read_otlp_document(document: object, location: str) -> Iterator[SpanItem]:
    """Yield what one OTLP-JSON document tells: spans, or events of log records. Metrics tell nothing of a run.

    Args:
        document: The document, parsed; it may be changed.
        location: Where it stands, for messages.
    """
    keys = document.keys() if isinstance(document, dict) else ()
    if "resourceMetrics" in keys and "resourceSpans" not in keys:
        return
    try:
        if "resourceLogs" in keys and "resourceSpans" not in keys:
            yield message_events(logs_from_document(document).resource_logs)
        else:
            yield from read_span_groups(request_from_document(document).resource_spans, location)
    except BlamespanError as error:
        yield UnreadableInput(f"{location}: {error}")


def read_span_document(document: Mapping[str, Any], location: str) -> Iterator[SpanItem]:
    """Yield the spans of a document as Tempo or Jaeger write it: OTLP-JSON but for names and ids.

    Args:
        document: Holds the spans' groups under `resourceSpans` or `batches`.
        location: Where it stands, for messages.
    """
    try:
        groups = [_group(group, location) for group in _list_objects(document, _GROUPS, location)]
        request = request_from_document({"resourceSpans": groups})
        yield from read_span_groups(request.resource_spans, location)
    except BlamespanError as error:
        yield UnreadableInput(str(error) if str(error).startswith(location) else f"{location}: {error}")


def read_span_groups(groups: Iterable[ResourceSpans], location: str) -> Iterator[SpanItem]:
    """Yield the spans of *groups*, and an error for each that is none."""
    refused: list[MalformedSpan] = []
    yield from spans_from_proto(groups, refused=refused)
    for error in refused:
        yield UnreadableInput(f"{location}: {error}")


def _group(group: Mapping[str, Any], location: str) -> dict[str, Any]:
    scoped: list[dict[str, Any]] = [
        {
            "scope": next((item[key] for key in _SCOPES if key in item), {}),
            "spans": [_span(span, location) for span in _list_objects(item, ("spans",), location)],
        }
        for item in _list_objects(group, _SCOPED, location)
    ]
    return {"resource": group.get("resource") or {}, "scopeSpans": scoped}


def _span(span: Mapping[str, Any], location: str) -> dict[str, Any]:
    links = [_with_hex_ids(link, location) for link in _list_objects(span, ("links",), location)]
    return {**_with_hex_ids(span, location), "links": links}


def _with_hex_ids(owner: Mapping[str, Any], location: str) -> dict[str, Any]:
    """Write the ids as hex; an empty parent is none."""
    ids = {key: read(owner[key], location) for key, read in _IDS.items() if owner.get(key)}
    return {key: value for key, value in owner.items() if key not in _IDS} | ids


def _list_objects(owner: Mapping[str, Any], keys: Iterable[str], location: str) -> list[Mapping[str, Any]]:
    value: object = next((owner[key] for key in keys if owner.get(key)), [])
    if isinstance(value, list) and all(isinstance(item, Mapping) for item in value):
        return value
    raise UnreadableInput(f"{location}: expected {' or '.join(keys)} to list objects, got {str(value)[:60]!r}.")
