"""OTLP as Jaeger's UI reads it: whole traces against the documented shape."""

from __future__ import annotations

import base64
import json
import math
from typing import Any

import pytest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from blamespan import conventions as words
from blamespan.otlp import request_from_json
from blamespan.spans import SpanLink
from blamespan.trace import AttributeValue
from blamespan_collector.jaeger.conversion import ui_trace, without_repeats
from tests.collector.fakes import request
from tests.collector.paging import annotated
from tests.sdk.builders import span
from tests.sdk.talks import talk

OTLP = """
{"resourceSpans": [
  {"resource": {"attributes": [
     {"key": "service.name", "value": {"stringValue": "shop"}},
     {"key": "host.name", "value": {"stringValue": "web-1"}},
     {"key": "process.pid", "value": {"intValue": "7"}}]},
   "scopeSpans": [{"scope": {"name": "http", "version": "1.2"}, "spans": [
     {"traceId": "0000000000000000463ac35c9f6413ad", "spanId": "00000000000000a1", "name": "GET /", "kind": 2,
      "traceState": "a=1",
      "startTimeUnixNano": "1700000000000001999", "endTimeUnixNano": "1700000000000251999",
      "attributes": [
        {"key": "http.method", "value": {"stringValue": "GET"}},
        {"key": "http.status_code", "value": {"intValue": "503"}},
        {"key": "big", "value": {"intValue": "9007199254740993"}},
        {"key": "ratio", "value": {"doubleValue": 0.25}},
        {"key": "cached", "value": {"boolValue": false}},
        {"key": "raw", "value": {"bytesValue": "aGk="}},
        {"key": "names", "value": {"arrayValue": {"values": [{"stringValue": "b"}, {"intValue": "2"}]}}},
        {"key": "map", "value": {"kvlistValue": {"values": [{"key": "k", "value": {"boolValue": true}}]}}},
        {"key": "nothing", "value": {}}],
      "status": {"code": 2, "message": "no answer"},
      "events": [
        {"timeUnixNano": "1700000000000101000", "name": "exception",
         "attributes": [{"key": "exception.type", "value": {"stringValue": "Timeout"}}]},
        {"timeUnixNano": "1700000000000102000", "name": "named otherwise",
         "attributes": [{"key": "event", "value": {"stringValue": "retry"}}]}]}]}]},
  {"resource": {},
   "scopeSpans": [{"spans": [
     {"traceId": "0000000000000000463ac35c9f6413ad", "spanId": "00000000000000b2", "name": "work",
      "parentSpanId": "00000000000000a1",
      "startTimeUnixNano": "1700000000000100000", "endTimeUnixNano": "1700000000000000000",
      "links": [
        {"traceId": "1000000000000000463ac35c9f6413ad", "spanId": "00000000000000c3"},
        {"traceId": "0000000000000000463ac35c9f6413ad", "spanId": "00000000000000d4",
         "attributes": [{"key": "opentracing.ref_type", "value": {"stringValue": "child_of"}}]}],
      "status": {"code": 1}}]}]}]}
"""

JAEGER = """
{"traceID": "463ac35c9f6413ad",
 "spans": [
  {"traceID": "463ac35c9f6413ad", "spanID": "00000000000000a1", "operationName": "GET /", "references": [],
   "startTime": 1700000000000001, "duration": 250,
   "tags": [
     {"key": "otel.scope.name", "type": "string", "value": "http"},
     {"key": "otel.scope.version", "type": "string", "value": "1.2"},
     {"key": "http.method", "type": "string", "value": "GET"},
     {"key": "http.status_code", "type": "int64", "value": 503},
     {"key": "big", "type": "int64", "value": "9007199254740993"},
     {"key": "ratio", "type": "float64", "value": 0.25},
     {"key": "cached", "type": "bool", "value": false},
     {"key": "raw", "type": "binary", "value": "aGk="},
     {"key": "names", "type": "string", "value": "[\\"b\\",2]"},
     {"key": "map", "type": "string", "value": "{\\"k\\":true}"},
     {"key": "nothing", "type": "string", "value": ""},
     {"key": "span.kind", "type": "string", "value": "server"},
     {"key": "otel.status_code", "type": "string", "value": "ERROR"},
     {"key": "error", "type": "bool", "value": true},
     {"key": "otel.status_description", "type": "string", "value": "no answer"},
     {"key": "w3c.tracestate", "type": "string", "value": "a=1"}],
   "logs": [
     {"timestamp": 1700000000000101, "fields": [
       {"key": "event", "type": "string", "value": "exception"},
       {"key": "exception.type", "type": "string", "value": "Timeout"}]},
     {"timestamp": 1700000000000102, "fields": [{"key": "event", "type": "string", "value": "retry"}]}],
   "processID": "p1", "warnings": null},
  {"traceID": "463ac35c9f6413ad", "spanID": "00000000000000b2", "operationName": "work",
   "references": [
     {"refType": "CHILD_OF", "traceID": "463ac35c9f6413ad", "spanID": "00000000000000a1"},
     {"refType": "FOLLOWS_FROM", "traceID": "1000000000000000463ac35c9f6413ad", "spanID": "00000000000000c3"},
     {"refType": "CHILD_OF", "traceID": "463ac35c9f6413ad", "spanID": "00000000000000d4"}],
   "startTime": 1700000000000100, "duration": 0,
   "tags": [{"key": "otel.status_code", "type": "string", "value": "OK"}],
   "logs": [], "processID": "p2", "warnings": null}],
 "processes": {
   "p1": {"serviceName": "shop", "tags": [
     {"key": "host.name", "type": "string", "value": "web-1"}, {"key": "process.pid", "type": "int64", "value": 7}]},
   "p2": {"serviceName": "OTLPResourceNoServiceName", "tags": []}},
 "warnings": null}
"""


