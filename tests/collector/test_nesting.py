"""Messages in messages are read to one depth below the request, wherever they stand and however they come."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import grpc
import grpc.aio
import httpx
import pytest
from google.protobuf import json_format
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from blamespan.errors import MalformedSpan
from blamespan.otlp import request_to_json
from blamespan_collector.receiving import nesting
from blamespan_collector.receiving.nesting import MAX_DEPTH, BoundedReader
from blamespan_collector.receiving.request_reader import Request, RequestReader
from blamespan_collector.receiving.signals import SERVICES, OtlpService
from blamespan_collector.wire.protobuf import TooDeep, delimit
from tests.collector.fakes import request, run
from tests.collector.receiving import EXPORT, receiving

TRACES, LOGS, METRICS = SERVICES


def lists(levels: int) -> AnyValue:
    """Nest lists: *levels* messages below the value."""
    value = AnyValue(array_value=ArrayValue()) if levels % 2 else AnyValue(int_value=1)
    for _ in range(levels // 2):
        value = AnyValue(array_value=ArrayValue(values=[value]))
    return value


def maps(levels: int) -> AnyValue:
    """Nest maps: *levels* messages below the value."""
    value = lists(levels % 3)
    for _ in range(levels // 3):
        value = AnyValue(kvlist_value=KeyValueList(values=[KeyValue(key="k", value=value)]))
    return value


def _span(place: Callable[[Message, AnyValue], object]) -> Callable[[AnyValue], ExportTraceServiceRequest]:
    def make(value: AnyValue) -> ExportTraceServiceRequest:
        whole = request(run(1))
        place(whole.resource_spans[0].scope_spans[0].spans[1], value)
        return whole

    return make


def _resource(value: AnyValue) -> ExportTraceServiceRequest:
    whole = request(run(1))
    whole.resource_spans[0].resource.attributes.add(key="k", value=value)
    return whole


def _scope(value: AnyValue) -> ExportTraceServiceRequest:
    whole = request(run(1))
    whole.resource_spans[0].scope_spans[0].scope.attributes.add(key="k", value=value)
    return whole


def _log(value: AnyValue, *, is_body: bool) -> ExportLogsServiceRequest:
    whole = ExportLogsServiceRequest()
    record = (
        whole.resource_logs.add()
        .scope_logs.add()
        .log_records.add(trace_id=b"t" * 16, span_id=b"s" * 8, event_name="gen_ai.user.message")
    )
    if is_body:
        record.body.CopyFrom(value)
    else:
        record.attributes.add(key="k", value=value)
    return whole


def _metric(value: AnyValue) -> ExportMetricsServiceRequest:
    whole = ExportMetricsServiceRequest()
    point = whole.resource_metrics.add().scope_metrics.add().metrics.add(name="m").gauge.data_points.add(as_int=1)
    point.exemplars.add(as_int=1).filtered_attributes.add(key="k", value=value)
    return whole


_IN_A_SPAN: list[tuple[str, int, Callable[[AnyValue], Message]]] = [
    ("attribute", 5, _span(lambda span, value: span.attributes.add(key="k", value=value))),  # type: ignore[attr-defined]
    ("event", 6, _span(lambda span, value: span.events.add().attributes.add(key="k", value=value))),  # type: ignore[attr-defined]
    ("link", 6, _span(lambda span, value: span.links.add().attributes.add(key="k", value=value))),  # type: ignore[attr-defined]
]
_AROUND: list[tuple[str, int, Callable[[AnyValue], Message]]] = [
    ("resource", 4, _resource),
    ("scope", 5, _scope),
    ("log body", 4, lambda value: _log(value, is_body=True)),
    ("log attribute", 5, lambda value: _log(value, is_body=False)),
    ("metric", 8, _metric),
]


def service_of(message: Message) -> OtlpService:
    return next(service for service in SERVICES if isinstance(message, service.request))


def read(message: Message, encoding: str) -> Request:
    service = service_of(message)
    if encoding == "protobuf":
        return RequestReader().read(service, message.SerializeToString(), "protobuf", 1)
    if isinstance(message, ExportTraceServiceRequest):
        return RequestReader().read(service, request_to_json(message).encode(), "json", 1)
    document = json_format.MessageToDict(message)
    for group in document.get("resourceLogs", ()):
        for record in group["scopeLogs"][0]["logRecords"]:
            record["traceId"], record["spanId"] = "74" * 16, "73" * 8
    return RequestReader().read(service, json.dumps(document).encode(), "json", 1)


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
@pytest.mark.parametrize("nest", [lists, maps])
@pytest.mark.parametrize(("depth", "make"), [(depth, make) for _, depth, make in [*_IN_A_SPAN, *_AROUND]])
def test_values_are_taken_to_one_depth_below_the_request(
    depth: int, make: Callable[[AnyValue], Message], nest: Callable[[int], AnyValue], encoding: str
) -> None:
    """The deepest value that is taken lies as deep everywhere, and what is taken can be read as a whole."""
    taken = read(make(nest(MAX_DEPTH - depth)), encoding)

    assert not taken.refused
    for entry in taken.entries:
        kind = {"traces": TRACES, "logs": LOGS, "events": LOGS, "metrics": METRICS}[entry.signal].request
        kind.FromString(entry.payload)


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
@pytest.mark.parametrize("nest", [lists, maps])
@pytest.mark.parametrize("more", [1, 2, 3, 34])
@pytest.mark.parametrize(("depth", "make"), [(depth, make) for _, depth, make in _IN_A_SPAN])
def test_span_that_is_nested_deeper_is_refused_alone(
    depth: int, make: Callable[[AnyValue], Message], nest: Callable[[int], AnyValue], more: int, encoding: str
) -> None:
    """A value that lies deeper costs its own span, with the reason; the spans beside it are taken."""
    message = make(nest(MAX_DEPTH - depth + more))
    taken = read(message, encoding)

    assert (taken.spans, taken.refused) == (3, 1)
    assert f"expected at most {MAX_DEPTH} messages in each other" in taken.reason


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
@pytest.mark.parametrize("nest", [lists, maps])
@pytest.mark.parametrize("more", [1, 2, 3, 34])
@pytest.mark.parametrize(("depth", "make"), [(depth, make) for _, depth, make in _AROUND])
def test_request_that_is_nested_deeper_is_refused(
    depth: int, make: Callable[[AnyValue], Message], nest: Callable[[int], AnyValue], more: int, encoding: str
) -> None:
    """A value that lies deeper in a resource, a scope, a log record or a metric refuses its request, and says so."""
    with pytest.raises(MalformedSpan, match=f"expected at most {MAX_DEPTH} messages in each other"):
        read(make(nest(MAX_DEPTH - depth + more)), encoding)


@pytest.mark.parametrize("levels", [100, 400, 100_000])
def test_json_without_end_is_refused(levels: int) -> None:
    """JSON that nobody reads as protobuf refuses its request, and overflows nothing."""
    value = '{"arrayValue":{"values":[' * levels + "{}" + "]}}" * levels
    span = f'{{"traceId":"{"74" * 16}","spanId":"{"73" * 8}","attributes":[{{"key":"k","value":{value}}}]}}'
    body = f'{{"resourceSpans":[{{"scopeSpans":[{{"spans":[{span}]}}]}}]}}'

    with pytest.raises(MalformedSpan, match="expected OTLP-JSON, got"):
        RequestReader().read(TRACES, body.encode(), "json", 1)


async def test_limit_is_the_same_over_http_and_grpc(tmp_path: Path) -> None:
    """Both receivers take the deepest value, and refuse the next one's span by partial success."""
    attribute = _IN_A_SPAN[0][2]
    bodies = [attribute(lists(MAX_DEPTH - 5 + more)).SerializeToString() for more in (0, 1)]
    said: list[bytes] = []
    async with (
        receiving(tmp_path) as running,
        httpx.AsyncClient(base_url=running.http_url, trust_env=False) as client,
        grpc.aio.insecure_channel(str(running.grpc.address)) as channel,
    ):
        for body in bodies:
            answer = await client.post("/v1/traces", content=body, headers={"content-type": "application/x-protobuf"})
            said += [answer.content, await channel.unary_unary(EXPORT)(body)]

    assert said[:2] == [b"", b""]
    assert all(f"at most {MAX_DEPTH} messages in each other".encode() in one for one in said[2:])


