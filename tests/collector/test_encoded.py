"""Spans taken apart and put together again are the same spans, byte for byte where nobody touched them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2

from blamespan.errors import MalformedSpan
from blamespan.otlp import spans_from_proto, spans_to_proto
from blamespan.trace import AttributeValue
from blamespan_collector.wire.raw_spans import encode, pieces, raw_spans, read, request, without_repeats
from tests.collector.fakes import request as as_request
from tests.collector.fakes import run
from tests.collector.test_worker import foreign_request

BODY = as_request(run(1)).SerializeToString()


def test_request_taken_apart_and_put_together_is_the_same_message() -> None:
    """Unknown fields, schema URLs and dropped counts are all there."""
    message = foreign_request()
    back = ExportTraceServiceRequest.FromString(request(raw_spans(message.SerializeToString())))

    assert back == message


def test_spans_read_are_those_of_the_other_codec() -> None:
    """There is one meaning of OTLP, however it is read."""
    message = as_request(run(1))

    assert read(raw_spans(BODY)) == list(spans_from_proto(message.resource_spans))


def test_span_nobody_touched_is_its_own_bytes() -> None:
    """Reading and writing changes nothing; an added attribute stands behind what was there."""
    before = list(raw_spans(BODY))
    spans = read(before)
    spans[1] = spans[1].with_attributes({"x": 1})
    after = encode(spans)

    assert [one.data == other.data for one, other in zip(before, after, strict=True)] == [True, False, True, True]
    assert after[1].data.startswith(before[1].data)
    assert [span.attributes for span in read(after)] == [span.attributes for span in spans]


values = st.one_of(
    st.floats(allow_nan=False), st.integers(-(2**63), 2**63 - 1), st.booleans(), st.text(max_size=80), st.none()
)


@given(st.dictionaries(st.text(min_size=1, max_size=200), values, max_size=5))
@settings(max_examples=100, deadline=None)
def test_attributes_added_are_those_of_the_other_codec(added: dict[str, AttributeValue]) -> None:
    """What is written behind a span's bytes reads as if protobuf had written all of it, to the type of each value."""
    (span, *_) = read(raw_spans(BODY))

    (raw,) = encode([span], {span.span_id: added})

    whole = span.with_attributes(added)
    (expected,) = spans_from_proto(spans_to_proto([replace(whole, origin=None)]))
    (found,) = read([raw])
    assert {key: (type(value), value) for key, value in found.attributes.items()} == {
        key: (type(value), value) for key, value in expected.attributes.items()
    }


def test_attribute_that_changed_stands_once() -> None:
    """A value that is replaced does not stay beside the new one."""
    (span, *_) = read(raw_spans(BODY))
    key = next(iter(span.attributes))
    (raw,) = encode([replace(span, attributes={**span.attributes, key: "new"})])
    message = trace_pb2.Span.FromString(raw.data)

    assert [item.value.string_value for item in message.attributes if item.key == key] == ["new"]


@given(st.integers(1, 3000), st.lists(st.integers(0, 900), min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_pieces_hold_every_span_once_in_order_below_the_limit(max_bytes: int, sizes: list[int]) -> None:
    """Whatever the limit: nothing is lost, and only a span that is too large by itself is above it."""
    spans = [
        replace(run(1)[1], span_id=f"{number + 1:016x}", attributes={"text": "x" * size})
        for number, size in enumerate(sizes)
    ]
    found = list(pieces(encode(spans), max_bytes))

    assert [span for _, piece in found for span in read(raw_spans(piece))] == spans
    assert all(count == 1 or len(piece) <= max_bytes for count, piece in found)


def test_first_span_of_an_id_counts() -> None:
    """Of spans that share an id the first one is kept, whatever the others say."""
    spans = run(1)
    other = replace(spans[1], name="another")
    raw = encode([*spans, other])
    kept = without_repeats(raw, {bytes.fromhex(span.span_id) for span in spans[1:]})

    assert read(kept) == spans[1:]


@given(st.binary(max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    """What is no request is one error of ours."""
    try:
        spans = list(raw_spans(noise))
        read(spans)
    except MalformedSpan:
        return


def test_request_that_is_cut_off_is_refused() -> None:
    """Half a message is no message."""
    with pytest.raises(MalformedSpan, match="expected an OTLP request"):
        list(raw_spans(BODY[:-5]))
