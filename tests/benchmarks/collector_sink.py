"""The backend of `scripts/bench collector`: takes OTLP over HTTP, counts spans, forgets them. A process of its own."""

from __future__ import annotations

import gzip
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import click
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from blamespan import conventions as words

_lock = threading.Lock()


class Sink(BaseHTTPRequestHandler):
    """Counts on its class: there is one per process."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    spans = 0
    judged_with: ClassVar[set[bytes]] = set()
    """Traces whose verdict came on their own spans."""
    judged_later: ClassVar[set[bytes]] = set()
    """Traces whose verdict came on a span of its own, after them."""
    last_unix_s = 0.0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if self.path == "/v1/traces":
            _count(ExportTraceServiceRequest.FromString(body))
        self._answer(b"", "application/x-protobuf")

    def do_GET(self) -> None:
        late = len(Sink.judged_later - Sink.judged_with)
        judged = len(Sink.judged_with) + late
        said = {"spans": Sink.spans, "judged": judged, "judged_late": late, "last_unix_s": Sink.last_unix_s}
        self._answer(json.dumps(said).encode(), "application/json")

    def _answer(self, body: bytes, content_type: str) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Say nothing."""


def _count(request: ExportTraceServiceRequest) -> None:
    with _lock:
        for group in request.resource_spans:
            for scope in group.scope_spans:
                if scope.scope.name == words.VERDICT_SCOPE:
                    Sink.judged_later.update(span.trace_id for span in scope.spans)
                    continue
                Sink.spans += len(scope.spans)
                Sink.judged_with.update(span.trace_id for span in scope.spans if _is_judged_root(span))
        Sink.last_unix_s = time.time()


def _is_judged_root(span: Span) -> bool:
    return not span.parent_span_id and any(one.key == words.TRACER_NAME for one in span.attributes)


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    click.echo(f"http://127.0.0.1:{server.server_address[1]}")
    server.serve_forever()


if __name__ == "__main__":
    main()