def test_group_that_hides_a_value_does_not_lift_the_limit() -> None:
    """Ends of groups inside a span end nothing around it: what lies deep is refused all the same."""
    span = request(run(1)[:1]).resource_spans[0].scope_spans[0].spans[0].SerializeToString()
    deep = delimit(0x4A, KeyValue(key="k", value=lists(MAX_DEPTH)).SerializeToString())
    body = delimit(0x0A, delimit(0x12, delimit(0x12, span + b"\x0c" * 40 + deep + b"\x0b" * 40)))
    taken = RequestReader().read(TRACES, body, "protobuf", 1)

    assert (taken.spans, taken.refused) == (0, 1)


def test_depth_is_measured_where_protobuf_knows_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a limit of protobuf's own the depth is counted field by field, to the same limit."""
    monkeypatch.setattr(nesting, "_levels_read", lambda level: None)
    reader = BoundedReader(ExportLogsServiceRequest, 0)
    deepest, deeper = (_log(lists(MAX_DEPTH - 4 + more), is_body=True).SerializeToString() for more in (0, 1))

    assert reader.read_one(deepest).SerializeToString() == deepest
    with pytest.raises(TooDeep):
        reader.read_one(deeper)


def test_depth_leaves_room_for_every_other_reader() -> None:
    """The limit lies well below the hundred levels that protobuf reads in every language."""
    reader = BoundedReader(ExportTraceServiceRequest, 0)
    span = _IN_A_SPAN[0][2](lists(MAX_DEPTH - 5)).SerializeToString()

    assert reader.read_one(span).SerializeToString() == span
    with pytest.raises(TooDeep):
        reader.read_one(_IN_A_SPAN[0][2](lists(MAX_DEPTH - 4)).SerializeToString())
    ExportTraceServiceRequest.FromString(_IN_A_SPAN[0][2](lists(90)).SerializeToString())
