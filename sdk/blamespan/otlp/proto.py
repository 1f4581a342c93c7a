"""OTLP protobuf to our spans and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.trace import SpanKind

from blamespan.errors import MalformedSpan
from blamespan.spans import Attributes, Scope, Span, SpanEvent, SpanLink
from blamespan.trace import AttributeValue, StepStatus

_KINDS = {
    trace_pb2.Span.SPAN_KIND_SERVER: SpanKind.SERVER,
    trace_pb2.Span.SPAN_KIND_CLIENT: SpanKind.CLIENT,
    trace_pb2.Span.SPAN_KIND_PRODUCER: SpanKind.PRODUCER,
    trace_pb2.Span.SPAN_KIND_CONSUMER: SpanKind.CONSUMER,
}  # unspecified reads as INTERNAL, as the specification asks
_KIND_NUMBERS = {kind: number for number, kind in _KINDS.items()} | {
    SpanKind.INTERNAL: trace_pb2.Span.SPAN_KIND_INTERNAL
}
_STATUSES: dict[int, StepStatus] = {
    trace_pb2.Status.STATUS_CODE_OK: "ok",
    trace_pb2.Status.STATUS_CODE_ERROR: "error",
}
_STATUS_NUMBERS: dict[StepStatus, trace_pb2.Status.StatusCode.ValueType] = {
    "unset": trace_pb2.Status.STATUS_CODE_UNSET,
    "ok": trace_pb2.Status.STATUS_CODE_OK,
    "error": trace_pb2.Status.STATUS_CODE_ERROR,
}


@dataclass(frozen=True, slots=True)
class ProtoOrigin:
    """Where a span was read from: its own message, the headers it stood under, its attributes as first read."""

    span: trace_pb2.Span
    resource: trace_pb2.ResourceSpans
    scope: trace_pb2.ScopeSpans
    attributes: Attributes


def spans_from_proto(
    groups: Iterable[trace_pb2.ResourceSpans], *, refused: list[MalformedSpan] | None = None
) -> Iterator[Span]:
    """Read every span of *groups*, in order.

    Args:
        groups: As a request holds them.
        refused: Where given, a span that cannot be read is left out and its error added here.

    Raises:
        MalformedSpan: without *refused*, at the first span whose trace or span id is not 16 or 8 bytes,
            or is all zero.
    """
    for group in groups:
        resource = mapping(group.resource.attributes)
        for scoped in group.scope_spans:
            scope = Scope(scoped.scope.name, scoped.scope.version)
            for span in scoped.spans:
                try:
                    attributes = mapping(span.attributes)
                    read = read_span(span, attributes, resource, scope, ProtoOrigin(span, group, scoped, attributes))
                except MalformedSpan as error:
                    if refused is None:
                        raise
                    refused.append(error)
                    continue
                yield read


def spans_to_proto(spans: Iterable[Span]) -> list[trace_pb2.ResourceSpans]:
    """Write *spans*, grouped under the resources and scopes they came from, first come first.

    A span that was read from protobuf is its own message again, with the attributes added since.
    """
    resources: dict[object, trace_pb2.ResourceSpans] = {}
    scopes: dict[object, trace_pb2.ScopeSpans] = {}
    for span in spans:
        origin = span.origin if isinstance(span.origin, ProtoOrigin) else None
        resource_key: object = id(origin.resource) if origin else repr(sorted(span.resource.items()))
        scope_key = (resource_key, id(origin.scope) if origin else span.scope)
        if resource_key not in resources:
            resources[resource_key] = _resource_header(span, origin)
        if scope_key not in scopes:
            header = _scope_header(span, origin)
            scopes[scope_key] = resources[resource_key].scope_spans.add()
            scopes[scope_key].CopyFrom(header)
        scopes[scope_key].spans.append(_patch(span, origin) if origin else _write(span))
    return list(resources.values())


def any_value(value: AttributeValue) -> AnyValue:
    """Write one attribute value; what OTLP cannot carry becomes its text."""
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, str):
        return AnyValue(string_value=value.encode("utf-8", "replace").decode())
    if isinstance(value, int):
        return AnyValue(int_value=value) if -(2**63) <= value < 2**63 else AnyValue(string_value=str(value))
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, bytes):
        return AnyValue(bytes_value=value)
    if isinstance(value, Mapping):
        return AnyValue(kvlist_value=KeyValueList(values=write_attributes(value)))
    if isinstance(value, Sequence):
        return AnyValue(array_value=ArrayValue(values=[any_value(item) for item in value]))
    return AnyValue()


def resource_header(group: trace_pb2.ResourceSpans) -> trace_pb2.ResourceSpans:
    """Copy *group* without its spans."""
    header = trace_pb2.ResourceSpans(schema_url=group.schema_url)
    if group.HasField("resource"):
        header.resource.CopyFrom(group.resource)
    return header


def scope_header(group: trace_pb2.ScopeSpans) -> trace_pb2.ScopeSpans:
    """Copy *group* without its spans."""
    header = trace_pb2.ScopeSpans(schema_url=group.schema_url)
    if group.HasField("scope"):
        header.scope.CopyFrom(group.scope)
    return header


def read_span(span: trace_pb2.Span, attributes: Attributes, resource: Attributes, scope: Scope, origin: object) -> Span:
    """Read one span.

    Args:
        span: Its message.
        attributes: `mapping` of its attributes.
        resource: `mapping` of its resource's attributes.
        scope: What made it.
        origin: Kept as `Span.origin`.

    Raises:
        MalformedSpan: if its trace or span id is not 16 or 8 bytes, or all zero.
    """
    if len(span.trace_id) != 16 or len(span.span_id) != 8:
        raise MalformedSpan(
            f"span {span.name!r}: expected a trace id of 16 bytes and a span id of 8, "
            f"got {len(span.trace_id)} and {len(span.span_id)}"
        )
    status, parent_id = span.status, span.parent_span_id
    return Span(
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=parent_id.hex() if any(parent_id) else None,
        name=span.name,
        kind=_KINDS.get(span.kind, SpanKind.INTERNAL),
        start_ns=span.start_time_unix_nano,
        end_ns=span.end_time_unix_nano,
        attributes=attributes,
        status=_STATUSES.get(status.code, "unset"),
        status_message=status.message,
        events=tuple([_read_event(event) for event in span.events[:]]),
        links=tuple([_read_link(link) for link in span.links[:]]),
        resource=resource,
        scope=scope,
        origin=origin,
    )


def _read_event(event: trace_pb2.Span.Event) -> SpanEvent:
    return SpanEvent(event.name, event.time_unix_nano, mapping(event.attributes))


def _read_link(link: trace_pb2.Span.Link) -> SpanLink:
    return SpanLink(link.trace_id.hex(), link.span_id.hex(), mapping(link.attributes))


def mapping(attributes: Sequence[KeyValue]) -> dict[str, AttributeValue]:
    """Read attributes; of a key that stands twice, the last value."""
    if not attributes:
        return {}
    # Copied to a list, as protobuf's own iterator takes longer; texts first, as most are
    return {item.key: (value := item.value).string_value or _plain(value) for item in attributes[:]}


def write_attributes(attributes: Attributes) -> list[KeyValue]:
    """Write attributes."""
    return [KeyValue(key=key, value=any_value(value)) for key, value in attributes.items()]


def _plain(value: AnyValue) -> AttributeValue:
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    if kind == "array_value":
        return tuple(_plain(item) for item in value.array_value.values)
    if kind == "kvlist_value":
        return mapping(value.kvlist_value.values)
    plain: AttributeValue = getattr(value, kind)
    return plain


def _patch(span: Span, origin: ProtoOrigin) -> trace_pb2.Span:
    """Copy the span's own message with the attributes that changed since it was read."""
    before = origin.attributes
    if span.attributes is before:
        return origin.span
    changed = {key: value for key, value in span.attributes.items() if key not in before or before[key] != value}
    gone = before.keys() - span.attributes.keys()
    if not changed and not gone:
        return origin.span
    copy = trace_pb2.Span()
    copy.CopyFrom(origin.span)
    unchanged = [item for item in copy.attributes if item.key not in changed and item.key not in gone]
    del copy.attributes[:]
    copy.attributes.extend(unchanged)
    copy.attributes.extend(write_attributes(changed))
    return copy


