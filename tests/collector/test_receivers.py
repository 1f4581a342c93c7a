"""Both receivers take what OTLP's exporters send, and answer everything else with a reason."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import grpc
import grpc.aio
import httpx
import pytest
from google.rpc.status_pb2 import Status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from blamespan.errors import MalformedSpan
from blamespan.otlp import request_to_json
from blamespan.otlp.sdk import span_to_sdk
from blamespan_collector.intake import RequestReader
from blamespan_collector.receiver_grpc import GrpcReceiver
from blamespan_collector.receiver_http import HttpReceiver
from blamespan_collector.settings import Address, CannotListen, Limits
from tests.collector.fakes import MemorySink, Running, collecting, request, run, until

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
LIMIT = 1024 * 1024
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@pytest.fixture
async def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
async def running(sink: MemorySink) -> AsyncIterator[Running]:
    async with collecting(sink, max_request_bytes=LIMIT) as running:
        yield running


@pytest.fixture
async def client(running: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=running.http_url, trust_env=False) as client:
        yield client


def body(number: int = 1, **options: Any) -> bytes:
    return request(run(number, **options)).SerializeToString()


@pytest.mark.parametrize(
    "make",
    [
        lambda running: HttpExporter(f"{running.http_url}/v1/traces"),
        lambda running: HttpExporter(f"{running.http_url}/v1/traces", compression=Compression.Gzip),
        lambda running: HttpExporter(f"{running.http_url}/v1/traces", compression=Compression.Deflate),
        lambda running: GrpcExporter(str(running.grpc.address), insecure=True),
        lambda running: GrpcExporter(str(running.grpc.address), insecure=True, compression=grpc.Compression.Gzip),
    ],
    ids=["http", "http-gzip", "http-deflate", "grpc", "grpc-gzip"],
)
async def test_opentelemetrys_exporters_are_understood(
    running: Running, sink: MemorySink, make: Callable[[Running], SpanExporter]
) -> None:
    """What the SDK's own exporters send arrives, whole."""
    exporter = make(running)
    result = await asyncio.to_thread(exporter.export, [span_to_sdk(span) for span in run(1)])
    await until(lambda: sink.traces)
    await asyncio.to_thread(exporter.shutdown)

    assert result is SpanExportResult.SUCCESS
    assert [span.span_id for span in sink.spans] == [span.span_id for span in run(1)]


async def test_json_is_understood(client: httpx.AsyncClient, sink: MemorySink) -> None:
    """OTLP-JSON is taken and answered in JSON."""
    answer = await client.post("/v1/traces", content=request_to_json(request(run(1))), headers=JSON)
    await until(lambda: sink.traces)

    assert (answer.status_code, answer.json()) == (200, {})
    assert len(sink.spans) == 4


async def test_explicitly_empty_json_request_is_accepted(client: httpx.AsyncClient) -> None:
    """An OTLP request that says it has no spans is one; only nothing at all is refused."""
    answer = await client.post("/v1/traces", content=b'{"resourceSpans":[]}', headers=JSON)

    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty body"),
        (body()[:-7], "cut off"),
        (b"<html>hello</html>", "something else"),
        (b"\x12\x03abc", "without any"),
        (b"\xff" * 64, "something else"),
    ],
    ids=["empty", "truncated", "html", "other-protobuf", "noise"],
)
async def test_bodies_that_are_no_request_are_refused_with_a_reason(
    client: httpx.AsyncClient, running: Running, content: bytes, reason: str
) -> None:
    """HTTP 400 with a protobuf status, gRPC INVALID_ARGUMENT: both say what was wrong."""
    answer = await client.post("/v1/traces", content=content, headers=PROTOBUF)
    async with grpc.aio.insecure_channel(str(running.grpc.address)) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(EXPORT)(content)

    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/x-protobuf"
    assert Status.FromString(answer.content).code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    assert reason in Status.FromString(answer.content).message
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert reason in (refused.value.details() or "")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'"text"',
        b'{"resourceSpans": 3}',
        b'{"resourceSpans": [3]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 5}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "\\ud800"}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"startTimeUnixNano": "-1e999"}]}]}]}',
        b"[" * 100_000,
        b'{"resourceSpans": ' + b"[" * 500 + b"]" * 500 + b"}",
        b'{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":'
        + b'{"arrayValue":{"values":[' * 300
        + b"]}}" * 300
        + b"}]}}]}",
        b"\xff\xfe\x00",
    ],
)
async def test_json_that_is_no_request_is_refused_with_a_reason(client: httpx.AsyncClient, content: bytes) -> None:
    """HTTP 400 with a JSON status that says what was wrong."""
    answer = await client.post("/v1/traces", content=content, headers=JSON)

    assert answer.status_code == 400
    assert answer.json()["code"] == 3
    assert answer.json()["message"].startswith("expected an OTLP") or "expected OTLP" in answer.json()["message"]


