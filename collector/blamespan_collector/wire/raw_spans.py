"""Spans as the bytes they came in: taken apart, given attributes, put together and cut to size without re-encoding.

Protobuf allows it: a message's bytes followed by more fields of it are the message with these added, so a span
gets attributes by appending them, and two requests become one by standing one after the other. What is not
touched stays byte for byte what the sender wrote, also fields of OTLP versions to come.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from struct import Struct

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2

from blamespan.errors import MalformedSpan
from blamespan.otlp import spans_to_proto
from blamespan.otlp.proto import mapping, read_span, write_attributes
from blamespan.spans import Attributes, Scope, Span
from blamespan.trace import AttributeValue
from blamespan_collector.wire.protobuf import FieldBudget, NotProtobuf, delimit, split, tag_of

_logger = logging.getLogger("blamespan.collector")

_GROUP = tag_of(1)
_SCOPE = _SPAN = _SPAN_ID = tag_of(2)
_SHORT = 64
"""Longest text that is worth remembering in its serialised form."""
_NUMBER = Struct("<d")
"""A floating-point number as protobuf writes it."""


@dataclass(frozen=True, slots=True)
class SpanOrigin:
    """Where a span stood: the serialised fields of its `ResourceSpans` and `ScopeSpans` beside it."""

    resource: bytes
    scope: bytes


@dataclass(frozen=True, slots=True)
class RawSpan:
    """A span as it came; the `origin` of the `Span` read from it.

    Attributes:
        source: Where it stood.
        data: The serialised span.
        attributes: As read from it; None until it is.
    """

    source: SpanOrigin
    data: bytes
    attributes: Attributes | None = None


def raw_spans(request: bytes) -> Iterator[RawSpan]:
    """Take a serialised `ExportTraceServiceRequest` apart; one of logs or metrics into records or metrics.

    Raises:
        MalformedSpan: if it is cut off or something else.
    """
    budget = FieldBudget(sys.maxsize)
    try:
        for group in split(request, 0, len(request), _GROUP, budget)[0]:
            scopes, resource = split(request, group.content, group.end, _SCOPE, budget)
            for scope in scopes:
                spans, beside = split(request, scope.content, scope.end, _SPAN, budget)
                source = SpanOrigin(resource, beside)
                for span in spans:
                    yield RawSpan(source, request[span.content : span.end])
    except NotProtobuf as error:
        raise MalformedSpan(f"expected an OTLP request, got {len(request)} bytes that are not: {error}") from error


def without_repeats(spans: Iterable[RawSpan], span_ids: Container[bytes]) -> list[RawSpan]:
    """Keep the spans of *span_ids*, the first of each id."""
    by_id: dict[bytes, RawSpan] = {}
    for span in spans:
        span_id = _span_id(span.data)
        if span_id in span_ids and span_id not in by_id:
            by_id[span_id] = span
    return list(by_id.values())


def read(spans: Iterable[RawSpan]) -> list[Span]:
    """Decode spans.

    Raises:
        MalformedSpan: if one cannot be.
    """
    reader = _SpanDecoder()
    return [reader.read(span) for span in spans]


def encode(spans: Iterable[Span], added: Mapping[str, Attributes] | None = None) -> list[RawSpan]:
    """Write spans: those that `read` gave as they came with the attributes that changed, others whole.

    Args:
        spans: In order.
        added: Attributes to write beside their own, which these win over, by span id.
    """
    added = added or {}
    return [raw for span in spans for raw in _encode_span(span, added.get(span.span_id, {}))]


def pieces(spans: Sequence[RawSpan], max_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Put spans together as serialised `ExportTraceServiceRequest`s of at most *max_bytes*.

    Spans that follow each other under equal resources and scopes share them. A span that is too large by
    itself makes a request by itself.

    Yields:
        How many spans, and the request.
    """
    piece: list[RawSpan] = []
    size = 0
    for span in spans:
        source = span.source
        # Counted as if it stood alone under its resource and scope: never too little
        more = (
            len(span.data)
            + 24
            + (0 if piece and source == piece[-1].source else len(source.resource) + len(source.scope))
        )
        if piece and size + more > max_bytes:
            yield len(piece), request(piece)
            piece, size = [], 0
            more = len(span.data) + 24 + len(source.resource) + len(source.scope)
        piece.append(span)
        size += more
    if piece:
        yield len(piece), request(piece)


