"""What is fuzzed. A target takes one input and raises where a promise is broken; what is documented it swallows."""

from __future__ import annotations

import asyncio
import gzip
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.applications import Starlette

from blamespan.errors import MalformedSpan, NoAgentSteps, UnreadableInput
from blamespan.importing.recorded import Importer, importers
from blamespan.otlp import request_from_json, request_to_json, spans_from_proto
from blamespan.otlp.logs import message_events
from blamespan.pipeline import annotate_traces
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from blamespan.spans import Span
from blamespan.tracers import Tracer, load_tracer
from blamespan_collector.journal.entries import unpack_keys
from blamespan_collector.receiving.intake import IntakeCounts
from blamespan_collector.receiving.otlp_http import application
from blamespan_collector.receiving.request_reader import Encoding, Request, RequestReader
from blamespan_collector.receiving.signals import SERVICES, ExportResponse, OtlpService
from blamespan_collector.receiving.tokens import BearerTokens
from blamespan_collector.wire.raw_spans import raw_spans, read
from tests.fuzz.mutation import mutate, mutate_any, mutate_json, mutate_spans
from tests.fuzz.whole_way import whole_way

TRACES, LOGS, METRICS = SERVICES
_HTTP_LIMIT_BYTES = 256 * 1024
_HTTP_ANSWERS = {200, 400, 401, 404, 405, 408, 413, 415, 429, 503}
_READER = RequestReader()


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads what others wrote.

    Attributes:
        check: Raises where a promise is broken.
        mutate: How its inputs are changed.
        share: How many of all inputs it gets, relative to the others.
    """

    check: Callable[[bytes], None]
    mutate: Callable[[bytes, Random], bytes] = mutate
    share: int = 1


def protobuf_traces(data: bytes) -> None:
    """A body is refused, or cut into entries that hold its spans byte for byte."""
    try:
        request = _READER.read(TRACES, data, "protobuf", 0)
    except MalformedSpan:
        return
    _check_entries(request)
    if request.refused:
        return  # what is wrong inside one span refuses that span alone; read whole, it would refuse the request
    whole = ExportTraceServiceRequest.FromString(data)
    spans = [span for group in whole.resource_spans for scope in group.scope_spans for span in scope.spans]
    assert len(spans) == request.spans, (len(spans), request.spans)


def json_traces(data: bytes) -> None:
    """A JSON body is refused, or gives entries that can be read."""
    try:
        _check_entries(_READER.read(TRACES, data, "json", 0))
    except MalformedSpan:
        return


def other_signals(data: bytes) -> None:
    """Logs and metrics are refused, or kept byte for byte; messages among logs can be read."""
    for service in (LOGS, METRICS):
        for encoding in ("protobuf", "json"):
            try:
                request = _READER.read(service, data, encoding, 0)  # type: ignore[arg-type]
            except MalformedSpan:
                continue
            for entry in request.entries:
                if entry.signal == "events":
                    records = ExportLogsServiceRequest.FromString(entry.payload).resource_logs
                    message_events(records)
                    assert len(unpack_keys(entry.keys)) == len(records[0].scope_logs[0].log_records)
                    continue
                service.request.FromString(entry.payload)
                assert encoding == "json" or entry.payload == data


def http(data: bytes) -> None:
    """Every request is answered once, with a documented status and a body of the encoding it asked in."""
    asyncio.run(_http(data))


def spans(data: bytes) -> None:
    """Whatever the intake accepts is rebuilt, attributed and annotated: nothing that was acknowledged breaks us."""
    try:
        request = _READER.read(TRACES, data, "protobuf", 0)
    except MalformedSpan:
        return
    for entry in request.entries:
        found = read(raw_spans(entry.payload))
        _check_spans(found)
        annotate_traces([found], _tracer())


def round_trip(data: bytes) -> None:
    """What is written as JSON is read as the same."""
    try:
        request = ExportTraceServiceRequest.FromString(data)
        request.DiscardUnknownFields()  # JSON has no place for them
        list(spans_from_proto(request.resource_spans, refused=[]))
    except (DecodeError, MalformedSpan):
        return
    again = request_from_json(request_to_json(request))
    if again.SerializeToString(deterministic=True) == request.SerializeToString(deterministic=True):
        return
    # JSON has one NaN, binary has many: as text they are the same, and every other number is exact
    assert text_format.MessageToString(again) == text_format.MessageToString(request)


def files(data: bytes) -> None:
    """A file is imported, or refused with a reason; what is imported can be attributed."""
    with tempfile.TemporaryDirectory(dir=_memory_folder()) as folder:
        path = Path(folder) / "runs.json"
        path.write_bytes(data)
        for importer in _importers():
            _import(importer, path, data)


TARGETS: dict[str, Target] = {
    "protobuf_traces": Target(protobuf_traces, mutate_spans, 4),
    "json_traces": Target(json_traces, mutate_json, 3),
    "other_signals": Target(other_signals, share=2),
    "http": Target(http, share=1),
    "spans": Target(spans, mutate_spans, 4),
    "round_trip": Target(round_trip, mutate_spans, 2),
    "files": Target(files, share=1),
    "whole_way": Target(whole_way, mutate_any, 2),
}


def _check_entries(request: Request) -> None:
    held = 0
    for entry in request.entries:
        payload = ExportTraceServiceRequest.FromString(entry.payload)
        found = [span for group in payload.resource_spans for scope in group.scope_spans for span in scope.spans]
        keys = [(key.span_id, key.parent_id) for key in unpack_keys(entry.keys)]
        assert {span.trace_id for span in found} == {entry.trace_id}
        assert keys == [(span.span_id, span.parent_span_id or bytes(8)) for span in found]
        held += len(found)
    assert held == request.spans, (held, request.spans)
    request.response().SerializeToString()


def _check_spans(found: list[Span]) -> None:
    for run in split_runs(found):
        trace = rebuild_run(run)
        assert [step.index for step in trace.steps] == list(range(len(trace.steps)))
        assert all(place < step.index for step in trace.steps for place in step.inputs)


@cache
def _tracer() -> Tracer:
    return load_tracer()


@cache
def _importers() -> list[Importer]:
    return list(importers())


def _import(importer: Importer, path: Path, data: bytes) -> None:
    importer.matches(path, data[:4096])
    try:
        for found in importer.read(path):
            if not isinstance(found, UnreadableInput):
                _tracer().attribute([found.trace])
    except (UnreadableInput, NoAgentSteps):
        return


def _memory_folder() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


class _ReadingIntake:
    """Reads as the real one does, and keeps nothing."""

    counts = IntakeCounts()

    def check_room(self) -> None:
        """There is always room."""

    async def take(self, service: OtlpService, body: bytes, encoding: Encoding) -> ExportResponse:
        return _READER.read(service, body, encoding, 0).response()


@cache
def _application() -> Starlette:
    return application(_ReadingIntake(), _HTTP_LIMIT_BYTES, BearerTokens())  # type: ignore[arg-type]


async def _http(data: bytes) -> None:
    """Read a request off the input: two bytes choose line and headers, the rest is the body."""
    choice, body = int.from_bytes(data[:2].ljust(2, b"\0"), "big"), data[2:]
    content_type = (b"application/x-protobuf", b"application/json", body[:20], b"application/json; x=y")[choice & 3]
    coding = (None, b"gzip", b"deflate", body[:9])[choice >> 2 & 3]
    if choice >> 4 & 1 and coding in (b"gzip", b"deflate"):
        body = gzip.compress(body, 1) if coding == b"gzip" else zlib.compress(body, 1)
    length = (None, str(len(body)).encode(), body[:6], b"99999999999999999999")[choice >> 5 & 3]
    named = ((b"content-type", content_type), (b"content-encoding", coding), (b"content-length", length))
    answers: list[dict[str, Any]] = []
    pieces = _pieces(body, 1 + (choice >> 10) % 3)

    async def receive() -> dict[str, Any]:
        return next(pieces, {"type": "http.disconnect"})

    async def send(message: Any) -> None:
        answers.append(message)

    scope = {
        "type": "http",
        "method": ("POST", "POST", "POST", "GET")[choice >> 7 & 3],
        "path": ("/v1/traces", "/v1/logs", "/v1/metrics", "/v1/traces")[choice >> 8 & 3],
        "headers": [(name, value) for name, value in named if value is not None],
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "server": ("127.0.0.1", 1),
        "client": ("127.0.0.1", 2),
    }
    await _application()(scope, receive, send)
    _check_answer(answers)


def _pieces(body: bytes, count: int) -> Iterator[dict[str, Any]]:
    size = 1 + len(body) // count
    for at in range(0, len(body) + 1, size):
        yield {"type": "http.request", "body": body[at : at + size], "more_body": at + size <= len(body)}


def _check_answer(answers: list[dict[str, Any]]) -> None:
    starts = [answer for answer in answers if answer["type"] == "http.response.start"]
    assert len(starts) == 1, answers
    assert starts[0]["status"] in _HTTP_ANSWERS, answers
    body = b"".join(answer.get("body", b"") for answer in answers if answer["type"] == "http.response.body")
    if dict(starts[0]["headers"]).get(b"content-type") == b"application/x-protobuf" and starts[0]["status"] != 200:
        status = Status.FromString(body)
        assert status.code, status
