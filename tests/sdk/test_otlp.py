"""The codecs lose nothing: protobuf, OTLP-JSON and the SDK's objects to our spans and back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2
from opentelemetry.proto_json.collector.trace.v1.trace_service import ExportTraceServiceRequest as ReferenceJson
from opentelemetry.trace import SpanKind

from blamespan.errors import MalformedSpan
from blamespan.otlp import (
    request_from_json,
    request_to_json,
    spans_from_json,
    spans_from_proto,
    spans_to_json,
    spans_to_proto,
)
from blamespan.otlp.sdk import span_from_sdk, span_to_sdk
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import rebuild
from blamespan.spans import SpanEvent, SpanLink
from blamespan.testing import SpanRecorder
from blamespan.trace import MessageActionTrace
from tests.sdk.builders import span
from tests.sdk.strategies import traces


def rich_request() -> ExportTraceServiceRequest:
    """A request that uses every field that OTLP has."""
    nested = KeyValueList(values=[KeyValue(key="k", value=AnyValue(double_value=0.5))])
    values = [
        KeyValue(key="text", value=AnyValue(string_value="ü\n")),
        KeyValue(key="yes", value=AnyValue(bool_value=True)),
        KeyValue(key="big", value=AnyValue(int_value=-(2**63))),
        KeyValue(key="raw", value=AnyValue(bytes_value=b"\x00\xff")),
        KeyValue(key="list", value=AnyValue(array_value=ArrayValue(values=[AnyValue(int_value=1), AnyValue()]))),
        KeyValue(key="map", value=AnyValue(kvlist_value=nested)),
        KeyValue(key="nothing", value=AnyValue()),
    ]
    span_message = trace_pb2.Span(
        trace_id=bytes(range(16)),
        span_id=bytes(range(1, 9)),
        parent_span_id=bytes(range(2, 10)),
        trace_state="vendor=1",
        flags=0x301,
        name="op",
        kind=trace_pb2.Span.SPAN_KIND_PRODUCER,
        start_time_unix_nano=2**63,
        end_time_unix_nano=2**63 + 5,
        attributes=values,
        dropped_attributes_count=3,
        events=[trace_pb2.Span.Event(name="e", time_unix_nano=7, attributes=values[:1], dropped_attributes_count=2)],
        dropped_events_count=4,
        links=[
            trace_pb2.Span.Link(
                trace_id=bytes(16 * [9]), span_id=bytes(8 * [9]), trace_state="a=b", flags=1, attributes=values[:2]
            )
        ],
        dropped_links_count=5,
        status=trace_pb2.Status(code=trace_pb2.Status.STATUS_CODE_ERROR, message="no"),
    )
    scoped = trace_pb2.ScopeSpans(
        scope=InstrumentationScope(name="s", version="1", attributes=values[:1], dropped_attributes_count=1),
        spans=[span_message],
        schema_url="https://example.com/scope",
    )
    group = trace_pb2.ResourceSpans(
        resource=Resource(attributes=values[:1], dropped_attributes_count=6),
        scope_spans=[scoped],
        schema_url="https://example.com/resource",
    )
    return ExportTraceServiceRequest(resource_spans=[group])


def test_protobuf_comes_back_as_it_was() -> None:
    """Reading and writing a span keeps every field, also those our record has no name for."""
    request = rich_request()

    assert spans_to_proto(spans_from_proto(request.resource_spans)) == list(request.resource_spans)


def test_added_attributes_are_all_that_changes() -> None:
    """An annotated span is the original message with attributes at its end."""
    [before] = spans_from_proto(rich_request().resource_spans)

    [group] = spans_to_proto([before.with_attributes({"blamespan.blame.score": 0.5, "text": "new"})])
    after = group.scope_spans[0].spans[0]

    expected = rich_request().resource_spans[0].scope_spans[0].spans[0]
    del expected.attributes[0]
    expected.attributes.extend(
        [
            KeyValue(key="blamespan.blame.score", value=AnyValue(double_value=0.5)),
            KeyValue(key="text", value=AnyValue(string_value="new")),
        ]
    )
    assert sorted(after.attributes, key=lambda item: item.key) == sorted(expected.attributes, key=lambda item: item.key)
    del after.attributes[:], expected.attributes[:]
    assert after == expected


@given(traces())
@settings(max_examples=50, deadline=None)
def test_runs_survive_protobuf_and_json(trace: MessageActionTrace) -> None:
    """A run written to OTLP-JSON and read back is the same run."""
    assert rebuild(spans_from_json(spans_to_json(emit(trace)))) == trace


def test_json_is_what_the_reference_writes() -> None:
    """Our OTLP-JSON is OpenTelemetry's own: hex ids, 64-bit integers as strings, enums as numbers."""
    request = rich_request()
    del request.resource_spans[0].scope_spans[0].spans[0].attributes[4:]  # the reference drops empty values in lists

    ours = request_to_json(request)

    assert json.loads(ReferenceJson.from_json(ours).to_json()) == json.loads(ours)
    assert request_from_json(ours) == request


