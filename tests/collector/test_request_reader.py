"""Requests are cut into traces byte for byte, and no request can make us read more than its limits allow."""

from __future__ import annotations

import contextlib
import json
import resource
import sys
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from blamespan.errors import MalformedSpan
from blamespan.otlp import request_to_json
from blamespan_collector.journal import PARENT_IS_REMOTE, REMOTE_IS_KNOWN, RUN_COMPLETE
from blamespan_collector.journal.entries import unpack_keys
from blamespan_collector.receiving.request_reader import Encoding, Request, RequestLimits, RequestReader, TooLarge
from blamespan_collector.receiving.signals import SERVICES
from blamespan_collector.wire.protobuf import FieldBudget, NotProtobuf, TooManyFields, delimit, spend
from blamespan_collector.wire.raw_spans import raw_spans, without_repeats
from tests.collector.fakes import request, run

TRACES, LOGS, _ = SERVICES
MIB = 1024 * 1024
SPAN = ProtoSpan(trace_id=b"t" * 16, span_id=b"s" * 8).SerializeToString()


def read(body: bytes, encoding: Encoding = "protobuf", limits: RequestLimits | None = None) -> Request:
    return RequestReader(limits).read(TRACES, body, encoding, 7)


def spans_in(payload: bytes) -> list[tuple[bytes, bytes, bytes]]:
    """Each span with the resource and scope it stands under."""
    return [
        (group.resource.SerializeToString(), scoped.scope.SerializeToString(), span.SerializeToString())
        for group in ExportTraceServiceRequest.FromString(payload).resource_spans
        for scoped in group.scope_spans
        for span in scoped.spans
    ]


@st.composite
def requests(draw: st.DrawFn) -> ExportTraceServiceRequest:
    whole = ExportTraceServiceRequest()
    numbers = iter(range(1, 1000))
    for number in range(draw(st.integers(0, 3))):
        group = whole.resource_spans.add(schema_url=draw(st.text(max_size=3)))
        group.resource.attributes.add(key="r").value.int_value = number
        for scope in range(draw(st.integers(0, 3))):
            scoped = group.scope_spans.add()
            scoped.scope.name = f"scope{scope}"
            for _ in range(draw(st.integers(0, 4))):
                trace_id = bytes([draw(st.integers(1, 3))] * 16)
                scoped.spans.add(
                    trace_id=trace_id, span_id=next(numbers).to_bytes(8, "big"), name=draw(st.text(max_size=9))
                )
    return whole


@given(requests())
@settings(max_examples=200, deadline=None)
def test_cutting_loses_and_changes_nothing(whole: ExportTraceServiceRequest) -> None:
    """The spans of all entries are those of the request, each under its own resource and scope, in order per trace."""
    sent = spans_in(whole.SerializeToString())
    taken = read(whole.SerializeToString()) if whole.resource_spans else Request(TRACES, [])
    found = [(entry, spans_in(entry.payload)) for entry in taken.entries]

    assert sorted(span for _, spans in found for span in spans) == sorted(sent)
    for entry, spans in found:
        of_trace = [one for one in sent if ProtoSpan.FromString(one[2]).trace_id == entry.trace_id]
        assert spans == of_trace
        assert [key.span_id for key in unpack_keys(entry.keys)] == [
            ProtoSpan.FromString(one[2]).span_id for one in spans
        ]
    assert len({entry.trace_id for entry in taken.entries}) == len(taken.entries)


def test_fields_of_tomorrow_go_on() -> None:
    """What a newer protocol adds, at any level, is kept."""
    new = b"\xfa\x3e\x03new"
    span = SPAN + new
    body = delimit(10, delimit(18, delimit(18, span) + new) + new)

    assert sorted(read(body).entries[0].payload) == sorted(body)


def test_keys_say_what_assembling_needs() -> None:
    """Ended runs and remote parents are told from the span alone."""
    whole = request(run(1))
    spans = whole.resource_spans[0].scope_spans[0].spans
    spans.add(trace_id=spans[0].trace_id, span_id=b"x" * 8, flags=0x100, parent_span_id=b"p" * 8)
    spans.add(trace_id=spans[0].trace_id, span_id=b"y" * 8, flags=0x300, parent_span_id=b"p" * 8)
    said = [key.flags for key in unpack_keys(read(whole.SerializeToString()).entries[0].keys)]

    assert said == [RUN_COMPLETE, 0, 0, 0, REMOTE_IS_KNOWN, REMOTE_IS_KNOWN | PARENT_IS_REMOTE]


