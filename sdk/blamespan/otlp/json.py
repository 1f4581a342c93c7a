"""OTLP-JSON to OTLP protobuf and back.

OTLP-JSON is protobuf's JSON mapping but for the ids, which are hex instead of base64. Protobuf's own
mapping does the rest: it takes enums as names or numbers, 64-bit integers as strings or numbers, and
ignores unknown fields, as the specification asks of receivers.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, EntityRef, KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2

from blamespan.errors import MalformedSpan
from blamespan.json_text import parse_deep_json
from blamespan.otlp.plain import plain_request
from blamespan.otlp.proto import spans_from_proto, spans_to_proto
from blamespan.spans import Span

_GROUPS = ("resourceSpans", "resource_spans")
_SCOPED = ("scopeSpans", "scope_spans")
_IDS = ("traceId", "trace_id", "spanId", "span_id", "parentSpanId", "parent_span_id")


_VALUE_NAMES = {
    "string_value": "stringValue",
    "bool_value": "boolValue",
    "int_value": "intValue",
    "double_value": "doubleValue",
    "bytes_value": "bytesValue",
    "string_value_strindex": "stringValueStrindex",
}


def request_from_json(body: bytes | str) -> ExportTraceServiceRequest:
    """Read one OTLP-JSON document.

    Raises:
        MalformedSpan: if it is not JSON, not an object with `resourceSpans`, or a field has the wrong type.
    """
    try:
        document = parse_deep_json(body)
    except ValueError as error:
        raise MalformedSpan(f"expected OTLP-JSON, got no JSON: {error}") from error
    return request_from_document(document)


def request_from_document(document: Any) -> ExportTraceServiceRequest:
    """Read one OTLP-JSON document that was parsed; it may be changed.

    Raises:
        MalformedSpan: if it is no object with `resourceSpans`, or a field has the wrong type.
    """
    if not isinstance(document, dict) or not any(key in document for key in _GROUPS):
        description = sorted(document)[:5] if isinstance(document, dict) else type(document).__name__
        raise MalformedSpan(f"expected an OTLP-JSON object with 'resourceSpans', got {description!r}")
    plain = plain_request(document)
    if plain is not None:
        return plain
    try:
        _recode_ids(document, _base64_of_hex)
        return json_format.ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except (json_format.ParseError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise MalformedSpan(f"expected OTLP-JSON, got a field that is not: {error}") from error


def spans_to_json(spans: Iterable[Span]) -> str:
    """Write spans as one OTLP-JSON document on one line, without a line end."""
    return request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(spans)))


def spans_from_json(body: bytes | str) -> list[Span]:
    """Read the spans of one OTLP-JSON document, in order.

    Raises:
        MalformedSpan: if it is none, or holds a span that cannot be read.
    """
    return list(spans_from_proto(request_from_json(body).resource_spans))


def request_to_json(request: ExportTraceServiceRequest) -> str:
    """Write one OTLP-JSON document on one line, without a line end."""
    return json.dumps(request_to_document(request), ensure_ascii=False, separators=(",", ":"))


def request_to_document(request: ExportTraceServiceRequest) -> dict[str, Any]:
    """Write one OTLP-JSON document as `json.dumps` takes it.

    By hand, field by field: protobuf's own `MessageToDict` takes three times as long.
    """
    return {"resourceSpans": [_resource_spans(group) for group in request.resource_spans]}


def _recode_ids(document: dict[str, Any], recode: Callable[[str], str]) -> None:
    for group in _each(document, _GROUPS):
        for scoped in _each(group, _SCOPED):
            for span in _each(scoped, ("spans",)):
                for owner in (span, *_each(span, ("links",))):
                    for key in _IDS:
                        if key in owner:
                            owner[key] = recode(owner[key])


def _each(owner: dict[str, Any], keys: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield the objects listed under any of *keys*; null reads as empty, as in protobuf's mapping."""
    for key in keys:
        for item in owner.get(key) or ():
            if not isinstance(item, dict):
                raise TypeError(f"{key!r} must list objects, got {type(item).__name__}")
            yield item


def _base64_of_hex(text: str) -> str:
    try:
        return base64.b64encode(bytes.fromhex(text)).decode()
    except ValueError as error:
        raise ValueError(f"an id must be hex digits, got {text!r}") from error


