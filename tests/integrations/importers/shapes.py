"""Exports of back ends that cannot be run here, made from recorded spans by the shapes that their documents give.

Jaeger: `model.json` of its UI. Langfuse: the field reference of its blob storage export, and its API's names.
TRAIL: the data set's files.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from blamespan.spans import Span
from tests.integrations.dialects.recordings import traces_of

_TYPES = {bool: "bool", int: "int64", float: "float64", str: "string"}


def jaeger(name: str) -> dict[str, Any]:
    """Write a recording as Jaeger's UI downloads it; lists are JSON text there."""
    return {"data": [_jaeger_trace(spans) for spans in traces_of(name)], "total": 0, "limit": 0, "errors": None}


def _jaeger_trace(spans: list[Span]) -> dict[str, Any]:
    process = {"serviceName": "recorded", "tags": _tags({"telemetry.sdk.language": "python"})}
    return {
        "traceID": spans[0].trace_id,
        "spans": [_jaeger_span(span) for span in spans],
        "processes": {"p1": process},
    }


def _jaeger_span(span: Span) -> dict[str, Any]:
    parents = [{"refType": "CHILD_OF", "traceID": span.trace_id, "spanID": span.parent_id}] if span.parent_id else []
    links = [{"refType": "FOLLOWS_FROM", "traceID": link.trace_id, "spanID": link.span_id} for link in span.links]
    own: dict[str, Any] = {"otel.scope.name": span.scope.name, "span.kind": span.kind.name.lower()}
    if span.status != "unset":
        own["otel.status_code"] = span.status.upper()
    if span.status == "error":
        own |= {"error": True, "otel.status_description": span.status_message}
    logs = [
        {"timestamp": event.time_ns // 1_000, "fields": _tags({"event": event.name, **event.attributes})}
        for event in span.events
    ]
    return {
        "traceID": span.trace_id,
        "spanID": span.span_id,
        "operationName": span.name,
        "references": parents + links,
        "startTime": span.start_ns // 1_000,
        "duration": (span.end_ns - span.start_ns) // 1_000,
        "tags": _tags({**span.attributes, **own}),
        "logs": logs,
        "processID": "p1",
        "warnings": None,
    }


def _tags(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"key": key, "type": _TYPES[type(value)], "value": value}
        if type(value) in _TYPES
        else {"key": key, "type": "string", "value": json.dumps(value)}
        for key, value in attributes.items()
    ]


def langfuse(name: str, *, blob: bool = False) -> list[dict[str, Any]]:
    """Write a recording of Langfuse's spans as its observations: by its API's names, or its blob storage's."""
    rows = [_observation(span) for spans in traces_of(name) for span in spans]
    if not blob:
        return rows
    names = {key: "".join(f"_{c.lower()}" if c.isupper() else c for c in key) for key in rows[0]}
    return [{names[key]: value for key, value in row.items()} | {"project_id": "p"} for row in rows]


def _observation(span: Span) -> dict[str, Any]:
    prefix = "langfuse.observation."
    found = {key.removeprefix(prefix): value for key, value in span.attributes.items() if key.startswith(prefix)}
    metadata = {key.removeprefix("metadata."): value for key, value in found.items() if key.startswith("metadata.")}
    return {
        "id": span.span_id,
        "traceId": span.trace_id,
        "type": str(found["type"]).upper(),
        "parentObservationId": span.parent_id,
        "startTime": _time(span.start_ns),
        "endTime": _time(span.end_ns),
        "name": span.name,
        "metadata": {key: _parsed(value) for key, value in metadata.items()},
        "level": "ERROR" if span.status == "error" else "DEFAULT",
        "statusMessage": span.status_message or None,
        "input": found.get("input"),
        "output": found.get("output"),
        "providedModelName": found.get("model.name"),
        "usageDetails": _parsed(found.get("usage_details")),
    }


def _parsed(value: Any) -> Any:
    try:
        return json.loads(value)
    except (TypeError, ValueError):
        return value


def _time(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")


def trail(name: str) -> dict[str, Any]:
    """Write a recording of OpenInference's spans as TRAIL nests them."""
    [spans] = traces_of(name)
    nested: dict[str, dict[str, Any]] = {
        span.span_id: {
            "timestamp": _time(span.start_ns).replace(" ", "T") + "Z",
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "parent_span_id": span.parent_id,
            "span_name": span.name,
            "span_kind": "Internal",
            "resource_attributes": dict(span.resource),
            "scope_name": span.scope.name,
            "scope_version": span.scope.version,
            "span_attributes": dict(span.attributes),
            "duration": f"PT{(span.end_ns - span.start_ns) / 1e9:.9f}S",
            "status_code": span.status.capitalize(),
            "status_message": span.status_message,
            "events": [],
            "child_spans": [],
        }
        for span in spans
    }
    for span in spans:
        if span.parent_id in nested:
            nested[span.parent_id]["child_spans"].append(nested[span.span_id])
    tops = [nested[span.span_id] for span in spans if span.parent_id not in nested]
    return {"trace_id": spans[0].trace_id, "spans": tops}