async def test_spans_with_bad_ids_are_refused_alone(client: httpx.AsyncClient, sink: MemorySink) -> None:
    """The good spans of a request are taken; the answer counts the others and says why."""
    message = request(run(1))
    spans = message.resource_spans[0].scope_spans[0].spans
    bad = {"no trace": (b"", b"x" * 8), "zero trace": (bytes(16), b"x" * 8), "short span": (b"x" * 16, b"x")}
    for name, (trace_id, span_id) in bad.items():
        spans.add(name=name, trace_id=trace_id, span_id=span_id)
    spans.add(name="parent", trace_id=b"x" * 16, span_id=b"x" * 8, parent_span_id=b"xx")
    answer = await client.post("/v1/traces", content=message.SerializeToString(), headers=PROTOBUF)
    await until(lambda: sink.traces)

    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 4)
    assert "4 spans refused, the first one: span 'no trace': expected a trace id of 16 bytes" in partial.error_message
    assert len(sink.spans) == 4


@pytest.mark.parametrize(
    ("method", "path", "headers", "content", "status"),
    [
        ("POST", "/v1/traces", {}, b"x", 415),
        ("POST", "/v1/traces", {"content-type": "text/plain"}, b"x", 415),
        ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": "br"}, b"x", 415),
        ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": "gzip"}, b"no gzip", 400),
        ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": "gzip"}, gzip.compress(body())[:-4], 400),
        ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": "gzip"}, gzip.compress(body()) + b"junk", 400),
        ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": "gzip"}, b"", 400),
        ("GET", "/v1/traces", {}, b"", 405),
        ("PUT", "/v1/traces", PROTOBUF, b"x", 405),
        ("POST", "/v1/logs", JSON, b"{}", 404),
        ("POST", "/v1/metrics", PROTOBUF, b"x", 404),
        ("POST", "/elsewhere", JSON, b"{}", 404),
        ("POST", "/v1/traces", PROTOBUF, bytes(LIMIT + 1), 413),
        ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": "gzip"}, gzip.compress(bytes(64 * LIMIT)), 413),
        ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": "deflate"}, zlib.compress(bytes(64 * LIMIT)), 413),
    ],
)
async def test_wrong_requests_get_the_right_status(
    client: httpx.AsyncClient, method: str, path: str, headers: dict[str, str], content: bytes, status: int
) -> None:
    """Every refusal has its status code and a `google.rpc.Status` in the encoding of the request."""
    answer = await client.request(method, path, headers=headers, content=content)
    is_protobuf = headers.get("content-type") == "application/x-protobuf"
    message = Status.FromString(answer.content).message if is_protobuf else answer.json()["message"]

    assert answer.status_code == status
    assert message


async def test_body_without_a_length_is_limited_too(client: httpx.AsyncClient) -> None:
    """A sender that streams cannot get past the limit."""

    async def endless() -> AsyncIterator[bytes]:
        for _ in range(1000):
            yield bytes(64 * 1024)

    try:
        answer = await client.post("/v1/traces", content=endless(), headers=PROTOBUF)
        status = answer.status_code
    except httpx.TransportError:  # the answer came and the connection closed while we still wrote
        status = 413

    assert status == 413


async def test_gzip_of_several_members_is_understood(client: httpx.AsyncClient, sink: MemorySink) -> None:
    """RFC 1952 lets a gzip file hold several members."""
    whole = body(content="x" * 5000)
    content = gzip.compress(whole[:1000]) + gzip.compress(b"") + gzip.compress(whole[1000:])
    answer = await client.post("/v1/traces", content=content, headers={**PROTOBUF, "content-encoding": "gzip"})
    await until(lambda: sink.traces)

    assert answer.status_code == 200


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_too_large_message_is_refused_over_grpc(running: Running, compression: grpc.Compression) -> None:
    """gRPC's limit holds for what comes out of the decompressor, too."""
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(
        str(running.grpc.address), compression=compression, options=options
    ) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(EXPORT)(bytes(8 * LIMIT))

    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_full_collector_asks_to_come_back(client: httpx.AsyncClient) -> None:
    """While a backend does not take spans and memory is used up, senders are asked to keep theirs."""
    slow = MemorySink(gate=asyncio.Event())
    limits = Limits(quiet_s=0.01, idle_s=1, max_bytes=3000)
    async with (
        collecting(slow, limits=limits) as running,
        httpx.AsyncClient(base_url=running.http_url, trust_env=False) as client,
        grpc.aio.insecure_channel(str(running.grpc.address)) as channel,
    ):
        assert slow.gate
        await client.post("/v1/traces", content=body(1, steps=30, content="x" * 100), headers=PROTOBUF)
        await until(lambda: running.collector.counts()["bytes_on_their_way"] > 3000)
        answer = await client.post("/v1/traces", content=body(2), headers=PROTOBUF)
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(EXPORT)(body(2))
        slow.gate.set()
        await until(lambda: running.collector.counts()["bytes_on_their_way"] == 0)
        again = await client.post("/v1/traces", content=body(2), headers=PROTOBUF)
        await until(lambda: len(slow.traces) == 2)

    assert (answer.status_code, answer.headers["retry-after"], again.status_code) == (503, "5", 200)
    assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
    assert "google.rpc.retryinfo-bin" in dict(cast("Any", refused.value.trailing_metadata()))