def test_whole_trace_is_as_documented() -> None:
    """Ids, times, references, tags, logs and processes are as Jaeger's translator and its UI's model write them."""
    assert ui_trace(request_from_json(OTLP).resource_spans) == json.loads(JAEGER)


def written(value: AttributeValue) -> tuple[str, Any]:
    [found] = ui_trace(request([span(1, "x", attributes={"key": value})]).resource_spans)["spans"]
    [tag] = [tag for tag in found["tags"] if tag["key"] == "key"]
    return tag["type"], tag["value"]


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("", ("string", "")),
        ("é 漢 👍\x00", ("string", "é 漢 👍\x00")),
        (2**53 - 1, ("int64", 2**53 - 1)),
        (-(2**63), ("int64", str(-(2**63)))),
        (math.inf, ("float64", "+Inf")),
        (-math.inf, ("float64", "-Inf")),
        (math.nan, ("float64", "NaN")),
        (b"\xff", ("binary", base64.b64encode(b"\xff").decode())),
        ((b"\xff", None, {"b": 1, "a": ("é",)}), ("string", '["/w==",null,{"a":["é"],"b":1}]')),
    ],
)
def test_every_value_becomes_a_tag_that_json_holds(value: AttributeValue, tag: tuple[str, Any]) -> None:
    """No value of OTLP's is beyond JSON: what a browser could not read exactly is text."""
    assert written(value) == tag


def test_nested_values_do_not_break() -> None:
    """As deep as protobuf lets lists lie within each other, they are written."""
    value = AnyValue(string_value="x")
    for _ in range(40):
        outer = AnyValue()
        outer.array_value.values.append(value)
        value = outer
    made = request([span(1, "x")])
    made.resource_spans[0].scope_spans[0].spans[0].attributes.add(key="deep", value=value)

    [found] = ui_trace(made.resource_spans)["spans"]
    assert {"key": "deep", "type": "string", "value": "[" * 40 + '"x"' + "]" * 40} in found["tags"]


def test_decisive_step_carries_a_warning() -> None:
    """Jaeger marks spans that have warnings: of a run the decisive step's has one, and says for what."""
    [spans] = annotated(talk(1))
    warnings = {one["operationName"]: one["warnings"] for one in ui_trace(request(spans).resource_spans)["spans"]}

    assert {name: said for name, said in warnings.items() if said} == {
        "invoke_agent reviewer": [
            "blamespan: decisive step 2 with 0.57 of the blame, FM-3.3 Incorrect verification (mast), 0.70"
        ]
    }


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({words.ABSTAINED: "too short"}, ["blamespan: no verdict, too short"]),
        ({words.BLAME_DECISIVE: True}, ["blamespan: decisive step"]),
        ({words.BLAME_DECISIVE: "true"}, None),
        ({words.BLAME_DECISIVE: True, words.BLAME_SCORE: "high", words.ERROR_MODE: 3}, ["blamespan: decisive step"]),
        ({words.BLAME_DECISIVE: False, words.BLAME_RANK: 2}, None),
    ],
)
def test_only_what_is_sure_is_warned_of(attributes: dict[str, Any], said: list[str] | None) -> None:
    """A verdict written by somebody else, in parts or of wrong types, makes no warning that says more than stands."""
    [found] = ui_trace(request([span(1, "x", attributes=attributes)]).resource_spans)["spans"]

    assert found["warnings"] == said


def test_span_that_came_twice_is_there_once() -> None:
    """Of spans with one id the first counts, within a group and across them; order stays."""
    first, second = span(1, "first"), span(2, "second", links=(SpanLink(f"{9:032x}", f"{9:016x}"),))
    again = span(1, "again", resource={"service.name": "other"})
    made = request([first, second, span(2, "second, again"), again])

    found = ui_trace(without_repeats(made.resource_spans))["spans"]
    assert [one["operationName"] for one in found] == ["first", "second"]


def test_equal_processes_are_one() -> None:
    """Spans of the same process share it, wherever they stand."""
    spans = [span(number, "x", resource={"service.name": name}) for number, name in enumerate("aba", 1)]
    found = ui_trace([group for one in spans for group in request([one]).resource_spans])

    assert [one["processID"] for one in found["spans"]] == ["p1", "p2", "p1"]
    assert [process["serviceName"] for process in found["processes"].values()] == ["a", "b"]
