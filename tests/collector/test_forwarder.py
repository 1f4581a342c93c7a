"""What goes to a backend: cut to size, tried again as long as it makes sense, and counted when lost."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
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
from blamespan_collector.delivering import backend as module
from blamespan_collector.delivering import delivery as delivery_module
from blamespan_collector.delivering.backend import BackendAccess, signal_url
from blamespan_collector.delivering.delivery import Delivery
from blamespan_collector.delivering.forwarder import forwarder
from blamespan_collector.delivering.outbox import Outbox
from blamespan_collector.state.state import State
from blamespan_collector.wire.outgoing import Kind, Outgoing
from blamespan_collector.wire.raw_spans import encode, pieces
from tests.collector.fakes import run, spans_of
from tests.collector.serving import serving_app


@dataclass
class HttpBackend:
    """Answers with the statuses it was given, then with 200."""

    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    attempts: int = 0
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    answer: bytes = b""
    media_type: str = "application/x-protobuf"

    async def __call__(self, request: Request) -> Response:
        self.attempts += 1
        self.paths.append(request.url.path)
        self.headers.append(dict(request.headers))
        content = await request.body()
        if request.headers.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        if self.statuses:
            status, headers = self.statuses.pop(0)
            return Response(b"no", status, headers)
        self.requests.append(ExportTraceServiceRequest.FromString(content))
        return Response(self.answer, 200, media_type=self.media_type)


@asynccontextmanager
async def serving(backend: HttpBackend) -> AsyncIterator[str]:
    routes = [Route("/{path:path}", backend.__call__, methods=["POST"])]
    async with serving_app(Starlette(routes=routes)) as url:
        yield url


class GrpcBackend(TraceServiceServicer):
    """Answers with the errors it was given, then with success."""

    def __init__(
        self, *errors: tuple[grpc.StatusCode, float | None], answer: ExportTraceServiceResponse | None = None
    ) -> None:
        self.errors = list(errors)
        self.answer = answer or ExportTraceServiceResponse()
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
        return self.answer


@asynccontextmanager
async def grpc_serving(backend: GrpcBackend) -> AsyncIterator[str]:
    server = grpc.aio.server()
    add_TraceServiceServicer_to_server(backend, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    yield f"grpc://127.0.0.1:{port}"
    await server.stop(0)


async def delivered(
    folder: Path, url: str, *, for_s: float = 20, size: int = 1, steps: int = 3, rows: int = 1, kinds: str = "traces"
) -> Delivery:
    """Deliver runs, one row of the outbox each, for at most so long."""
    state = State(folder / "state.db", sync="normal")
    client = BackendAccess(headers=(("x-key", "secret"),))
    with state.commit():
        for number in range(1, rows + 1):
            raw = encode(run(number, content="x" * size, steps=steps))
            state.enqueue(Outgoing("traces", *piece) for piece in pieces(raw, client.max_bytes))
    delivery = Delivery(lambda sinks: Outbox(folder / "state.db", sinks, sync="normal"), [forwarder(url, client)])
    await asyncio.to_thread(delivery.start)
    try:
        async with asyncio.timeout(for_s):
            while delivery.counts[delivery_lane(delivery)].waiting:  # noqa: ASYNC110  # a count of another thread
                await asyncio.sleep(0.01)
    finally:
        await asyncio.to_thread(delivery.stop, 5)
        state.close()
    return delivery


def delivery_lane(delivery: Delivery) -> tuple[str, Kind]:
    return next(lane for lane in delivery.counts if lane[1] == "traces")


def refused(delivery: Delivery) -> int:
    return delivery.counts[delivery_lane(delivery)].refused


def why(folder: Path) -> list[tuple[str, int]]:
    state = State(folder / "state.db", sync="normal")
    rows = state.database.execute("SELECT reason, spans FROM set_aside ORDER BY row").fetchall()
    state.close()
    return rows


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a hundredth as long between attempts."""
    monkeypatch.setattr(delivery_module, "_FIRST_DELAY_S", 0.005)
    monkeypatch.setattr(delivery_module, "_LONGEST_DELAY_S", 0.05)


async def test_traces_go_to_the_standard_path_with_headers(tmp_path: Path) -> None:
    """A URL without a path means `/v1/traces`; the headers given are sent."""
    backend = HttpBackend()
    async with serving(backend) as url:
        await delivered(tmp_path, url)
        await delivered(tmp_path, f"{url}/otlp/v1/traces")

    assert backend.paths == ["/v1/traces", "/otlp/v1/traces"]
    assert backend.headers[0]["x-key"] == "secret"
    assert [span.span_id for span in spans_of(backend.requests[:1])] == [span.span_id for span in run(1)]


@pytest.mark.parametrize("status", [401, 403, 404, 408, 429, 502, 503, 504])
async def test_overloaded_or_misconfigured_backend_is_tried_again(tmp_path: Path, status: int) -> None:
    """What may pass, and what speaks of us rather than of the spans, is tried until it works, and arrives once."""
    backend = HttpBackend([(status, {"retry-after": "0"}), (status, {"retry-after": "nonsense"})])
    async with serving(backend) as url:
        await delivered(tmp_path, url)

    assert (backend.attempts, len(backend.requests)) == (3, 1)


