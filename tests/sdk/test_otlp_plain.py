"""The fast reader of OTLP-JSON agrees with protobuf's own mapping wherever it reads at all."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.otlp import json as otlp_json
from blamespan.otlp import spans_to_proto
from blamespan.otlp.plain import plain_request
from blamespan.rebuilding.emit import emit
from blamespan.trace import MessageActionTrace
from tests.sdk.builders import small_run
from tests.sdk.strategies import traces

ODD: list[Any] = [
    *(None, True, -1, 0, 1.5, 1e30, float("nan"), 2**31, 2**63, 2**64, 10**30),
    *(
        "",
        "x",
        "7",
        "-7",
        "007",
        "1e3",
        " 7",
        "\u0667",
        "NaN",
        "\ud800",
        "abc",
        "SPAN_KIND_SERVER",
        "STATUS_CODE_ERROR",
    ),
    *([], {}, [None], [{}], {"values": []}, {"values": None}, {"unknown": 1}, {"values": [], "more": 1}),
    *({"stringValue": 7}, {"intValue": "7"}, {"intValue": 7.0}, {"boolValue": 1}, {"doubleValue": 7}),
    *({"bytesValue": "AA=="}, {"doubleValue": "Infinity"}, {"stringValue": "a", "intValue": 1}),
    {"arrayValue": {"values": [{}, {"boolValue": True}]}},
    {"kvlistValue": {"values": [{"key": "a", "value": {}}, {"key": "b"}]}},
]


def reference(document: Any) -> ExportTraceServiceRequest | None:
    """What protobuf's mapping reads; None where it refuses."""
    document = copy.deepcopy(document)
    try:
        otlp_json._recode_ids(document, otlp_json._base64_of_hex)
        return json_format.ParseDict(document, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    except (json_format.ParseError, AttributeError, TypeError, ValueError):
        return None


def document_of(trace: MessageActionTrace) -> dict[str, Any]:
    return otlp_json.request_to_document(ExportTraceServiceRequest(resource_spans=spans_to_proto(emit(trace))))


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: what holds it, and its key or index."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


@settings(max_examples=20, deadline=None)
@given(traces())
def test_plain_documents_are_read_fast_and_alike(trace: MessageActionTrace) -> None:
    """What we write is read without protobuf's mapping, but for infinite numbers and attributes without a name."""
    document = document_of(trace)

    found = plain_request(document)

    text = json.dumps(document)
    assert (found is None) == any(odd in text for odd in ('"doubleValue": "', '{"value": '))
    assert found is None or found == reference(document)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_odd_documents_are_read_alike_or_left(data: st.DataObject) -> None:
    """Any value in any place: what the fast reader reads, protobuf's mapping reads too, and the same."""
    document = document_of(small_run())
    holder, key = data.draw(st.sampled_from(list(places(document))))
    if isinstance(holder, dict) and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(["spans", "trace_id", "traceId", "flags", "kind", "value", "nobody", "status"]))
    holder[key] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
    before = repr(document)

    found = plain_request(document)

    assert found is None or found == reference(document)
    assert repr(document) == before


@pytest.mark.parametrize("odd", [7, None, [], "x", {"resourceSpans": 7}, {"resourceSpans": {}}])
def test_what_is_no_document_is_left(odd: Any) -> None:
    """Whoever asks gets nothing, and reads it another way."""
    assert plain_request(odd) is None


def test_deep_values_are_left() -> None:
    """Nesting that protobuf's mapping refuses is not let through."""
    value: Any = {"stringValue": "x"}
    for _ in range(120):
        value = {"arrayValue": {"values": [value]}}
    document = document_of(small_run())
    document["resourceSpans"][0]["resource"]["attributes"] = [{"key": "deep", "value": value}]

    assert plain_request(document) is None
    with pytest.raises(ValueError, match="expected OTLP-JSON"):
        otlp_json.request_from_json(json.dumps(document))
