"""An OTLP backend over HTTP that can be told to misbehave, and remembers everything it accepted."""

from __future__ import annotations

import gzip
import socket
import struct
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.faults.ledger import Arrivals

Mood: TypeAlias = Literal["well", "refusing", "failing", "busy", "silent", "slow", "forgetful", "hanging up"]
"""`refusing`: no one listens. `failing`: 503. `busy`: 429 with Retry-After. `silent`: takes the request, never
answers. `slow`: answers after half a second. `forgetful`: accepts, and its answer is lost on the way.
`hanging up`: goes away in the middle of the request."""

BAD_MOODS: tuple[Mood, ...] = ("refusing", "failing", "busy", "silent", "slow", "forgetful", "hanging up")
_SLOW_S = 0.5


class Backend:
    """Listens on a port of its own until closed; the port stays the same when nobody is to listen on it."""

    def __init__(self, arrivals: Arrivals) -> None:
        self.arrivals = arrivals
        self._unpersisted: list[tuple[float, ExportTraceServiceRequest]] = []
        self._mood: Mood = "well"
        self._changed = threading.Event()
        self._server: _Server | None = _Server(("127.0.0.1", 0), self)
        self._port = self._server.server_address[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def mood(self) -> Mood:
        return self._mood

    @mood.setter
    def mood(self, mood: Mood) -> None:
        self._mood = mood
        changed, self._changed = self._changed, threading.Event()
        changed.set()
        if mood == "refusing" and self._server:
            self._server.close()
            self._server = None
        elif mood != "refusing" and self._server is None:
            self._server = _Server(("127.0.0.1", self._port), self)

    def take(self, request: ExportTraceServiceRequest) -> None:
        """Take a request, which is acknowledged before it is on any disk."""
        self._unpersisted.append((time.time(), request))
        self.arrivals.add(request)

    def die(self, since_s: float) -> None:
        """End as by `kill -9`, without what was taken since then (Unix time); a new mood brings it back."""
        self.mood = "refusing"
        for at_s, request in self._unpersisted:
            if at_s >= since_s:
                self.arrivals.forget(request)
        self._unpersisted.clear()

    def sulk(self) -> None:
        """Wait as long as the mood lasts."""
        self._changed.wait(60)

    def close(self) -> None:
        self.mood = "refusing"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], backend: Backend) -> None:
        self.backend = backend
        self._connections: set[socket.socket] = set()
        super().__init__(address, _Answer)
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: senders are killed here all the time."""

    def close(self) -> None:
        """Stop listening and cut every connection."""
        self.shutdown()
        self.server_close()
        for connection in list(self._connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class _Answer(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        backend = self.server.backend
        mood = backend.mood
        length = int(self.headers["content-length"])
        if mood == "hanging up":
            self.rfile.read(length // 2)
            return self._cut()
        body = self.rfile.read(length)
        if len(body) < length:
            return self._cut()
        if mood in ("failing", "busy"):
            return self._answer(503 if mood == "failing" else 429, retry_after="1" if mood == "busy" else None)
        if mood == "silent":
            backend.sulk()
            return self._cut()
        if mood == "slow":
            time.sleep(_SLOW_S)
        if self.path == "/v1/traces":
            is_compressed = self.headers.get("content-encoding") == "gzip"
            backend.take(ExportTraceServiceRequest.FromString(gzip.decompress(body) if is_compressed else body))
        return self._cut() if mood == "forgetful" else self._answer(200)

    def _answer(self, status: int, retry_after: str | None = None) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", "0")
        if retry_after:
            self.send_header("retry-after", retry_after)
        self.end_headers()

    def _cut(self) -> None:
        """End the connection with a reset."""
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """Say nothing."""
