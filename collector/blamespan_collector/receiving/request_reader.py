"""Reads request bodies into journal entries: per trace of a request, its spans byte for byte as they came."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, SpanFlags
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from blamespan import conventions
from blamespan.annotate import cut
from blamespan.errors import MalformedSpan
from blamespan_collector.journal import PARENT_IS_REMOTE, REMOTE_IS_KNOWN, RUN_COMPLETE, NewEntry
from blamespan_collector.journal.entries import pack_keys
from blamespan_collector.receiving.foreign_verdicts import (
    MARKS,
    resource_without_verdicts,
    scope_without_verdicts,
    span_without_verdicts,
)
from blamespan_collector.receiving.log_messages import message_entries
from blamespan_collector.receiving.nesting import MAX_DEPTH, BoundedReader
from blamespan_collector.receiving.request_json import protobuf_of_json
from blamespan_collector.receiving.signals import SERVICES, ExportResponse, OtlpService
from blamespan_collector.wire.protobuf import (
    Field,
    FieldBudget,
    NotProtobuf,
    TooDeep,
    TooManyFields,
    delimit,
    spend,
    split,
    tag_of,
)

Encoding: TypeAlias = Literal["protobuf", "json"]
_Ids: TypeAlias = tuple[bytes, bytes, bytes]

_GROUP = tag_of(1)
_SCOPE = _SPAN = tag_of(2)
_NO_TRACE, _NO_SPAN = bytes(16), bytes(8)
_MAX_HEADER_BYTES = 1024 * 1024
"""Largest resource or scope: it goes with every trace under it."""
_RESOURCES, _SCOPES, _SPANS = BoundedReader(ResourceSpans, 1), BoundedReader(ScopeSpans, 2), BoundedReader(ProtoSpan, 3)
_REQUESTS: dict[str, BoundedReader[Any]] = {
    service.signal: BoundedReader(service.request, 0) for service in SERVICES if service.signal != "traces"
}
_REMOTE_MASK = SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK
_IS_REMOTE = SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK
_TOO_DEEP = f"expected at most {MAX_DEPTH} messages in each other below the request, got more"


class TooLarge(MalformedSpan):
    """A request holds more than is taken at once; in smaller pieces it may work."""


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """How much one request may hold, beside its size.

    Attributes:
        spans: Spans in it; a request with more is refused whole.
        attributes: Attributes, events and links of one span, each; a span with more is refused alone.
        span_bytes: Size of one span; a larger one is refused alone.
        span_fields: Fields of one span and all that is nested in it: two bytes can stand for an object of fifty.
        fields: The same of a whole request of logs or metrics.
    """

    spans: int = 50_000
    attributes: int = 1024
    span_bytes: int = 8 * 1024 * 1024
    span_fields: int = 200_000
    fields: int = 2_000_000


@dataclass(frozen=True, slots=True)
class Request:
    """One request, read.

    Attributes:
        service: Where it was sent.
        entries: What is to be written; none where nothing could be read or nothing was there.
        spans: How many spans could be read.
        refused: How many could not.
        reason: Why the first of these could not.
    """

    service: OtlpService
    entries: list[NewEntry]
    spans: int = 0
    refused: int = 0
    reason: str = ""

    def response(self) -> ExportResponse:
        """Answer as OTLP wants it: empty, or how many spans were refused and why the first was."""
        if not self.refused:
            return self.service.response()
        partial = ExportTracePartialSuccess(
            rejected_spans=self.refused,
            error_message=f"{self.refused} spans refused, the first one: {cut(self.reason, 500)}",
        )
        return ExportTraceServiceResponse(partial_success=partial)


@dataclass(slots=True)
class _Trace:
    keys: list[tuple[bytes, bytes, int]] = field(default_factory=list)
    groups: bytearray = field(default_factory=bytearray)
    """Its resources that are done."""
    scopes: bytearray = field(default_factory=bytearray)
    """Its scopes, under the present resource, that are done."""
    spans: bytearray = field(default_factory=bytearray)
    """Its spans under the present scope."""


class RequestReader:
    """Reads bodies; may be used from several threads.

    Args:
        limits: How much a body may hold.
    """

    def __init__(self, limits: RequestLimits | None = None) -> None:
        self._limits = limits or RequestLimits()

    def read(self, service: OtlpService, body: bytes, encoding: Encoding, received_ns: int) -> Request:
        """Read one body. A protobuf body of no bytes is a request without data, and fine.

        Raises:
            TooLarge: if it holds too much.
            MalformedSpan: if it is cut off or something else.
        """
        if encoding == "json":
            body = protobuf_of_json(body, service)
        try:
            if service.signal == "traces":
                return _TraceRequest(service, body, self._limits).read(received_ns)
            return self._read_opaque(service, body, received_ns)
        except TooManyFields as error:
            raise TooLarge(
                f"expected at most {self._limits.spans} spans or records in a request, got more, or more fields than "
                "they could have. Send smaller batches"
            ) from error
        except TooDeep as error:
            raise MalformedSpan(f"{_TOO_DEEP}. Send flatter values") from error
        except (NotProtobuf, DecodeError) as error:
            raise MalformedSpan(
                f"expected an OTLP {service.request.DESCRIPTOR.name}, got {len(body)} bytes that are cut off or "
                f"something else ({error}). Send protobuf as application/x-protobuf, JSON as application/json"
            ) from error

    def _read_opaque(self, service: OtlpService, body: bytes, received_ns: int) -> Request:
        budget = FieldBudget(self._limits.spans)
        groups, _ = split(body, 0, len(body), _GROUP, budget)
        for group in groups:
            scopes, _ = split(body, group.content, group.end, _SCOPE, budget)
            for scope in scopes:
                split(body, scope.content, scope.end, _SPAN, budget)
        if len(body) > 2 * self._limits.fields:  # a smaller one cannot have more
            spend(body, 0, len(body), service.request.DESCRIPTOR, FieldBudget(self._limits.fields), MAX_DEPTH)
        _REQUESTS[service.signal].read_one(body)
        if body and not groups:
            raise _without_any(service, body)
        entries = [NewEntry(service.signal, b"", b"", body, received_ns)] if groups else []
        if service.signal == "logs":
            entries += message_entries(body, received_ns)
        return Request(service, entries)


class _TraceRequest:
    """Cuts one request into its traces."""

    def __init__(self, service: OtlpService, body: bytes, limits: RequestLimits) -> None:
        self._service = service
        self._body = body
        self._limits = limits
        self._traces: dict[bytes, _Trace] = {}
        self._spans = 0
        self._refused = 0
        self._reason = ""

    def read(self, received_ns: int) -> Request:
        body = self._body
        budget = FieldBudget(4 * self._limits.spans)
        groups, others = split(body, 0, len(body), _GROUP, budget)
        if others:  # they are not kept, but a request that nobody else could read is refused
            ExportTraceServiceRequest.FromString(others)
        if body and not groups:
            raise _without_any(self._service, body)
        for group in groups:
            self._read_group(group, budget)
        if self._spans + self._refused > self._limits.spans:
            raise TooManyFields("too many spans")
        entries = [
            NewEntry("traces", trace_id, pack_keys(trace.keys), bytes(trace.groups), received_ns)
            for trace_id, trace in self._traces.items()
        ]
        return Request(self._service, entries, self._spans, self._refused, self._reason)

    def _read_group(self, group: Field, budget: FieldBudget) -> None:
        scopes, header = split(self._body, group.content, group.end, _SCOPE, budget)
        _check_header(header)
        _RESOURCES.read_one(header)
        header = resource_without_verdicts(header)
        touched: dict[bytes, _Trace] = {}
        for scope in scopes:
            touched |= self._read_scope(scope, budget)
        for trace in touched.values():
            trace.groups += delimit(_GROUP, header + trace.scopes)
            trace.scopes.clear()

    def _read_scope(self, scope: Field, budget: FieldBudget) -> dict[bytes, _Trace]:
        spans, header = split(self._body, scope.content, scope.end, _SPAN, budget)
        _check_header(header)
        _SCOPES.read_one(header)
        header = scope_without_verdicts(header)
        touched: dict[bytes, _Trace] = {}
        for span, whole, (trace_id, span_id, parent_id) in self._read_spans(spans):
            flags = _flags(span)
            if MARKS.search(whole):
                flags |= _completeness_flag(span)
                renamed = span_without_verdicts(span)
                whole = whole if renamed is None else delimit(_SPAN, renamed)
            trace = touched.get(trace_id)
            if trace is None:
                trace = touched[trace_id] = self._traces.setdefault(trace_id, _Trace())
            trace.spans += whole
            trace.keys.append((span_id, parent_id, flags))
        for trace in touched.values():
            trace.scopes += delimit(_SCOPE, header + trace.spans)
            trace.spans.clear()
        return touched

    def _read_spans(self, fields_of_spans: Sequence[Field]) -> Iterator[tuple[ProtoSpan, bytes, _Ids]]:
        """Yield the spans that can be read later, each with its bytes and ids; refuse the others."""
        for group in self._divide(fields_of_spans):
            fields = [self._body[at.start : at.end] for at in group]
            for at, span, whole in zip(group, self._decode(group, fields), fields, strict=True):
                try:
                    if span is None:
                        span = self._read_alone(at, whole)
                    ids = self._check_span(span, at)
                except MalformedSpan as error:
                    self._refused += 1
                    self._reason = self._reason or str(error)
                    continue
                self._spans += 1
                yield span, whole, ids

    def _divide(self, spans: Sequence[Field]) -> Iterator[Sequence[Field]]:
        """Divide spans into groups that are read at once: no larger than a span whose fields need not be counted."""
        most_bytes = 2 * self._limits.span_fields
        while spans:
            count = len(spans)
            if spans[-1].end - spans[0].start > most_bytes:  # nearly none is
                count = max(1, bisect_right(spans, spans[0].start + most_bytes, key=lambda at: at.end))
            yield spans[:count]
            spans = spans[count:]

    def _decode(self, spans: Sequence[Field], fields: Sequence[bytes]) -> Sequence[ProtoSpan | None]:
        """Decode spans at once; none of them where one cannot be, or must be looked at more closely."""
        if spans[0].end - spans[0].start <= 2 * self._limits.span_fields:
            try:
                return _SPANS.read(b"".join(fields))
            except (DecodeError, NotProtobuf):
                pass
        return [None] * len(spans)

    def _read_alone(self, at: Field, whole: bytes) -> ProtoSpan:
        limits, size_bytes = self._limits, at.end - at.content
        if size_bytes > limits.span_bytes:
            raise MalformedSpan(f"expected at most {limits.span_bytes} bytes in a span, got {size_bytes}")
        try:
            if size_bytes > 2 * limits.span_fields:  # a smaller one cannot have more
                spend(self._body, at.content, at.end, ProtoSpan.DESCRIPTOR, FieldBudget(limits.span_fields))
            return _SPANS.read(whole)[0]
        except TooDeep as error:
            raise MalformedSpan(f"{_TOO_DEEP} in a span") from error
        except (DecodeError, NotProtobuf) as error:
            raise MalformedSpan(f"expected a span, got {size_bytes} bytes of something else") from error
        except TooManyFields as error:
            raise MalformedSpan(f"expected at most {limits.span_fields} values in a span, got more") from error

    def _check_span(self, span: ProtoSpan, at: Field) -> _Ids:
        """Return the ids of a span that is within its limits."""
        limits, size_bytes = self._limits, at.end - at.content
        if size_bytes > limits.span_bytes:
            raise MalformedSpan(f"expected at most {limits.span_bytes} bytes in a span, got {size_bytes}")
        if size_bytes > 2 * limits.attributes:  # each takes two bytes at least: counting them takes longer than this
            most = max(len(span.attributes), len(span.events), len(span.links))
            if most > limits.attributes:
                raise MalformedSpan(
                    f"span {span.name!r}: expected at most {limits.attributes} attributes, events or links, got {most}"
                )
        return _checked_ids(span)


def _checked_ids(span: ProtoSpan) -> _Ids:
    """Return the ids of trace, span and parent."""
    trace_id, span_id, parent_id = span.trace_id, span.span_id, span.parent_span_id
    if len(trace_id) != 16 or len(span_id) != 8:
        raise MalformedSpan(
            f"span {span.name!r}: expected a trace id of 16 bytes and a span id of 8, "
            f"got {len(trace_id)} and {len(span_id)}"
        )
    if trace_id == _NO_TRACE or span_id == _NO_SPAN:
        raise MalformedSpan(f"span {span.name!r}: expected ids that are not all zero")
    if parent_id and len(parent_id) != 8:
        raise MalformedSpan(f"span {span.name!r}: expected a parent id of 8 bytes, got {len(parent_id)}")
    return trace_id, span_id, parent_id


def _flags(span: ProtoSpan) -> int:
    if span.flags & _REMOTE_MASK:
        return REMOTE_IS_KNOWN | (PARENT_IS_REMOTE if span.flags & _IS_REMOTE else 0)
    return 0


def _completeness_flag(span: ProtoSpan) -> int:
    values = [item.value.bool_value for item in span.attributes if item.key == conventions.RUN_COMPLETE]
    return RUN_COMPLETE if values and values[-1] else 0


def _check_header(header: bytes) -> None:
    if len(header) > _MAX_HEADER_BYTES:
        raise TooLarge(f"expected resources and scopes of at most {_MAX_HEADER_BYTES} bytes, got one of {len(header)}")


def _without_any(service: OtlpService, body: bytes) -> MalformedSpan:
    what = "spans" if service.signal == "traces" else service.signal
    name = service.request.DESCRIPTOR.name
    return MalformedSpan(f"expected an OTLP {name} with {what}, got {len(body)} bytes without any")