def test_json_takes_enums_by_name_and_ignores_unknown_fields() -> None:
    """Other writers' habits are read too."""
    text = request_to_json(rich_request()).replace('"kind":4', '"kind":"SPAN_KIND_PRODUCER","novel":{"a":1}')

    assert request_from_json(text) == rich_request()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "got no JSON"),
        (b"{", "got no JSON"),
        (b"\xff\xfe", "got no JSON"),
        (b"[]", "got 'list'"),
        (b'{"a": 1}', r"'resourceSpans', got \['a'\]"),
        (b'{"resourceSpans": 3}', "a field that is not"),
        (b'{"resourceSpans": [3]}', "must list objects, got int"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "zz"}]}]}]}', "hex digits, got 'zz'"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 5}]}]}]}', "a field that is not"),
        (b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "-"}]}]}]}', "a field that is not"),
        (b"[" * 100_000, "got no JSON"),
    ],
)
def test_bodies_that_are_no_otlp_json_are_refused(body: bytes, message: str) -> None:
    """What is no OTLP-JSON is named as such, never half read."""
    with pytest.raises(MalformedSpan, match=message):
        request_from_json(body)


@pytest.mark.parametrize(("trace_id", "span_id"), [(b"", b"12345678"), (b"1" * 16, b"1"), (bytes(16), b"12345678")])
def test_spans_with_bad_ids_are_refused(trace_id: bytes, span_id: bytes) -> None:
    """A span that cannot be placed is malformed."""
    bad = trace_pb2.Span(trace_id=trace_id, span_id=span_id)
    groups = [trace_pb2.ResourceSpans(scope_spans=[trace_pb2.ScopeSpans(spans=[bad])])]

    with pytest.raises(MalformedSpan):
        list(spans_from_proto(groups))


def test_spans_of_one_resource_are_written_together() -> None:
    """Grouping is kept: one resource and scope header for all of their spans."""
    [group] = spans_to_proto([span(1, "a"), span(2, "b"), replace(span(3, "c"), kind=SpanKind.CLIENT)])

    assert [s.name for s in group.scope_spans[0].spans] == ["a", "b", "c"]


def test_sdk_span_unchanged_is_the_same_object() -> None:
    """In process nothing is copied that was not annotated."""
    recorder = SpanRecorder()
    recorder.provider.get_tracer("t").start_span("op").end()
    [original] = recorder.finished()

    assert span_to_sdk(span_from_sdk(original)) is original


def test_sdk_span_keeps_everything_but_the_added_attributes() -> None:
    """An annotated SDK span differs in attributes alone."""
    recorder = SpanRecorder()
    recorder.provider.get_tracer("t", "2").start_span("op", attributes={"a": (1, 2)}, kind=SpanKind.CLIENT).end()
    [original] = recorder.finished()

    written = span_to_sdk(span_from_sdk(original).with_attributes({"b": 0.5}))

    assert dict(written.attributes or {}) == {"a": (1, 2), "b": 0.5}
    assert json.loads(written.to_json()) | {"attributes": 0} == json.loads(original.to_json()) | {"attributes": 0}


def test_our_span_survives_the_sdk() -> None:
    """A span of ours written for the SDK's exporters reads back the same."""
    ours = span(
        1,
        "op",
        parent=2,
        status="error",
        status_message="no",
        events=(SpanEvent("e", 5, {"x": 1}),),
        links=(SpanLink(f"{3:032x}", f"{4:016x}", {"y": "z"}),),
        resource={"service.name": "s"},
    )

    assert span_from_sdk(span_to_sdk(ours)) == ours