def test_json_gives_the_same_entries() -> None:
    """OTLP-JSON and protobuf of one request are read alike."""
    whole = request(run(1))
    by_json, by_protobuf = read(request_to_json(whole).encode(), "json"), read(whole.SerializeToString())

    assert spans_in(by_json.entries[0].payload) == spans_in(by_protobuf.entries[0].payload)
    assert by_json.entries[0].keys == by_protobuf.entries[0].keys


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda span: span.attributes.extend([span.attributes[0]] * 70), "expected at most 64 attributes"),
        (lambda span: span.events.extend([ProtoSpan.Event()] * 70), "expected at most 64 attributes"),
        (lambda span: span.attributes.add(key="k" * 5000), "expected at most 4000 bytes in a span"),
    ],
)
def test_span_past_its_limits_is_refused_alone(change, said: str) -> None:  # type: ignore[no-untyped-def]
    """A span with too much in it is refused, with the reason; its neighbours are taken."""
    whole = request(run(1))
    change(whole.resource_spans[0].scope_spans[0].spans[1])
    taken = read(whole.SerializeToString(), limits=RequestLimits(attributes=64, span_bytes=4000))

    assert (taken.spans, taken.refused) == (3, 1)
    assert said in taken.reason


@pytest.mark.parametrize("body", [b"\x0a\x00" * 1_000_000, delimit(10, delimit(18, b"\x12\x00" * 1_000_000))])
def test_small_bytes_do_not_become_large_objects(body: bytes) -> None:
    """A body of millions of empty messages is refused before objects are made of them."""
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge, match="expected at most 5000 spans"):
            read(body, limits=RequestLimits(spans=5_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 10_000_000


def test_huge_resource_is_refused() -> None:
    """A resource goes with each of its traces: one of megabytes would multiply."""
    whole = request(run(1))
    whole.resource_spans[0].resource.attributes.add(key="k" * 2_000_000)

    with pytest.raises(TooLarge, match="expected resources and scopes of at most"):
        read(whole.SerializeToString())


def test_json_of_too_many_values_is_refused() -> None:
    """JSON is refused by what it would become, not by its size alone."""
    with pytest.raises(MalformedSpan, match="Send smaller batches, or protobuf"):
        read(b'{"resourceSpans":[' + b"[]," * 1_500_000 + b"[]]}", "json")


@given(st.binary(max_size=200), st.sampled_from(SERVICES), st.sampled_from(["protobuf", "json"]))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_read_or_refused(noise: bytes, service, encoding: Encoding) -> None:  # type: ignore[no-untyped-def]
    """Whatever bytes come, the reader answers with entries or with a reason."""
    with contextlib.suppress(MalformedSpan):
        RequestReader().read(service, noise, encoding, 0)


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_requests_are_read_or_refused(place: int, noise: bytes) -> None:
    """A request with some bytes changed is read as far as it goes; what was read can be read again."""
    whole = bytearray(request(run(1)).SerializeToString())
    place %= len(whole)
    whole[place : place + len(noise)] = noise
    try:
        taken = read(bytes(whole))
    except MalformedSpan:
        return
    assert taken.spans == sum(len(spans_in(entry.payload)) for entry in taken.entries)


def test_reading_is_fast_enough() -> None:
    """Reading takes under 200 microseconds per span of 1 KB, ten times what it takes on a quiet machine."""
    import time

    whole = request(run(1, steps=119, content="x" * 1000)).SerializeToString()
    began = time.process_time()
    for _ in range(10):
        read(whole)

    assert (time.process_time() - began) / 1200 < 200e-6


@pytest.mark.parametrize("tag", [b"\x92\x00", b"\x92\x80\x80\x80\x00"])
def test_tag_longer_than_it_need_be_is_read_as_later(tag: bytes) -> None:
    """A span under a tag of up to five bytes is taken, and its entry can be read as a whole."""
    body = delimit(10, delimit(18, tag + delimit(18, SPAN)[1:]))

    assert len(spans_in(read(body).entries[0].payload)) == 1


def test_tag_that_protobuf_does_not_read_is_refused() -> None:
    """A tag of six bytes and more is no field for protobuf: what is cut by it could not be read by any later stage."""
    for length in range(6, 11):
        tag = b"\x92" + b"\x80" * (length - 2) + b"\x00"

        with pytest.raises(MalformedSpan):
            read(delimit(10, delimit(18, tag + delimit(18, SPAN)[1:])))


def test_groups_are_skipped_as_protobuf_skips_them() -> None:
    """An unknown group in a span, a scope or a resource is kept, also where the worker looks for the span's id."""
    group = b"\xa3\x06\x08\x01\x12\x02no\x1b\x0d\x00\x00\x00\x00\x1c\x11\x00\x00\x00\x00\x00\x00\x00\x00\xa4\x06"
    span = SPAN + group
    body = delimit(10, delimit(18, delimit(18, span) + group) + group)
    entry = read(body).entries[0]
    raw = without_repeats(raw_spans(entry.payload), {b"s" * 8})

    assert [one.data for one in raw] == [span]
    assert sorted(entry.payload) == sorted(body)


@pytest.mark.parametrize("group", [b"\x1b", b"\x1b\x14", b"\x1c", b"\x1b\x0b\x1c\x0c", b"\x1b" * 200 + b"\x1c" * 200])
def test_groups_that_do_not_end_are_refused(group: bytes) -> None:
    """A group must end as itself, and within a hundred others."""

    with pytest.raises(MalformedSpan):
        read(delimit(10, delimit(18, delimit(18, SPAN) + group)))
    assert read(delimit(10, delimit(18, delimit(18, SPAN + group)))).refused == 1


def test_unknown_field_that_protobuf_does_not_read_is_refused() -> None:
    """Beside its resources, too, a request must be one that others can read; fields of tomorrow are."""
    body = delimit(10, delimit(18, delimit(18, SPAN)))

    assert read(body + b"\xf8\x3e\x01").spans == 1
    with pytest.raises(MalformedSpan):
        read(body + b"\xa3\x06\x00\x00\xa4\x06")  # a group with a field of number 0


@pytest.mark.parametrize("text", ["a \\ud800 b", "\\udc00\\ud800", "fine \\ud83d\\ude00"])
def test_half_a_surrogate_pair_costs_its_character_alone(text: str) -> None:
    """JSON can hold what no Unicode text can: the request is taken, with U+FFFD in that place."""
    span = {"traceId": "1" * 32, "spanId": "2" * 16, "attributes": [{"key": "x", "value": {"stringValue": "TEXT"}}]}
    body = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}).replace("TEXT", text)

    request = RequestReader().read(TRACES, body.encode(), "json", 1)

    assert (request.spans, request.refused) == (1, 0)
    assert ("\ufffd" if "ude00" not in text else "\U0001f600").encode() in request.entries[0].payload