def _write(span: Span) -> trace_pb2.Span:
    return trace_pb2.Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        parent_span_id=bytes.fromhex(span.parent_id or ""),
        name=span.name,
        kind=_KIND_NUMBERS[span.kind],
        start_time_unix_nano=span.start_ns,
        end_time_unix_nano=span.end_ns,
        attributes=write_attributes(span.attributes),
        status=trace_pb2.Status(code=_STATUS_NUMBERS[span.status], message=span.status_message),
        events=[
            trace_pb2.Span.Event(name=e.name, time_unix_nano=e.time_ns, attributes=write_attributes(e.attributes))
            for e in span.events
        ],
        links=[
            trace_pb2.Span.Link(
                trace_id=bytes.fromhex(link.trace_id),
                span_id=bytes.fromhex(link.span_id),
                attributes=write_attributes(link.attributes),
            )
            for link in span.links
        ],
    )


def _resource_header(span: Span, origin: ProtoOrigin | None) -> trace_pb2.ResourceSpans:
    if origin is None:
        return trace_pb2.ResourceSpans(resource=Resource(attributes=write_attributes(span.resource)))
    return resource_header(origin.resource)


def _scope_header(span: Span, origin: ProtoOrigin | None) -> trace_pb2.ScopeSpans:
    if origin is None:
        return trace_pb2.ScopeSpans(scope=InstrumentationScope(name=span.scope.name, version=span.scope.version))
    return scope_header(origin.scope)