@pytest.mark.parametrize("said", ["5", "Fri, 01 Jan 2100 00:00:00 GMT"])
async def test_time_asked_for_is_waited(tmp_path: Path, said: str) -> None:
    """`Retry-After`, in seconds or as a date, is honoured."""
    backend = HttpBackend([(503, {"retry-after": said})])
    async with serving(backend) as url:
        with pytest.raises(TimeoutError):
            await delivered(tmp_path, url, for_s=0.5)


@pytest.mark.parametrize("status", [400, 405, 415, 501])
async def test_refusal_is_not_tried_again(tmp_path: Path, status: int) -> None:
    """What cannot pass is set aside at once, with the backend's reason and the bytes."""
    backend = HttpBackend([(status, {})])
    async with serving(backend) as url:
        delivery = await delivered(tmp_path, url)

    assert (backend.attempts, refused(delivery)) == (1, 4)
    assert why(tmp_path) == [(f"HTTP {status}: 'no'", 4)]


async def test_one_refused_trace_spoils_no_other(tmp_path: Path) -> None:
    """A batch that is refused is sent in halves until the one that is meant stands alone."""
    bad = run(3)[0].trace_id

    class Picky(HttpBackend):
        async def __call__(self, request: Request) -> Response:
            found = ExportTraceServiceRequest.FromString(await request.body())
            if any(span.trace_id == bad for span in spans_of([found])):
                return Response(b"bad id", 400)
            self.requests.append(found)
            return Response(b"", 200)

    backend = Picky()
    async with serving(backend) as url:
        delivery = await delivered(tmp_path, url, rows=5)

    expected = [span.span_id for number in (1, 2, 4, 5) for span in run(number)]
    assert [span.span_id for span in spans_of(backend.requests)] == expected
    assert (refused(delivery), why(tmp_path)) == (4, [("HTTP 400: 'bad id'", 4)])


async def test_trace_on_which_a_backend_fails_is_told_from_a_backend_that_is_down(tmp_path: Path) -> None:
    """500 for one trace, again and again, while the next one passes: that trace is set aside."""
    bad = run(2)[0].trace_id

    class Failing(HttpBackend):
        async def __call__(self, request: Request) -> Response:
            found = ExportTraceServiceRequest.FromString(await request.body())
            if any(span.trace_id == bad for span in spans_of([found])):
                return Response(b"oops", 500)
            self.requests.append(found)
            return Response(b"", 200)

    backend = Failing()
    async with serving(backend) as url:
        delivery = await delivered(tmp_path, url, rows=3)

    assert [span.span_id for span in spans_of(backend.requests)] == [s.span_id for n in (1, 3) for s in run(n)]
    assert refused(delivery) == 4


async def test_backend_that_fails_on_everything_is_waited_for(tmp_path: Path) -> None:
    """500 for all of it is an outage: nothing is set aside."""
    backend = HttpBackend([(500, {})] * 30)
    async with serving(backend) as url:
        delivery = await delivered(tmp_path, url, rows=3)

    assert refused(delivery) == 0
    assert sorted(span.span_id for span in spans_of(backend.requests)) == sorted(
        span.span_id for number in (1, 2, 3) for span in run(number)
    )


@pytest.mark.parametrize("scheme", ["http", "grpc"])
async def test_stopping_leaves_what_cannot_be_delivered_for_the_next_start(tmp_path: Path, scheme: str) -> None:
    """An unreachable backend is not waited for at the end; its spans stay on disk."""
    with contextlib.suppress(TimeoutError):
        await delivered(tmp_path, f"{scheme}://127.0.0.1:9", for_s=0.5)
    state = State(tmp_path / "state.db", sync="normal")
    (rows,) = state.database.execute("SELECT count(*) FROM outbox").fetchone()
    state.close()

    assert rows == 1


@pytest.mark.parametrize("scheme", ["http", "grpc"])
async def test_large_traces_are_cut_below_four_mebibytes(tmp_path: Path, scheme: str) -> None:
    """gRPC servers take 4 MiB unless told otherwise: larger traces go in pieces, in order, complete."""
    backend: HttpBackend | GrpcBackend = HttpBackend() if scheme == "http" else GrpcBackend()
    opened = serving(backend) if isinstance(backend, HttpBackend) else grpc_serving(backend)
    async with opened as url:
        await delivered(tmp_path, url, size=400_000, steps=30)
    requests = backend.requests

    assert len(requests) > 1
    assert max(one.ByteSize() for one in requests) <= module.MAX_BATCH_BYTES
    assert [span.span_id for span in spans_of(requests)] == [span.span_id for span in run(1, steps=30)]


