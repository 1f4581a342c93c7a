"""The whole way of what the intake accepts: journal entries, assembling, judging, every sink, the store, page and API.

Every stage is the collector's own; between them stands memory in place of the journal's and the outbox's files.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
from google.protobuf import text_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from starlette.types import ASGIApp

from blamespan.attribution import Attribution, Evidence, ModeBlame, TracerIdentity
from blamespan.errors import MalformedSpan, UnreadableInput
from blamespan.evaluations import as_langfuse_score, as_phoenix_annotation
from blamespan.importing.recorded import RecordedRun, load_importer
from blamespan.otlp import request_from_json
from blamespan.spans import Span
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer, load_tracer
from blamespan_collector.assembling.assembler import Assembler
from blamespan_collector.assembling.parts import Arrival, RecentTraces, TracePart
from blamespan_collector.delivering.evaluation_sinks import _log_request
from blamespan_collector.delivering.file_sink import line
from blamespan_collector.jaeger import jaeger_routes
from blamespan_collector.journal import NewEntry
from blamespan_collector.journal.entries import divide_items, unpack_keys
from blamespan_collector.judging.annotator import Annotator
from blamespan_collector.judging.scorer import InFlight, JudgingTask, Scorer, outgoing_raw
from blamespan_collector.page import page_application
from blamespan_collector.page.report import _make_reports
from blamespan_collector.receiving.request_reader import Encoding, RequestReader
from blamespan_collector.receiving.signals import SERVICES, OtlpService
from blamespan_collector.settings import Limits, ListenAddress
from blamespan_collector.store import Retention, RunQuery, RunStore, RunWriter
from blamespan_collector.wire.evaluations import read_evaluations
from blamespan_collector.wire.outgoing import Outgoing
from blamespan_collector.wire.protobuf import FieldBudget, NotProtobuf, TooManyFields, split, tag_of
from blamespan_collector.wire.raw_spans import pieces, raw_spans, read

TRACES, LOGS, METRICS = SERVICES
LOGS_FIELD = 15
"""Unknown to a request of traces: holds a request of logs that goes the same way beside it."""
_EVENTS = 1 << 62
_NOW_NS = 1_700_000_000_000_000_000
_LATEST_US = 2**63 // 1000
_KINDS = frozenset(("traces", "logs", "metrics", "verdicts"))


class SharesTracer:
    """Blames each step of an agent as much as the next one, and quotes it: a real verdict at no cost."""

    identity = TracerIdentity("shares", "1", "0123456789ab")

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        return [self._attribution(trace) for trace in traces]

    def _attribution(self, trace: MessageActionTrace) -> Attribution:
        steps = [step for step in trace.steps if trace.can_be_blamed(step)]
        if not steps:
            return Attribution.abstain(trace, "nobody to blame", self.identity)
        return Attribution.of(
            trace,
            [float(step in steps) / len(steps) for step in trace.steps],
            failure_score=0.9,
            tracer=self.identity,
            modes=[ModeBlame(mode("mast:FM-3.3"), steps[-1].agent, 0.7)],
            evidence=[Evidence(step.index, step.content[:80], 1.0) for step in steps if step.content],
        )


def whole_way(data: bytes) -> None:
    """Whatever the intake accepts, every later stage digests: nothing raises, nothing is lost, nobody answers 500.

    One input in sixteen is judged by the tracer that users have, one in eight is read again by the importer.
    """
    _here().check(data)


@cache
def _here() -> WholeWay:
    return WholeWay(Path(tempfile.mkdtemp(prefix="whole-way-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)))


class WholeWay:
    """All stages in one process.

    Args:
        folder: For the store; what an input puts there is gone when the next one comes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer = RunWriter(folder / "runs.db", Retention(max_age_s=0.0), sync="normal")
        self._store = RunStore(folder / "runs.db")
        address = ListenAddress("127.0.0.1", 4320)
        self._page = page_application(self._store, address, routes=jaeger_routes(self._store))
        self._in_flight = InFlight(folder / "in-flight")
        self._loop = asyncio.new_event_loop()

    def check(self, data: bytes) -> None:
        """Send *data* the whole way; raises where a stage breaks."""
        self._writer.prune()
        entries = list(_entries(data))
        traces = [entry for entry in entries if entry.signal in ("traces", "events")]
        for entry in entries:
            if entry.signal in ("logs", "metrics"):
                _check_passed(entry)
        choice = sum(data[:64])
        spans: dict[str, list[Span]] = {}
        for part in _parts(traces, comes_twice=choice % 4 == 0):
            self._check_part(part, traces, choice, spans)
        for trace_id, of_trace in list(spans.items())[:1]:  # the others are like it, and this costs as much as the rest
            self._check_shown(trace_id, of_trace, choice)

    def _check_part(
        self, part: TracePart[int], entries: Sequence[NewEntry], choice: int, shown: dict[str, list[Span]]
    ) -> None:
        def payloads(items: Sequence[int]) -> list[bytes]:
            return [entries[(item & ~_EVENTS) % len(entries)].payload for item in items]

        tracer = _users_tracer() if choice % 16 == 1 else SharesTracer()
        annotator = Annotator(lambda: tracer)
        max_bytes = 4096 if choice % 2 else 1024 * 1024
        scorer = Scorer(annotator, payloads, self._in_flight, max_bytes, _KINDS, lambda: None)  # type: ignore[arg-type]
        places, _ = divide_items(part.items)
        raw = outgoing_raw(part, payloads(places), max_bytes)
        _check_count(raw, part)
        [scored] = scorer._score([JudgingTask(part, float("inf"))])
        assert scored.verdict is not None, "what was accepted could not be read"
        if annotator.failures:  # which the annotator has told to the log alone
            for failure in scored.verdict.failures:
                raise failure.error
            raise AssertionError(scored.verdict.reason)
        _check_count(scored.outgoing, part)
        for outgoing in (raw, scored.outgoing, scorer.beside(scored, frozenset(), 1)):
            lines = _check_sinks(outgoing)
            if choice % 8 == 2:
                self._check_read_again(lines)
        annotated = [one.payload for one in scored.outgoing if one.kind == "traces"]
        self._writer.put(annotated)
        for data in annotated:
            for span in read(raw_spans(data)):
                shown.setdefault(span.trace_id, []).append(span)

    def _check_read_again(self, lines: Sequence[bytes]) -> None:
        """Lines of a file are read by the importer, and reported."""
        path = self._folder / "traces.jsonl"
        path.write_bytes(b"".join(lines))
        runs: list[RecordedRun] = []
        for run in load_importer("otlp-json").read(path):
            if isinstance(run, UnreadableInput):
                raise run
            runs.append(run)
        if runs:
            _make_reports(runs[:1], "checks")

    def _check_shown(self, trace_id: str, spans: Sequence[Span], choice: int) -> None:
        """The store, the page and Jaeger's API show a trace, span for span; an input asks for every third document."""
        stored = self._store.run(trace_id)
        assert stored is not None
        assert {span.span_id for span in stored.spans} == {span.span_id for span in spans}
        assert any(found.trace_id == trace_id for found in self._store.search(RunQuery(is_run=False, limit=1000)))
        # Starlette's routes end at a line end: such a service is not found, which breaks nothing
        service = quote(stored.summary.service.replace("\n", "") or "unknown_service", safe="")
        start = max(0, stored.summary.start_ns // 1000 - 1)
        paths = [
            ("/", False),
            (f"/run/{trace_id}", False),
            (f"/run/{trace_id}.json", True),
            (f"/api/traces/{trace_id}", True),
            (f"/api/v3/traces/{trace_id}", True),
            (f"/api/traces?service={service}&start={start}&end={_LATEST_US}&limit=20", True),
            (f"/api/services/{service}/operations", True),
            ("/api/services", True),
            (f"/api/dependencies?endTs={_LATEST_US // 1000}&lookback={_LATEST_US // 1000}", True),
            (
                f"/api/v3/trace-summaries?query.service_name={service}&query.start_time_min=1970-01-01T00:00:00Z"
                "&query.start_time_max=2200-01-01T00:00:00Z&query.search_depth=10",
                True,
            ),
        ]
        self._loop.run_until_complete(_check_answers(self._page, paths[choice % 3 :: 3]))


async def _check_answers(page: ASGIApp, paths: Sequence[tuple[str, bool]]) -> None:
    for path, is_json in paths:
        status, body = await _get(page, path)
        assert status == 200 or (status == 404 and "?" in path), (path, status, body[:300])
        if is_json:
            json.loads(body)


def _entries(data: bytes) -> Iterator[NewEntry]:
    """Read what the intake makes of an input: JSON of any signal; or traces, perhaps with logs beside them."""
    reader = RequestReader()

    def accepted(service: OtlpService, body: bytes, encoding: Encoding) -> Sequence[NewEntry]:
        try:
            return reader.read(service, body, encoding, _NOW_NS).entries
        except MalformedSpan:
            return ()

    if data.lstrip()[:1] == b"{":
        for service in SERVICES:
            yield from accepted(service, data, "json")
        return
    yield from accepted(TRACES, data, "protobuf")
    try:
        beside, _ = split(data, 0, len(data), tag_of(LOGS_FIELD), FieldBudget(100_000))
    except (NotProtobuf, TooManyFields):
        return
    for at in beside:
        yield from accepted(LOGS, data[at.content : at.end], "protobuf")
        yield from accepted(METRICS, data[at.content : at.end], "protobuf")


def _parts(entries: Sequence[NewEntry], *, comes_twice: bool) -> Iterator[TracePart[int]]:
    assembler: Assembler[int] = Assembler(Limits(), RecentTraces())
    for row in range(len(entries) * (1 + comes_twice)):
        entry = entries[row % len(entries)]
        is_event = entry.signal == "events"
        item = row | _EVENTS if is_event else row
        arrival = Arrival(entry.trace_id, unpack_keys(entry.keys), item, entry.size_bytes)
        yield from assembler.attach(arrival, float(row)) if is_event else assembler.add([arrival], float(row))
    for part in assembler.flush():
        if part.span_ids:
            yield part


def _check_count(outgoing: Sequence[Outgoing], part: TracePart[int]) -> None:
    sent = [raw for one in outgoing if one.kind == "traces" for raw in raw_spans(one.payload)]
    assert len(sent) == len(part.span_ids), (len(sent), len(part.span_ids))
    assert len(sent) == sum(one.spans for one in outgoing if one.kind == "traces")


def _check_sinks(outgoing: Sequence[Outgoing]) -> list[bytes]:
    """Encode for every sink. Returns the lines of the file."""
    lines = []
    ExportTraceServiceRequest.FromString(b"".join(one.payload for one in outgoing if one.kind == "traces"))
    for one in outgoing:
        if one.kind == "traces":
            lines.append(line("traces", one.payload))
            _check_line(lines[-1], one.payload)
        else:
            evaluations = read_evaluations([one.payload])
            ExportLogsServiceRequest.FromString(_log_request(evaluations))
            _json_body({"data": [as_phoenix_annotation(evaluation) for evaluation in evaluations]})
            for evaluation in evaluations:
                if evaluation.score is not None:
                    _json_body(as_langfuse_score(evaluation))
    return lines


def _check_line(text: bytes, data: bytes) -> None:
    """A line of the file says what the request says, but for what JSON has no place for."""
    request = ExportTraceServiceRequest.FromString(data)
    request.DiscardUnknownFields()
    again = request_from_json(text)
    if again.SerializeToString(deterministic=True) != request.SerializeToString(deterministic=True):
        assert text_format.MessageToString(again) == text_format.MessageToString(request)  # NaNs have many forms


def _check_passed(entry: NewEntry) -> None:
    """Logs and metrics go on to files and back ends, whole and in pieces."""
    json.loads(line(entry.signal, entry.payload))  # type: ignore[arg-type]
    service = next(service for service in SERVICES if service.signal == entry.signal)
    records = list(raw_spans(entry.payload))
    for _, piece in pieces(records, 512):
        service.request.FromString(piece)
        line(entry.signal, piece)  # type: ignore[arg-type]


def _json_body(document: Any) -> None:
    httpx.Request("POST", "http://127.0.0.1/", json=document)


async def _get(app: ASGIApp, target: str) -> tuple[int, bytes]:
    url = urlsplit(target)
    status, body = 0, b""

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status, body
        status = message.get("status", status)
        body += message.get("body", b"")

    scope = {
        "type": "http",
        "method": "GET",
        "path": httpx.URL(target).path,
        "raw_path": url.path.encode(),
        "query_string": url.query.encode(),
        "headers": [(b"host", b"127.0.0.1")],
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "server": ("127.0.0.1", 4320),
        "client": ("127.0.0.1", 2),
    }
    await app(scope, receive, send)
    return status, body


@cache
def _users_tracer() -> Tracer:
    return load_tracer()