def request(spans: Iterable[RawSpan]) -> bytes:
    """Put spans together as one serialised `ExportTraceServiceRequest`, in order."""
    groups: list[bytes] = []
    for resource, of_resource in groupby(spans, key=lambda span: span.source.resource):
        group = [resource]
        for scope, of_scope in groupby(of_resource, key=lambda span: span.source.scope):
            group.append(delimit(_SCOPE, b"".join([scope, *(delimit(_SPAN, span.data) for span in of_scope)])))
        groups.append(delimit(_GROUP, b"".join(group)))
    return b"".join(groups)


class _SpanDecoder:
    """Decodes spans, each resource and scope once."""

    def __init__(self) -> None:
        self._resources: dict[bytes, Attributes] = {}
        self._scopes: dict[bytes, Scope] = {}

    def read(self, raw: RawSpan) -> Span:
        resource, scope = self._resources.get(raw.source.resource), self._scopes.get(raw.source.scope)
        try:
            if resource is None:
                header = trace_pb2.ResourceSpans.FromString(raw.source.resource)
                resource = self._resources[raw.source.resource] = mapping(header.resource.attributes)
            if scope is None:
                instrumentation = trace_pb2.ScopeSpans.FromString(raw.source.scope).scope
                scope = self._scopes[raw.source.scope] = Scope(instrumentation.name, instrumentation.version)
            message = trace_pb2.Span.FromString(raw.data)
        except DecodeError as error:
            raise MalformedSpan(
                f"expected a serialised span, got {len(raw.data)} bytes that are not ({error})"
            ) from error
        attributes = mapping(message.attributes)
        return read_span(message, attributes, resource, scope, RawSpan(raw.source, raw.data, attributes))


def _encode_span(span: Span, added: Attributes) -> Iterable[RawSpan]:
    origin = span.origin
    if not isinstance(origin, RawSpan) or origin.attributes is None:
        whole = spans_to_proto([span.with_attributes(added)])
        return raw_spans(ExportTraceServiceRequest(resource_spans=whole).SerializeToString())
    before = origin.attributes
    replaced: list[str] = []
    more: list[bytes] = []
    for key, value in (added if span.attributes is before else {**span.attributes, **added}).items():
        if key in before:
            if before[key] == value:
                continue
            replaced.append(key)
        more.append(_attribute(key, value))
    if not more:
        return (origin,)
    data = _without(origin.data, replaced) if replaced else origin.data
    return (RawSpan(origin.source, b"".join([data, *more])),)


def _attribute(key: str, value: AttributeValue) -> bytes:
    """Serialise an attribute as a span's field."""
    if type(value) is float:  # scores: nearly all of them are new
        return _before_number(key) + _NUMBER.pack(value)
    if isinstance(value, int) or (isinstance(value, str) and len(value) <= _SHORT):
        return _known_attribute(key, value)
    return trace_pb2.Span(attributes=write_attributes({key: value})).SerializeToString()


@lru_cache(maxsize=256)
def _before_number(key: str) -> bytes:
    """Serialise all of an attribute but the eight bytes of its number, which come last."""
    return trace_pb2.Span(attributes=write_attributes({key: 0.0})).SerializeToString()[: -_NUMBER.size]


@lru_cache(maxsize=4096, typed=True)  # 1 and True are equal
def _known_attribute(key: str, value: str | int) -> bytes:
    """Do so once for what is written again and again."""
    return trace_pb2.Span(attributes=write_attributes({key: value})).SerializeToString()


def _without(data: bytes, keys: Container[str]) -> bytes:
    """Take attributes out of a serialised span."""
    message = trace_pb2.Span.FromString(data)
    others = [item for item in message.attributes if item.key not in keys]
    del message.attributes[:]
    message.attributes.extend(others)
    return message.SerializeToString()


def _span_id(data: bytes) -> bytes:
    fields, _ = split(data, 0, len(data), _SPAN_ID, FieldBudget(sys.maxsize))
    return data[fields[-1].content : fields[-1].end] if fields else b""  # the last one counts, as in protobuf


def read_what_can_be(payload: bytes) -> list[tuple[RawSpan, Span]]:
    """Read a serialised `ExportTraceServiceRequest`; a span that cannot be read is left out, and told to the log."""
    try:
        every = list(raw_spans(payload))
    except MalformedSpan as error:
        _logger.warning("spans cannot be shown: %s", error)
        return []
    try:
        return list(zip(every, read(every), strict=True))
    except MalformedSpan:  # one of them is to blame: each alone, then
        return [(raw, span) for raw in every for span in _alone(raw)]


def _alone(raw: RawSpan) -> list[Span]:
    try:
        return read([raw])
    except MalformedSpan as error:
        _logger.warning("a span cannot be shown: %s", error)
        return []