async def test_backend_with_a_smaller_limit_gets_smaller_requests(tmp_path: Path) -> None:
    """A request refused as too large is sent in halves; only what cannot be halved is set aside."""
    backend = HttpBackend([(413, {}), (413, {}), (413, {})])
    async with serving(backend) as url:
        delivery = await delivered(tmp_path, url)

    assert refused(delivery) == 1
    assert [span.span_id for span in spans_of(backend.requests)] == [span.span_id for span in run(1)[1:]]


async def test_grpc_backend_is_tried_again_when_it_asks(tmp_path: Path) -> None:
    """UNAVAILABLE, and RESOURCE_EXHAUSTED with a time to come back, are tried again."""
    backend = GrpcBackend((grpc.StatusCode.UNAVAILABLE, 0.01), (grpc.StatusCode.RESOURCE_EXHAUSTED, 0.01))
    async with grpc_serving(backend) as url:
        await delivered(tmp_path, url)

    assert [span.span_id for span in spans_of(backend.requests)] == [span.span_id for span in run(1)]
    assert backend.metadata["x-key"] == "secret"


async def test_grpc_refusal_is_not_tried_again(tmp_path: Path) -> None:
    """What cannot pass is set aside at once, with the backend's reason."""
    backend = GrpcBackend((grpc.StatusCode.INVALID_ARGUMENT, None))
    async with grpc_serving(backend) as url:
        delivery = await delivered(tmp_path, url)

    assert (refused(delivery), why(tmp_path)) == (4, [("INVALID_ARGUMENT: 'no'", 4)])


@pytest.mark.parametrize(
    ("given", "kind", "path"),
    [
        ("http://h:1", "logs", "/v1/logs"),
        ("http://h:1/", "metrics", "/v1/metrics"),
        ("http://h:1/otlp/v1/traces", "logs", "/otlp/v1/logs"),
        ("http://h:1/otlp", "traces", "/otlp/v1/traces"),
        ("http://h:1/otlp/", "traces", "/otlp/v1/traces"),
        ("http://h:1/otlp", "logs", "/otlp/v1/logs"),
        ("http://h:1/insert/opentelemetry", "traces", "/insert/opentelemetry/v1/traces"),
        ("http://h:1/insert/opentelemetry/v1/traces", "traces", "/insert/opentelemetry/v1/traces"),
        ("http://h:1/api/public/otel", "traces", "/api/public/otel/v1/traces"),
        ("http://h:1/api/public/otel/v1/traces", "traces", "/api/public/otel/v1/traces"),
        ("http://h:1/api/default/v1/traces", "metrics", "/api/default/v1/metrics"),
        ("http://h:1/api/0/otlp/v1/traces/", "traces", "/api/0/otlp/v1/traces/"),
        ("http://h:1/api/0/otlp/v1/traces/", "logs", "/api/0/otlp/v1/logs"),
        ("http://h:1/v1/logs", "logs", "/v1/logs"),
        ("http://h:1/v1/logs", "traces", "/v1/traces"),
        ("http://h:1/v1/projects/x/traces", "traces", "/v1/projects/x/traces"),
        ("http://h:1/api/v0.2/traces", "logs", "/api/v0.2/logs"),
        ("http://h:1/v1", "traces", "/v1/v1/traces"),
    ],
)
def test_signals_go_where_opentelemetrys_variables_send_them(given: str, kind: Kind, path: str) -> None:
    """A base URL gets `/v1/SIGNAL`; a full path is used as it is for its signal, and its siblings stand beside it."""
    assert signal_url(f"{given}?key=1", kind) == f"http://h:1{path}?key=1"


@pytest.mark.parametrize(
    "endpoint", ["http://h:1", "http://h:1/", "http://h:1/otlp", "http://h:1/otlp/", "http://h:1/api/public/otel"]
)
def test_base_url_means_what_the_sdk_makes_of_it(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """OpenTelemetry's own exporter, given the same base in its variable, sends to the same URL."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    exporter = OTLPSpanExporter()
    exporter.shutdown()

    assert signal_url(endpoint, "traces") == exporter._endpoint


async def test_exact_url_takes_traces_alone(tmp_path: Path) -> None:
    """A backend of an unusual path is named by `traces=URL`: that is where they go, and nothing else goes there."""
    backend = HttpBackend()
    async with serving(backend) as url:
        delivery = await delivered(tmp_path, f"traces={url}/v2/trace/otlp")

    assert backend.paths == ["/v2/trace/otlp"]
    assert [kind for _, kind in delivery.counts] == ["traces"]


async def test_forwarder_names_no_credentials() -> None:
    """What is printed about a backend holds neither its password nor its query."""
    sink = forwarder("https://user:secret@example.com/otlp?token=secret")

    assert sink.name == "https://example.com/otlp"
    await sink.close()


@pytest.mark.parametrize(
    "url",
    [
        "localhost:4317",
        "ftp://host:1",
        "http://",
        "http://host:99999",
        "grpc://host",
        "grpc://host:1/path",
        "traces=grpc://host:1",
        "traces=",
        "",
    ],
)
async def test_wrong_url_is_refused(url: str) -> None:
    """A URL we cannot send to is named before anything starts."""
    with pytest.raises(ConfigError, match="expected"):
        forwarder(url)