def empties(size_bytes: int) -> bytes:
    """Make an attribute that holds as many empty values as fit: each becomes an object of fifty bytes."""
    values = delimit(0x2A, b"\x0a\x00" * (size_bytes // 2))
    return delimit(0x0A, b"k") + delimit(0x12, values)


@pytest.mark.skipif(sys.platform == "win32", reason="measures memory as POSIX does")
def test_small_values_without_end_take_no_memory_without_end() -> None:
    """Two bytes can stand for an object of fifty: a span of such is refused alone, a request of logs whole, cheaply."""
    huge = delimit(0x12, SPAN + delimit(0x4A, empties(7 * MIB)))
    body = delimit(0x0A, delimit(0x12, huge + delimit(0x12, SPAN)))
    record = delimit(0x12, delimit(0x2A, delimit(0x2A, b"\x0a\x00" * (4 * MIB))))
    logs = delimit(0x0A, delimit(0x12, record))
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken = read(body)
    with pytest.raises(TooLarge, match="Send smaller batches"):
        RequestReader(RequestLimits(fields=200_000)).read(LOGS, logs, "protobuf", 1)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb

    assert (taken.spans, taken.refused) == (1, 1)
    assert "at most 200000 values in a span" in taken.reason
    assert grown_kb < 100_000


def test_fields_are_counted_however_deep() -> None:
    """What is nested counts, text that looks like fields does not, and a message that is none is noticed."""
    whole = ExportLogsServiceRequest()
    record = whole.resource_logs.add().scope_logs.add().log_records.add()
    record.body.string_value = "\x0a\x00" * 1000
    for _ in range(10):
        record.attributes.add(key="k").value.array_value.values.add().int_value = 1
    body = whole.SerializeToString()
    budget = FieldBudget(1000)
    spend(body, 0, len(body), whole.DESCRIPTOR, budget)

    assert 1000 - budget.left == 3 + 2 + 10 * 6
    with pytest.raises(TooManyFields):
        spend(body, 0, len(body), whole.DESCRIPTOR, FieldBudget(64))
    with pytest.raises(NotProtobuf):
        spend(body[:-1], 0, len(body) - 1, whole.DESCRIPTOR, FieldBudget(1000))


def test_attribute_nested_without_end_is_refused() -> None:
    """Values in values in values: past protobuf's hundred the span is refused, and nothing overflows."""
    value = b"\x0a\x00"
    for _ in range(10_000):
        value = delimit(0x2A, delimit(0x0A, value))
    deep = SPAN + delimit(0x4A, delimit(0x12, value))
    taken = read(delimit(0x0A, delimit(0x12, delimit(0x12, deep))))

    assert (taken.spans, taken.refused) == (0, 1)
    with pytest.raises(MalformedSpan):
        RequestReader().read(LOGS, delimit(0x0A, delimit(0x12, delimit(0x12, delimit(0x2A, value)))), "protobuf", 1)


def test_hostile_texts_reach_no_reader_of_a_request() -> None:
    """A span's name is quoted in the reason for its refusal: cut, and without what moves a cursor."""
    message = request(run(1)[:1])
    message.resource_spans[0].scope_spans[0].spans[0].name = "\x1b[2J\n" + "x" * 100_000
    message.resource_spans[0].scope_spans[0].spans[0].span_id = b"short"
    taken = read(message.SerializeToString())
    said = taken.response().SerializeToString()

    assert taken.refused == 1
    assert len(said) < 2000
    assert b"\x1b" not in said
