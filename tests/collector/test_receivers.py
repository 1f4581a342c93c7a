"""Both receivers take what OTLP's exporters send, and answer everything else with a reason."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import zlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import httpx
import pytest
import pytest_asyncio
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from blamespan.otlp import request_to_json
from blamespan.otlp.sdk import span_to_sdk
from blamespan_collector.journal import writer as writing
from blamespan_collector.receiving.http_server import listening_socket
from blamespan_collector.receiving.request_reader import RequestReader
from blamespan_collector.receiving.signals import SERVICES
from blamespan_collector.settings import ListenAddress
from tests.collector.fakes import request, run
from tests.collector.receiving import EXPORT, PROTOBUF, Receiving, post, receiving

JSON = {"content-type": "application/json"}
LIMIT = 1024 * 1024


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def client(running: Receiving) -> AsyncIterator[httpx.AsyncClient]:
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
    running: Receiving, make: Callable[[Receiving], SpanExporter]
) -> None:
    """What the SDK's own exporters send arrives, whole."""
    exporter = make(running)
    result = await asyncio.to_thread(exporter.export, [span_to_sdk(span) for span in run(1)])
    await asyncio.to_thread(exporter.shutdown)

    assert result is SpanExportResult.SUCCESS
    assert [span.span_id for span in running.spans] == [span.span_id for span in run(1)]


async def test_json_is_understood(client: httpx.AsyncClient, running: Receiving) -> None:
    """OTLP-JSON is taken and answered in JSON."""
    answer = await client.post("/v1/traces", content=request_to_json(request(run(1))), headers=JSON)

    assert (answer.status_code, answer.json()) == (200, {})
    assert len(running.spans) == 4


@pytest.mark.parametrize(
    ("content", "headers"),
    [
        (b'{"resourceSpans":[]}', JSON),
        (b'{"resource_spans":null}', JSON),
        (b'{"resourceSpans":[{}]}', JSON),
        (b"{}", JSON),
        (b" {\r\n} \n", JSON),
        (b"", PROTOBUF),
    ],
)
async def test_request_without_data_is_accepted(
    client: httpx.AsyncClient, running: Receiving, content: bytes, headers: dict[str, str]
) -> None:
    """A request that carries nothing is answered with success, as OTLP asks, and not journalled."""
    answer = await client.post("/v1/traces", content=content, headers=headers)
    async with grpc.aio.insecure_channel(str(running.grpc.address)) as channel:
        over_grpc = await channel.unary_unary(EXPORT)(b"")

    assert (answer.status_code, over_grpc, running.entries) == (200, b"", [])


@pytest.mark.parametrize("signal", ["logs", "metrics"])
async def test_other_signals_without_data_are_accepted(
    client: httpx.AsyncClient, running: Receiving, signal: str
) -> None:
    """Requests of logs and metrics may carry nothing, too."""
    for content in (b"{}", f'{{"resource{signal.title()}":[]}}'.encode()):
        answer = await client.post(f"/v1/{signal}", content=content, headers=JSON)

        assert (answer.status_code, answer.json()) == (200, {})
    assert running.entries == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (body()[:-7], "cut off"),
        (b"<html>hello</html>", "something else"),
        (b"\x12\x03abc", "without any"),
        (b"\xff" * 64, "something else"),
    ],
    ids=["truncated", "html", "other-protobuf", "noise"],
)
async def test_bodies_that_are_no_request_are_refused_with_a_reason(
    client: httpx.AsyncClient, running: Receiving, content: bytes, reason: str
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
        b"{}{}",
        b'{"spans": []}',
        b'"text"',
        b'{"resourceSpans": 3}',
        b'{"resourceSpans": [3]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": "xyz"}]}]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": 5}]}]}]}',
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


async def test_spans_with_bad_ids_are_refused_alone(client: httpx.AsyncClient, running: Receiving) -> None:
    """The good spans of a request are taken; the answer counts the others and says why."""
    message = request(run(1))
    spans = message.resource_spans[0].scope_spans[0].spans
    bad = {"no trace": (b"", b"x" * 8), "zero trace": (bytes(16), b"x" * 8), "short span": (b"x" * 16, b"x")}
    for name, (trace_id, span_id) in bad.items():
        spans.add(name=name, trace_id=trace_id, span_id=span_id)
    spans.add(name="parent", trace_id=b"x" * 16, span_id=b"x" * 8, parent_span_id=b"xx")
    answer = await client.post("/v1/traces", content=message.SerializeToString(), headers=PROTOBUF)

    partial = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, partial.rejected_spans) == (200, 4)
    assert "4 spans refused, the first one: span 'no trace': expected a trace id of 16 bytes" in partial.error_message
    assert len(running.spans) == 4