def _resource_spans(group: trace_pb2.ResourceSpans) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if group.HasField("resource"):
        fields["resource"] = _some(
            attributes=_attributes(group.resource.attributes),
            droppedAttributesCount=group.resource.dropped_attributes_count,
            entityRefs=[_entity(one) for one in group.resource.entity_refs],
        )
    return {**fields, **_some(scopeSpans=[_scope_spans(one) for one in group.scope_spans], schemaUrl=group.schema_url)}


def _entity(entity: EntityRef) -> dict[str, Any]:
    return _some(
        schemaUrl=entity.schema_url,
        type=entity.type,
        idKeys=list(entity.id_keys),
        descriptionKeys=list(entity.description_keys),
    )


def _scope_spans(group: trace_pb2.ScopeSpans) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if group.HasField("scope"):
        scope = group.scope
        fields["scope"] = _some(
            name=scope.name,
            version=scope.version,
            attributes=_attributes(scope.attributes),
            droppedAttributesCount=scope.dropped_attributes_count,
        )
    return {**fields, **_some(spans=[_span(span) for span in group.spans], schemaUrl=group.schema_url)}


def _span(span: trace_pb2.Span) -> dict[str, Any]:
    fields = _some(
        traceId=span.trace_id.hex(),
        spanId=span.span_id.hex(),
        traceState=span.trace_state,
        parentSpanId=span.parent_span_id.hex(),
        flags=span.flags,
        name=span.name,
        kind=span.kind,
        startTimeUnixNano=_long(span.start_time_unix_nano),
        endTimeUnixNano=_long(span.end_time_unix_nano),
        attributes=_attributes(span.attributes),
        droppedAttributesCount=span.dropped_attributes_count,
        events=[_event(event) for event in span.events],
        droppedEventsCount=span.dropped_events_count,
        links=[_link(link) for link in span.links],
        droppedLinksCount=span.dropped_links_count,
    )
    if span.HasField("status"):
        fields["status"] = _some(message=span.status.message, code=span.status.code)
    return fields


def _event(event: trace_pb2.Span.Event) -> dict[str, Any]:
    return _some(
        timeUnixNano=_long(event.time_unix_nano),
        name=event.name,
        attributes=_attributes(event.attributes),
        droppedAttributesCount=event.dropped_attributes_count,
    )


def _link(link: trace_pb2.Span.Link) -> dict[str, Any]:
    return _some(
        traceId=link.trace_id.hex(),
        spanId=link.span_id.hex(),
        traceState=link.trace_state,
        attributes=_attributes(link.attributes),
        droppedAttributesCount=link.dropped_attributes_count,
        flags=link.flags,
    )


def _some(**fields: Any) -> dict[str, Any]:
    """Leave out what is empty or 0, as protobuf's mapping does."""
    return {name: value for name, value in fields.items() if value}


def _long(value: int) -> str:
    """Write a 64-bit integer: as text, and 0 as nothing."""
    return str(value) if value else ""


def _attributes(attributes: Iterable[KeyValue]) -> list[dict[str, Any]]:
    return [
        {
            **({"key": item.key} if item.key else {}),
            **({"value": _value(item.value)} if item.HasField("value") else {}),
            **({"keyStrindex": item.key_strindex} if item.key_strindex else {}),
        }
        for item in attributes
    ]


def _value(value: AnyValue) -> dict[str, Any]:
    kind = value.WhichOneof("value")
    if kind is None:
        return {}
    if kind == "array_value":
        return {"arrayValue": _some(values=[_value(item) for item in value.array_value.values])}
    if kind == "kvlist_value":
        return {"kvlistValue": _some(values=_attributes(value.kvlist_value.values))}
    plain = getattr(value, kind)
    if kind == "int_value":
        plain = str(plain)
    elif kind == "bytes_value":
        plain = base64.b64encode(plain).decode()
    elif kind == "double_value" and not math.isfinite(plain):
        plain = "NaN" if math.isnan(plain) else "Infinity" if plain > 0 else "-Infinity"
    return {_VALUE_NAMES.get(kind, kind): plain}
