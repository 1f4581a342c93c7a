"""Reads request bodies into arrivals: what both receivers share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, TypeVar, cast

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, SpanFlags
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from blamespan.annotate import cut
from blamespan.errors import BlamespanError, MalformedSpan
from blamespan.otlp import request_from_json, spans_from_proto
from blamespan.otlp.proto import ProtoOrigin, resource_header, scope_header
from blamespan_collector.assembler import Arrival

__all__ = ["Busy", "Encoding", "Intake", "Request", "RequestReader"]

Encoding: TypeAlias = Literal["protobuf", "json"]

_Header = TypeVar("_Header", ResourceSpans, ScopeSpans)

_HEADERS = 1024
_HEADER_BYTES = 16 * 1024
"""How many resource and scope headers to share between requests, and how large a shared one may be."""


class Busy(BlamespanError):
    """There is no room for the request now; the sender should try it again after `retry_after_s`."""

    def __init__(self, reason: str, retry_after_s: int = 5) -> None:
        super().__init__(reason)
        self.retry_after_s = retry_after_s


class Intake(Protocol):
    """What the receivers hand their bodies to."""

    async def take(self, body: bytes, encoding: Encoding) -> ExportTraceServiceResponse:
        """Take in one request.

        Raises:
            MalformedSpan: if the body is not an OTLP trace request; trying again cannot help.
            Busy: if there is no room now.
        """
        ...

    def counts(self) -> dict[str, int]:
        """Tell what came in, what is held and what went out."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """One request, read.

    Attributes:
        arrivals: The spans that could be read.
        refused: Why each of the others could not.
    """

    arrivals: list[Arrival]
    refused: list[MalformedSpan]

    def response(self) -> ExportTraceServiceResponse:
        """Answer as OTLP wants it: empty, or how many spans were refused and why the first was."""
        if not self.refused:
            return ExportTraceServiceResponse()
        partial = ExportTracePartialSuccess(
            rejected_spans=len(self.refused),
            error_message=f"{len(self.refused)} spans refused, the first one: {cut(str(self.refused[0]), 500)}",
        )
        return ExportTraceServiceResponse(partial_success=partial)


class RequestReader:
    """Reads bodies; may be used from several threads.

    Each span read is detached from its request: a span that is held for long would otherwise hold the
    whole request in memory. Equal resources and scopes of different requests become one object, so that
    a trace that came in many requests goes out under one resource.
    """

    def __init__(self) -> None:
        self._resources: dict[bytes, ResourceSpans] = {}
        self._scopes: dict[bytes, ScopeSpans] = {}

    def read(self, body: bytes, encoding: Encoding) -> Request:
        """Read one body.

        Raises:
            MalformedSpan: if it is empty, cut off or not an OTLP trace request.
        """
        if not body:
            raise MalformedSpan("expected an OTLP ExportTraceServiceRequest, got an empty body. Send at least one span")
        request = request_from_json(body) if encoding == "json" else _request_from_protobuf(body)
        refused: list[MalformedSpan] = []
        return Request(list(self._arrivals(request, refused)), refused)

    def _arrivals(self, request: ExportTraceServiceRequest, refused: list[MalformedSpan]) -> Iterator[Arrival]:
        # The group is kept beside its header: the id of an object that is gone may be another's
        resources: dict[int, tuple[ResourceSpans, ResourceSpans]] = {}
        scopes: dict[int, tuple[ScopeSpans, ScopeSpans]] = {}
        for span in spans_from_proto(request.resource_spans, refused=refused):
            origin = cast(ProtoOrigin, span.origin)
            copy = ProtoSpan()
            copy.CopyFrom(origin.span)
            size_bytes = copy.ByteSize()
            if id(origin.resource) not in resources:
                header = _shared(self._resources, resource_header(origin.resource))
                resources[id(origin.resource)] = origin.resource, header
                size_bytes += resources[id(origin.resource)][1].ByteSize()
            if id(origin.scope) not in scopes:
                scopes[id(origin.scope)] = origin.scope, _shared(self._scopes, scope_header(origin.scope))
                size_bytes += scopes[id(origin.scope)][1].ByteSize()
            headers = resources[id(origin.resource)][1], scopes[id(origin.scope)][1]
            detached = ProtoOrigin(copy, *headers, origin.attributes)
            yield Arrival(replace(span, origin=detached), size_bytes, _parent_is_remote(copy))


def _shared(known: dict[bytes, _Header], header: _Header) -> _Header:
    key = header.SerializeToString(deterministic=True)
    if len(key) > _HEADER_BYTES:
        return header
    if len(known) >= _HEADERS:
        known.clear()
    return known.setdefault(key, header)


def _request_from_protobuf(body: bytes) -> ExportTraceServiceRequest:
    try:
        request = ExportTraceServiceRequest.FromString(body)
    except DecodeError as error:
        raise MalformedSpan(
            f"expected an OTLP ExportTraceServiceRequest, got {len(body)} bytes that are cut off or something else "
            f"({error}). Send protobuf as application/x-protobuf, JSON as application/json"
        ) from error
    if not request.resource_spans:
        raise MalformedSpan(f"expected an OTLP ExportTraceServiceRequest with spans, got {len(body)} bytes without any")
    return request


def _parent_is_remote(span: ProtoSpan) -> bool | None:
    if not span.flags & SpanFlags.SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK:
        return None
    return bool(span.flags & SpanFlags.SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
