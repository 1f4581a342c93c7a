"""Back ends as local HTTP servers: they speak the shapes that their documents give, and fail on purpose."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.importing.selection import nanoseconds_of
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.spans import Span
from blamespan_collector.jaeger.conversion import ui_trace


@dataclass(frozen=True)
class Asked:
    """One request."""

    method: str
    path: str
    options: Mapping[str, list[str]]
    headers: Mapping[str, str]
    body: bytes

    def option(self, name: str, default: str = "") -> str:
        return self.options.get(name, [default])[0]


@dataclass(frozen=True)
class Answer:
    """One answer; an object is sent as JSON."""

    body: object = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def bytes(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass
class Server:
    """A server that runs: where it is, and what it was asked."""

    host: str
    asked: list[Asked] = field(default_factory=list)

    def paths(self) -> list[str]:
        return [one.path for one in self.asked]


@contextmanager
def served(answer: Callable[[Asked], Answer]) -> Iterator[Server]:
    """Serve *answer* on a free port of this machine."""
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {key.lower(): value for key, value in self.headers.items()}
            options = parse_qs(parts.query, keep_blank_values=True)
            asked = Asked(self.command, unquote(parts.path), options, headers, body)
            with lock:
                server.asked.append(asked)
                given = answer(asked)
            data = given.bytes()
            self.send_response(given.status)
            for name, value in {"content-length": str(len(data)), **given.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(data)
            except OSError:
                self.close_connection = True

        do_GET = do_POST = _answer  # noqa: N815  # the names that http.server calls

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    server = Server(f"127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


Traces = Sequence[Sequence[Span]]


def jaeger(traces: Traces, *, at_most: int = 1_000) -> Callable[[Asked], Answer]:
    """Answer as Jaeger's v3 API: services, search by service and time, and traces by id."""
    by_id = {spans[0].trace_id: spans for spans in traces}

    def answer(asked: Asked) -> Answer:
        if asked.path == "/api/v3/services":
            return Answer({"services": sorted({str(spans[0].resource["service.name"]) for spans in traces})})
        if asked.path == "/api/v3/traces":
            since, until = (_rfc3339(asked.option(f"query.startTime{end}")) for end in ("Min", "Max"))
            limit = min(at_most, int(asked.option("query.searchDepth", "100")))
            found = [
                spans
                for spans in traces
                if spans[0].resource["service.name"] == asked.option("query.serviceName")
                and any(since <= span.start_ns < until for span in spans)
                and _has_all(spans, json.loads(asked.option("query.attributes", "{}")))
            ]
            wanted = [span for spans in found[:limit] for span in spans]
            return Answer({"result": otlp(wanted)}) if wanted else Answer({"error": {"httpCode": 404}}, 404)
        trace_id = asked.path.removeprefix("/api/v3/traces/")
        if trace_id not in by_id:
            return Answer({"error": {"httpCode": 404, "message": "trace not found"}}, 404)
        spans = by_id[trace_id]
        chunks = [{"result": otlp(spans[:1])}, {"result": otlp(spans[1:])}]
        return Answer("\n".join(json.dumps(chunk) for chunk in chunks).encode())

    return answer


def jaeger_v1(traces: Traces, prefix: str = "") -> Callable[[Asked], Answer]:
    """Answer as Jaeger's v1 API below *prefix*, and as VictoriaTraces what it does not know, by 400."""
    by_id = {spans[0].trace_id: spans for spans in traces}

    def shaped(spans: Sequence[Span]) -> object:
        return ui_trace(spans_to_proto(spans))

    def answer(asked: Asked) -> Answer:
        path = asked.path.removeprefix(prefix)
        if not asked.path.startswith(prefix) or not path.startswith("/api/") or path.startswith("/api/v3"):
            return Answer(f"unsupported path requested: {asked.path!r}".encode(), 400)
        if path == "/api/services":
            return Answer(
                {"data": sorted({str(spans[0].resource["service.name"]) for spans in traces}), "errors": None}
            )
        if path == "/api/traces":
            since, until = (int(asked.option(end)) * 1_000 for end in ("start", "end"))
            found = [
                spans
                for spans in traces
                if spans[0].resource["service.name"] == asked.option("service")
                and any(since <= span.start_ns < until for span in spans)
                and _has_all(spans, json.loads(asked.option("tags", "{}")))
            ]
            return Answer({"data": [shaped(spans) for spans in found[: int(asked.option("limit"))]], "errors": None})
        spans = by_id.get(path.removeprefix("/api/traces/"), ())
        return Answer({"data": [shaped(spans)] if spans else None, "errors": None if spans else [{"msg": "none"}]})

    return answer


