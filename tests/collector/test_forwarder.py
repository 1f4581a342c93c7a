"""What goes to a backend: cut to size, tried again as long as it makes sense, and counted when lost."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pytest
import uvicorn
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from blamespan.errors import ConfigError
from blamespan_collector import forwarder as module
from blamespan_collector.forwarder import forwarder
from blamespan_collector.receiver_http import _listening, _Server
from blamespan_collector.settings import Address
from blamespan_collector.sinks import Patience, Undelivered
from tests.collector.fakes import run, spans_of, until


@dataclass
class HttpBackend:
    """Answers with the statuses it was given, then with 200."""

    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    attempts: int = 0
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answer: bytes = b""

    async def __call__(self, request: Request) -> Response:
        self.attempts += 1
        self.paths.append(request.url.path)
        self.headers.append(dict(request.headers))
        content = gzip.decompress(await request.body())
        if self.statuses:
            status, headers = self.statuses.pop(0)
            return Response(b"no", status, headers)
        self.requests.append(ExportTraceServiceRequest.FromString(content))
        return Response(self.answer, 200, media_type="application/x-protobuf")


@asynccontextmanager
async def serving(backend: HttpBackend) -> AsyncIterator[str]:
    socket = _listening(Address("127.0.0.1", 0))
    routes = [Route("/{path:path}", backend.__call__, methods=["POST"])]
    server = _Server(uvicorn.Config(Starlette(routes=routes), lifespan="off", log_config=None))
    task = asyncio.create_task(server.serve(sockets=[socket]))
    yield f"http://127.0.0.1:{socket.getsockname()[1]}"
    server.should_exit = True
    await task
    socket.close()


class GrpcBackend(TraceServiceServicer):
    """Answers with the errors it was given, then with success."""

    def __init__(self, *errors: tuple[grpc.StatusCode, float | None]) -> None:
        self.errors = list(errors)
        self.requests: list[ExportTraceServiceRequest] = []
        self.metadata: dict[str, object] = {}

    async def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:  # noqa: N802
        self.metadata = dict(context.invocation_metadata())
        if self.errors:
            code, after_s = self.errors.pop(0)
            if after_s is not None:
                delay = Duration(nanos=int(after_s * 1e9))
                context.set_trailing_metadata(
                    (("google.rpc.retryinfo-bin", RetryInfo(retry_delay=delay).SerializeToString()),)
                )
            await context.abort(code, "no")
        self.requests.append(request)
        return ExportTraceServiceResponse()


@asynccontextmanager
async def grpc_serving(backend: GrpcBackend) -> AsyncIterator[str]:
    server = grpc.aio.server()
    add_TraceServiceServicer_to_server(backend, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"grpc://127.0.0.1:{port}"
    await server.stop(0)


def patience(for_s: float = 20, *, stopping: bool = False) -> Patience:
    event = asyncio.Event()
    if stopping:
        event.set()
    return Patience(event, asyncio.get_running_loop().time() + for_s)


async def deliver(url: str, *, for_s: float = 20, stopping: bool = False, size: int = 1, steps: int = 3) -> None:
    sink = forwarder(url, [("x-key", "secret")])
    try:
        await sink.deliver([run(1, content="x" * size, steps=steps)], patience(for_s, stopping=stopping))
    finally:
        await sink.close()


async def test_traces_go_to_the_standard_path_with_headers() -> None:
    """A URL without a path means `/v1/traces`; the headers given are sent."""
    backend = HttpBackend()
    async with serving(backend) as url:
        await deliver(url)
        await deliver(f"{url}/otlp/v1/traces")

    assert backend.paths == ["/v1/traces", "/otlp/v1/traces"]
    assert backend.headers[0]["x-key"] == "secret"
    assert [span.span_id for span in spans_of(backend.requests[:1])] == [span.span_id for span in run(1)]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
async def test_overloaded_backend_is_tried_again(status: int) -> None:
    """What may pass is tried again after the time the backend asks for, and arrives once."""
    backend = HttpBackend([(status, {"retry-after": "0"}), (status, {"retry-after": "nonsense"})])
    async with serving(backend) as url:
        await deliver(url)

    assert (backend.attempts, len(backend.requests)) == (3, 1)


@pytest.mark.parametrize("status", [400, 401, 404, 500])
async def test_refusal_is_not_tried_again(status: int) -> None:
    """What cannot pass is lost at once, with the backend's reason."""
    backend = HttpBackend([(status, {})])
    async with serving(backend) as url:
        with pytest.raises(Undelivered, match=f"HTTP {status}: 'no'") as lost:
            await deliver(url)

    assert (backend.attempts, lost.value.spans) == (1, 4)


