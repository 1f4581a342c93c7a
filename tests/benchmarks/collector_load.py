"""The senders of `scripts/bench collector`: a process of its own, one thread and one connection per sender.

    python -m tests.benchmarks.collector_load http://127.0.0.1:4318/v1/traces --seconds 10 [--spans-per-s 7500]

Prints one JSON document. A latency is counted from when the request was due, so that a stalled server also pays for
the requests that waited behind the stalled one; without a pace, a request is due when the one before was answered.
"""

from __future__ import annotations

import argparse
import itertools
import json
import socket
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import grpc
from tests.benchmarks.collector_bodies import Bodies, roots_only, whole_traces, without_roots

CONNECTIONS = 4
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
KINDS: dict[str, Callable[[], Bodies]] = {"whole": whole_traces, "open": without_roots, "roots": roots_only}
_BUSY_STATUSES = (429, 502, 503, 504)
_BUSY_CODES = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
_LONGEST_PAUSE_S = 1.0

Send = Callable[[bytes], float | None]
"""Sends one body; returns None when it was acknowledged, else how many seconds to wait before it is sent again."""


@dataclass(slots=True)
class Load:
    """What to send, shared by all senders."""

    url: str
    headers: dict[str, str]
    bodies: Bodies
    until_s: float
    requests: int
    every_s: float
    began_s: float = field(default_factory=time.perf_counter)
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    latencies_s: list[float] = field(default_factory=list)
    pushed_back: int = 0
    failed: list[str] = field(default_factory=list)
    last_ack_s: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="http://HOST:PORT/PATH or grpc://HOST:PORT")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--kind", choices=sorted(KINDS), default="whole")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--requests", type=int, default=10**9, help="send no more than this many")
    parser.add_argument("--spans-per-s", type=float, default=0.0, help="pace of all senders together; 0: none")
    arguments = parser.parse_args()
    bodies = KINDS[arguments.kind]()
    every_s = bodies_spans(bodies) / arguments.spans_per_s if arguments.spans_per_s else 0.0
    load = Load(
        arguments.url,
        dict(header.split("=", 1) for header in arguments.header),
        bodies,
        time.perf_counter() + arguments.seconds,
        arguments.requests,
        every_s,
    )
    threads = [threading.Thread(target=_send_all, args=(load,)) for _ in range(CONNECTIONS)]
    began_unix_s = time.time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    json.dump(_result(load, began_unix_s), sys.stdout)


def bodies_spans(bodies: Bodies) -> int:
    """Count the spans of one request."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest.FromString(bodies.templates[0])
    return sum(len(scope.spans) for group in request.resource_spans for scope in group.scope_spans)


def _result(load: Load, began_unix_s: float) -> dict[str, object]:
    latencies = sorted(load.latencies_s)
    spans = bodies_spans(load.bodies) * len(latencies)
    took_s = max(load.last_ack_s - load.began_s, 1e-9)
    return {
        "acknowledged": spans,
        "acknowledged_per_s": spans / took_s,
        "p50_ms": _at(latencies, 0.5),
        "p99_ms": _at(latencies, 0.99),
        "pushed_back": load.pushed_back,
        "failed": load.failed[:3],
        "began_unix_s": began_unix_s,
        "request_bytes": len(load.bodies.templates[0]),
        "sender_cpu_s": time.process_time(),
    }


def _send_all(load: Load) -> None:
    send, close = _over_grpc(load) if load.url.startswith("grpc://") else _over_http(load)
    try:
        for number in load.numbers:
            due_s = load.began_s + number * load.every_s
            if load.every_s:
                time.sleep(max(0.0, due_s - time.perf_counter()))
            else:
                due_s = time.perf_counter()
            if number >= load.requests or due_s >= load.until_s:
                return
            _send_until_taken(load, send, load.bodies.body(number), due_s)
    except (OSError, grpc.RpcError, RuntimeError) as error:
        load.failed.append(f"{type(error).__name__}: {str(error)[:300]}")
    finally:
        close()


def _send_until_taken(load: Load, send: Send, body: bytes, due_s: float) -> None:
    while (pause_s := send(body)) is not None:
        load.pushed_back += 1
        if time.perf_counter() > load.until_s + 30:
            raise RuntimeError("pushed back for 30 s after the end")
        time.sleep(min(pause_s, _LONGEST_PAUSE_S))
    load.last_ack_s = time.perf_counter()
    load.latencies_s.append(load.last_ack_s - due_s)


def _over_http(load: Load) -> tuple[Send, Callable[[], None]]:
    """Speak just enough HTTP: a client library would cost more than what it measures."""
    url = urlsplit(load.url)
    connection = socket.create_connection((url.hostname or "", url.port or 0), timeout=120)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    extra = "".join(f"{name}: {value}\r\n" for name, value in load.headers.items())
    line = f"POST {url.path} HTTP/1.1\r\nhost: {url.netloc}\r\ncontent-type: application/x-protobuf\r\n{extra}"

    def send(body: bytes) -> float | None:
        connection.sendall(b"%scontent-length: %d\r\n\r\n%s" % (line.encode(), len(body), body))
        status, headers, said = _answer(connection)
        if status == 200:
            return None
        if status in _BUSY_STATUSES:
            return float(headers.get("retry-after", "0.5"))
        raise RuntimeError(f"HTTP {status}: {said[:200]!r}")

    return send, connection.close


def _answer(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    read = b""
    while b"\r\n\r\n" not in read:
        read += _received(connection)
    head, _, body = read.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += _received(connection)
    return int(first.split()[1]), headers, body


def _received(connection: socket.socket) -> bytes:
    chunk = connection.recv(65_536)
    if not chunk:
        raise ConnectionError("the server closed the connection")
    return chunk


def _over_grpc(load: Load) -> tuple[Send, Callable[[], None]]:
    channel = grpc.insecure_channel(urlsplit(load.url).netloc, options=[("grpc.use_local_subchannel_pool", 1)])
    export = channel.unary_unary(EXPORT)
    metadata = tuple(load.headers.items())

    def send(body: bytes) -> float | None:
        try:
            export(body, timeout=120, metadata=metadata)
        except grpc.RpcError as error:
            if isinstance(error, grpc.Call) and error.code() in _BUSY_CODES:
                return 0.5
            raise
        return None

    return send, channel.close


def _at(latencies_s: list[float], share: float) -> float | None:
    return latencies_s[min(len(latencies_s) - 1, int(share * len(latencies_s)))] * 1000 if latencies_s else None


if __name__ == "__main__":
    main()