@pytest.mark.parametrize(
    ("method", "path", "headers", "content", "status"),
    [
        ("POST", "/v1/traces", {}, b"x", 415),
        ("POST", "/v1/traces", {"content-type": "text/plain"}, b"x", 415),
        *(
            ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": coding}, body(), 415)
            for coding in ("br", "zstd", "gzip, gzip", "gzip;q=1")
        ),
        ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": "gzip"}, b"no gzip", 400),
        ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": "gzip"}, gzip.compress(body())[:-4], 400),
        ("POST", "/v1/traces", {**PROTOBUF, "content-encoding": "gzip"}, gzip.compress(body()) + b"junk", 400),
        ("GET", "/v1/traces", {}, b"", 405),
        ("PUT", "/v1/traces", PROTOBUF, b"x", 405),
        ("POST", "/v1/logs", JSON, b'{"logs": []}', 400),
        ("POST", "/v1/metrics", PROTOBUF, b"x", 400),
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


async def test_gzip_of_several_members_is_understood(client: httpx.AsyncClient, running: Receiving) -> None:
    """RFC 1952 lets a gzip file hold several members."""
    whole = body(content="x" * 5000)
    content = gzip.compress(whole[:1000]) + gzip.compress(b"") + gzip.compress(whole[1000:])
    answer = await client.post("/v1/traces", content=content, headers={**PROTOBUF, "content-encoding": "gzip"})

    assert answer.status_code == 200


@pytest.mark.parametrize("compression", [grpc.Compression.NoCompression, grpc.Compression.Gzip])
async def test_too_large_message_is_refused_over_grpc(running: Receiving, compression: grpc.Compression) -> None:
    """gRPC's limit holds for what comes out of the decompressor, too."""
    options = [("grpc.max_send_message_length", -1)]
    async with grpc.aio.insecure_channel(
        str(running.grpc.address), compression=compression, options=options
    ) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(EXPORT)(bytes(8 * LIMIT))

    assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_full_journal_asks_to_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the journal is at its limit senders are asked to keep theirs, before they send it; then it goes on."""
    monkeypatch.setattr(writing, "_MEASURE_EVERY_S", 0.0)
    async with (
        receiving(tmp_path, max_bytes=100_000) as running,
        grpc.aio.insecure_channel(str(running.grpc.address)) as channel,
    ):
        hog = tmp_path / "hog"
        hog.write_bytes(bytes(100_000))
        answer = await post(running, body(2))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await channel.unary_unary(EXPORT)(body(2))
        hog.unlink()
        again = await post(running, body(2))

        metadata = dict(cast("Any", refused.value.trailing_metadata()))
        status = Status.FromString(metadata["grpc-status-details-bin"])
        delay = RetryInfo()
        assert status.details[0].Unpack(delay)
        assert (answer.status_code, answer.headers["retry-after"], again.status_code) == (429, "5", 200)
        assert (refused.value.code(), delay.retry_delay.seconds) == (grpc.StatusCode.RESOURCE_EXHAUSTED, 5)
        assert RetryInfo.FromString(metadata["google.rpc.retryinfo-bin"]) == delay
        assert len(running.spans) == 4
        assert running.intake.counts.requests_busy == 2


async def test_stopping_collector_asks_to_come_back(tmp_path: Path) -> None:
    """Who sends while the collector stops is asked to send again."""
    async with receiving(tmp_path) as running:
        running.intake.stop()
        answer = await post(running, body())

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


@pytest.mark.parametrize("signal", ["logs", "metrics"])
async def test_other_signals_are_journalled_as_they_came(
    client: httpx.AsyncClient, running: Receiving, signal: str
) -> None:
    """Logs and metrics are journalled byte for byte, in order, whatever the transport."""
    service = next(one for one in SERVICES if one.signal == signal)
    whole = service.request()
    getattr(whole, f"resource_{signal}").add(schema_url="x")
    sent = whole.SerializeToString() + b"\xfa\x01\x03new"  # a field of tomorrow
    answer = await client.post(service.path, content=sent, headers=PROTOBUF)
    async with grpc.aio.insecure_channel(str(running.grpc.address)) as channel:
        await channel.unary_unary(f"/{service.name}/Export")(sent)

    kept = [(entry.signal, running.reader.payload(entry.position)) for entry in running.entries]
    assert (answer.status_code, kept) == (200, [(signal, sent)] * 2)


async def test_ids_of_json_logs_are_hex(client: httpx.AsyncClient, running: Receiving) -> None:
    """OTLP-JSON writes ids as hex; keys that look like ids in what a program said are left alone."""
    record = {
        "traceId": "0a" * 16,
        "spanId": "0b" * 8,
        "attributes": [{"key": "k", "value": {"kvlistValue": {"values": [{"key": "traceId", "value": {}}]}}}],
    }
    document = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    answer = await client.post("/v1/logs", json=document)
    request = ExportLogsServiceRequest.FromString(running.reader.payload(running.entries[0].position))
    read = request.resource_logs[0].scope_logs[0].log_records[0]

    assert (answer.status_code, read.trace_id, read.span_id) == (200, b"\x0a" * 16, b"\x0b" * 8)


async def test_request_that_breaks_us_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that nobody foresaw is kept with the reason and refused for good: again it would break us again."""

    def break_down(*_: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(RequestReader, "read", break_down)
    async with receiving(tmp_path) as running:
        answers = [await post(running, body()) for _ in range(2)]
    about = [json.loads(path.read_text()) for path in (tmp_path / "refused").glob("*.json")]

    assert [answer.status_code for answer in answers] == [400, 400]
    assert [one["reason"] for one in about] == ["RuntimeError: unforeseen"]
    assert [path.read_bytes() for path in (tmp_path / "refused").glob("*.bin")] == [body()]
    assert running.intake.counts.requests_set_aside == 2


async def test_body_of_an_answer_does_not_wait_for_the_client_to_acknowledge_its_headers() -> None:
    """A connection sends at once what is written to it, however little: else each answer takes 40 ms longer."""
    with (
        listening_socket(ListenAddress("127.0.0.1", 0), "--http", "OTLP/HTTP") as here,
        socket.create_connection(here.getsockname()),
        here.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_slow_headers_end_the_connection(running: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not finish its headers in time is cut off, however steadily it trickles."""
    monkeypatch.setattr("blamespan_collector.receiving.http_server._HEADERS_TIMEOUT_S", 0.3)
    reading, writing = await asyncio.open_connection("127.0.0.1", running.http.address.port)
    writing.write(b"POST /v1/traces HTTP/1.1\r\n")
    began = asyncio.get_running_loop().time()
    with contextlib.suppress(ConnectionError):
        async with asyncio.timeout(5):
            while not reading.at_eof():
                writing.write(b"x: y\r\n")
                await writing.drain()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reading.read(1), 0.05)
    writing.close()

    assert asyncio.get_running_loop().time() - began < 3


async def test_many_large_bodies_at_once_are_refused_for_now(client: httpx.AsyncClient, running: Receiving) -> None:
    """Bodies that are being received share a stated room; beyond it senders are asked to come back."""
    lines = [
        "POST /v1/traces HTTP/1.1",
        "host: localhost",
        "content-type: application/json",
        f"content-length: {LIMIT}",
    ]
    head = "\r\n".join([*lines, "", ""])
    slow = [(await asyncio.open_connection("127.0.0.1", running.http.address.port))[1] for _ in range(4)]
    for one in slow:
        one.write(head.encode() + bytes(LIMIT - 1))
        await one.drain()

    async def answered(content: bytes, status: int) -> None:
        while (await client.post("/v1/traces", content=content, headers=PROTOBUF)).status_code != status:  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    await asyncio.wait_for(answered(bytes(1000), 429), 10)  # once the server has read what we wrote
    for one in slow:
        one.close()
        await one.wait_closed()
    await asyncio.wait_for(answered(body(), 200), 10)