def tempo(traces: Traces, *, has_v2: bool = True) -> Callable[[Asked], Answer]:
    """Answer as Tempo: search by time, ids without leading zeros, traces with ids in base64."""
    by_id = {spans[0].trace_id: spans for spans in traces}

    def answer(asked: Asked) -> Answer:
        if asked.path == "/api/search":
            since, until = (int(asked.option(end)) * 1_000_000_000 for end in ("start", "end"))
            found = [spans for spans in traces if any(since <= span.start_ns < until for span in spans)]
            rows = [
                {"traceID": spans[0].trace_id.lstrip("0"), "startTimeUnixNano": str(spans[0].start_ns)}
                for spans in found[: int(asked.option("limit", "20"))]
            ]
            return Answer({"traces": rows, "metrics": {"inspectedTraces": len(found)}})
        version, _, trace_id = asked.path.removeprefix("/api/").rpartition("traces/")
        if (version == "v2/") != has_v2 or trace_id not in by_id:
            return Answer(b"trace not found", 404)
        groups = _with_base64_ids(otlp(by_id[trace_id]))
        return Answer({"trace": groups} if has_v2 else {"batches": groups["resourceSpans"]})

    return answer


def langfuse(traces: Sequence[dict[str, Any]]) -> Callable[[Asked], Answer]:
    """Answer as Langfuse: numbered pages of traces, a trace with its observations, scores."""

    def answer(asked: Asked) -> Answer:
        if asked.path == "/api/public/scores":
            return Answer({"id": json.loads(asked.body)["id"]})
        if asked.path == "/api/public/traces":
            size, number = int(asked.option("limit")), int(asked.option("page"))
            rows = [{key: value for key, value in one.items() if key != "observations"} for one in traces]
            meta = {"page": number, "limit": size, "totalItems": len(rows), "totalPages": -(-len(rows) // size)}
            return Answer({"data": rows[(number - 1) * size : number * size], "meta": meta})
        trace_id = asked.path.removeprefix("/api/public/traces/")
        found = next((one for one in traces if one["id"] == trace_id), None)
        return Answer(found) if found else Answer({"message": "Trace not found"}, 404)

    return answer


def phoenix(rows: Sequence[dict[str, Any]], *, page: int = 2) -> Callable[[Asked], Answer]:
    """Answer as Phoenix: pages of traces and of spans that name the next one."""

    def answer(asked: Asked) -> Answer:
        if asked.method == "POST":
            return Answer({"data": []})
        if asked.path.endswith("/traces"):
            found = list(dict.fromkeys(row["context"]["trace_id"] for row in rows))
            return _page([{"id": "x", "trace_id": trace_id} for trace_id in found], asked, page)
        return _page([row for row in rows if row["context"]["trace_id"] in asked.options["trace_id"]], asked, page)

    return answer


def otlp(spans: Sequence[Span]) -> dict[str, Any]:
    """Write spans as OTLP-JSON."""
    found: dict[str, Any] = json.loads(request_to_json(ExportTraceServiceRequest(resource_spans=spans_to_proto(spans))))
    return found


def _page(rows: Sequence[dict[str, Any]], asked: Asked, size: int) -> Answer:
    start = int(asked.option("cursor", "0"))
    following = start + size
    return Answer({"data": rows[start:following], "next_cursor": str(following) if following < len(rows) else None})


def _has_all(spans: Sequence[Span], wanted: Mapping[str, str]) -> bool:
    return all(any(str(span.attributes.get(key)) == value for span in spans) for key, value in wanted.items())


def _rfc3339(text: str) -> int:
    whole, _, fraction = text.removesuffix("Z").partition(".")
    return nanoseconds_of(datetime.fromisoformat(whole)) + int(fraction.ljust(9, "0"))


def _with_base64_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    ids = ("traceId", "spanId", "parentSpanId")
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode() if key in ids else _with_base64_ids(item)
        for key, item in value.items()
    }