async def test_health_tells_what_is_held(client: httpx.AsyncClient, sink: MemorySink) -> None:
    """`GET /healthz` answers with counts."""
    await client.post("/v1/traces", content=body(), headers=PROTOBUF)
    await client.post("/v1/traces", content=b"", headers=PROTOBUF)
    await until(lambda: sink.traces)
    health = (await client.get("/healthz")).json()

    assert health["status"] == "ok"
    assert (health["spans_received"], health["spans_delivered"], health["requests_refused"]) == (4, 4, 1)


async def test_slow_sender_keeps_nobody_waiting(client: httpx.AsyncClient, running: Running, sink: MemorySink) -> None:
    """A sender in the middle of its body does not stop the others."""
    _, slow = await asyncio.open_connection("127.0.0.1", running.http.address.port)
    slow.write(
        b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 99\r\n\r\nab"
    )
    await slow.drain()
    answer = await client.post("/v1/traces", content=body(), headers=PROTOBUF)
    await until(lambda: sink.traces)
    slow.close()
    await slow.wait_closed()

    assert answer.status_code == 200


async def test_many_large_bodies_at_once_are_refused_for_now(client: httpx.AsyncClient, running: Running) -> None:
    """Bodies that are being received share a stated room; beyond it senders are asked to come back."""
    head = f"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {LIMIT}\r\n\r\n"
    slow = [(await asyncio.open_connection("127.0.0.1", running.http.address.port))[1] for _ in range(4)]
    for one in slow:
        one.write(head.encode() + bytes(LIMIT - 1))
        await one.drain()

    await asyncio.sleep(0.5)  # until the server has read what we wrote; nothing tells us
    refused = (await client.post("/v1/traces", content=bytes(1000), headers=PROTOBUF)).status_code
    for one in slow:
        one.close()
        await one.wait_closed()

    async def accepted() -> int:
        while (status := (await client.post("/v1/traces", content=body(), headers=PROTOBUF)).status_code) != 200:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        return status

    assert (refused, await asyncio.wait_for(accepted(), 10)) == (503, 200)


@pytest.mark.parametrize("receiver", [HttpReceiver, GrpcReceiver])
async def test_taken_port_is_named(receiver: type[HttpReceiver] | type[GrpcReceiver], running: Running) -> None:
    """A port in use is an error that names it and what to do."""
    address = running.http.address if receiver is HttpReceiver else running.grpc.address

    with pytest.raises(CannotListen, match=f"Stop what listens on port {address.port}, or choose another with --"):
        receiver(running.collector, Address("127.0.0.1", address.port), LIMIT)


@given(st.binary(max_size=200))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_read_or_refused(noise: bytes) -> None:
    """Whatever bytes come, the reader answers with spans or with a reason."""
    for encoding in ("protobuf", "json"):
        with contextlib.suppress(MalformedSpan):
            RequestReader().read(noise, encoding)  # type: ignore[arg-type]


@given(st.integers(0, 10_000), st.binary(min_size=1, max_size=4))
@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_requests_are_read_or_refused(place: int, noise: bytes) -> None:
    """A request with some bytes changed is read as far as it goes, or refused."""
    whole = bytearray(body())
    place %= len(whole)
    whole[place : place + len(noise)] = noise
    try:
        read = RequestReader().read(bytes(whole), "protobuf")
    except MalformedSpan:
        return
    assert len(read.arrivals) + len(read.refused) <= 10


def test_span_that_is_held_does_not_hold_its_request() -> None:
    """A span is detached from the message it came in; equal resources are shared between requests."""
    reader = RequestReader()
    first, second = (reader.read(body(number), "protobuf").arrivals[0].span for number in (1, 2))
    merged = ExportTraceServiceRequest(resource_spans=_grouped([first, second]))

    assert [len(group.scope_spans[0].spans) for group in merged.resource_spans] == [2]
    assert json.loads(request_to_json(merged))["resourceSpans"][0]["resource"]["attributes"][0]["key"] == "service.name"


def _grouped(spans: list[Any]) -> list[Any]:
    return list(request(spans).resource_spans)
