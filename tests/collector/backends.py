"""Backends that answer as they are told to, and keep what they got: one over HTTP, one over gRPC."""

from __future__ import annotations

import gzip
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
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


@dataclass(frozen=True)
class Asked:
    """A request as it came, unpacked."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class HttpBackend:
    """Answers with the statuses it was given, then with what it refuses a request with, then with 200."""

    statuses: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    refuses: Callable[[Asked], tuple[int, bytes] | None] = lambda asked: None
    answer: bytes = b""
    media_type: str = "application/x-protobuf"
    asked: list[Asked] = field(default_factory=list)
    taken: list[bytes] = field(default_factory=list)

    def respond(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(asked)
        if self.statuses:
            return *self.statuses.pop(0), b"no"
        if (refusal := self.refuses(asked)) is not None:
            return refusal[0], {}, refusal[1]
        self.taken.append(asked.body)
        return 200, {"content-type": self.media_type}, self.answer

    @property
    def requests(self) -> list[ExportTraceServiceRequest]:
        """What it took, read as spans."""
        return [ExportTraceServiceRequest.FromString(body) for body in self.taken]


@contextmanager
def serving(backend: HttpBackend, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """Let a backend answer, from threads of its own; gives its URL."""

    class Answer(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            if headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            status, more, content = backend.respond(Asked(self.command, self.path, headers, body))
            self.send_response(status)
            for name, value in {"content-length": str(len(content)), **more}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST  # noqa: N815  # the base class's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@dataclass(frozen=True)
class Abort:
    """An error, and in how many seconds to come back."""

    code: grpc.StatusCode
    details: str = "no"
    retry_s: float | None = None


@dataclass
class GrpcBackend(TraceServiceServicer):
    """Hangs so many times, answers with the errors it was given, then with success."""

    aborts: list[Abort] = field(default_factory=list)
    answer: ExportTraceServiceResponse = field(default_factory=ExportTraceServiceResponse)
    hangs: int = 0
    attempts: int = 0
    requests: list[ExportTraceServiceRequest] = field(default_factory=list)
    metadata: dict[str, object] = field(default_factory=dict)
    is_over: threading.Event = field(default_factory=threading.Event)

    def Export(  # noqa: N802
        self, request: ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> ExportTraceServiceResponse:
        self.attempts += 1
        self.metadata = dict(context.invocation_metadata())
        if self.attempts <= self.hangs:
            self.is_over.wait(20)
            return self.answer
        if self.aborts:
            abort = self.aborts.pop(0)
            if abort.retry_s is not None:
                delay = Duration()
                delay.FromTimedelta(timedelta(seconds=abort.retry_s))
                info = RetryInfo(retry_delay=delay).SerializeToString()
                context.set_trailing_metadata((("google.rpc.retryinfo-bin", info),))
            context.abort(abort.code, abort.details)
        self.requests.append(request)
        return self.answer


@contextmanager
def grpc_serving(backend: GrpcBackend) -> Iterator[str]:
    """Let a backend answer, from threads of its own; gives its URL."""
    server = grpc.server(ThreadPoolExecutor(8))
    add_TraceServiceServicer_to_server(backend, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"grpc://127.0.0.1:{port}"
    finally:
        backend.is_over.set()
        server.stop(0)