async def test_patience_ends() -> None:
    """A backend that stays away costs the batch, after the stated time."""
    backend = HttpBackend([(503, {"retry-after": "100"})])
    async with serving(backend) as url:
        with pytest.raises(Undelivered, match="HTTP 503"):
            await deliver(url, for_s=20)

    assert backend.attempts == 1


@pytest.mark.parametrize("scheme", ["http", "grpc"])
async def test_stopping_leaves_one_attempt(scheme: str) -> None:
    """Once the collector stops, an unreachable backend is not waited for."""
    with pytest.raises(Undelivered) as lost:
        await asyncio.wait_for(deliver(f"{scheme}://127.0.0.1:9", stopping=True), 5)

    assert lost.value.spans == 4


async def test_stopping_interrupts_the_wait() -> None:
    """A batch that waits for its next attempt gets it at once when the collector stops."""
    backend = HttpBackend([(503, {"retry-after": "15"})])
    stopping = asyncio.Event()
    async with serving(backend) as url:
        sink = forwarder(url)
        work = asyncio.create_task(sink.deliver([run(1)], Patience(stopping, asyncio.get_running_loop().time() + 20)))
        await until(lambda: backend.attempts)
        stopping.set()
        await asyncio.wait_for(work, 5)
        await sink.close()

    assert len(backend.requests) == 1


@pytest.mark.parametrize("make", [lambda url: url, lambda url: url.replace("http", "grpc")], ids=["http", "grpc"])
async def test_large_traces_are_cut_below_four_mebibytes(make: Callable[[str], str]) -> None:
    """gRPC servers take 4 MiB unless told otherwise: larger traces go in pieces, in order, complete."""
    if make("http://") == "http://":
        backend = HttpBackend()
        async with serving(backend) as url:
            await deliver(url, size=400_000, steps=30)
        requests = backend.requests
    else:
        grpc_backend = GrpcBackend()
        async with grpc_serving(grpc_backend) as url:
            await deliver(url, size=400_000, steps=30)
        requests = grpc_backend.requests

    assert len(requests) > 1
    assert max(one.ByteSize() for one in requests) <= module.MAX_BATCH_BYTES
    assert [span.span_id for span in spans_of(requests)] == [span.span_id for span in run(1, steps=30)]


async def test_backend_with_a_smaller_limit_gets_smaller_requests() -> None:
    """A request refused as too large is sent in halves; only what cannot be halved is lost."""
    backend = HttpBackend([(413, {}), (413, {}), (413, {})])
    async with serving(backend) as url:
        with pytest.raises(Undelivered, match="too large") as lost:
            await deliver(url)

    assert lost.value.spans == 1
    assert [span.span_id for span in spans_of(backend.requests)] == [span.span_id for span in run(1)[1:]]


async def test_partial_success_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Spans that the backend refuses within a good request are counted in the log."""
    answer = ExportTraceServiceResponse()
    answer.partial_success.rejected_spans = 2
    answer.partial_success.error_message = "bad \n ids"
    async with serving(HttpBackend(answer=answer.SerializeToString())) as url:
        await deliver(url)

    assert caplog.messages == [f"{url} refused 2 spans: 'bad \\n ids'"]


async def test_grpc_backend_is_tried_again_when_it_asks() -> None:
    """UNAVAILABLE, and RESOURCE_EXHAUSTED with a time to come back, are tried again."""
    backend = GrpcBackend((grpc.StatusCode.UNAVAILABLE, 0.01), (grpc.StatusCode.RESOURCE_EXHAUSTED, 0.01))
    async with grpc_serving(backend) as url:
        await deliver(url)

    assert [span.span_id for span in spans_of(backend.requests)] == [span.span_id for span in run(1)]
    assert backend.metadata["x-key"] == "secret"


async def test_grpc_refusal_is_not_tried_again() -> None:
    """What cannot pass is lost at once, with the backend's reason."""
    backend = GrpcBackend((grpc.StatusCode.PERMISSION_DENIED, None))
    async with grpc_serving(backend) as url:
        with pytest.raises(Undelivered, match="PERMISSION_DENIED: 'no'") as lost:
            await deliver(url)

    assert lost.value.spans == 4


@pytest.mark.parametrize(
    "url", ["localhost:4317", "ftp://host:1", "http://", "http://host:99999", "grpc://host", "grpc://host:1/path", ""]
)
async def test_wrong_url_is_refused(url: str) -> None:
    """A URL we cannot send to is named before anything starts."""
    with pytest.raises(ConfigError, match="expected"):
        forwarder(url)
