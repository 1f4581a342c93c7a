"""Makes the seed corpus anew, from real spans and files: `python -m tests.fuzz.seeds`. What fuzzing found stays."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from hashlib import sha1
from pathlib import Path

import click
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.otlp import request_from_json, request_to_json
from blamespan_collector.wire.protobuf import delimit, tag_of
from tests.benchmarks.collector_bodies import whole_traces
from tests.fuzz.targets import TARGETS
from tests.fuzz.whole_way import LOGS_FIELD

CORPUS = Path(__file__).parent / "corpus"
RECORDED = Path(__file__).parents[1] / "integrations" / "dialects" / "recorded"
_MAX_SEED_BYTES = 24 * 1024
_MAX_SPANS = 12
_LOGS = b'{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"timeUnixNano":"1","body":{"stringValue":"it broke"}}]}]}]}'
_METRICS = b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[{"asInt":"1"}]}}]}]}]}'


def main() -> None:
    for name, seeds in seeds_by_target().items():
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for seed in seeds:
            (folder / f"seed-{sha1(seed, usedforsecurity=False).hexdigest()[:12]}").write_bytes(seed)
        click.echo(f"{name}: {len(list(folder.iterdir()))} inputs")


def seeds_by_target() -> dict[str, list[bytes]]:
    requests = [*_recorded(), *_ours()]
    bodies = [request.SerializeToString() for request in requests]
    texts = [request_to_json(request).encode() for request in requests]
    logs = [_LOGS, _METRICS, b"\x0a\x10\x12\x0e\x12\x0c\x0a\x0a\x09\x01\x02\x03\x04\x05\x06\x07\x08\x01"]
    http = [b"\x00\x00" + bodies[-1], b"\x01\x00" + texts[-1], b"\x14\x00" + bodies[-1], b"\x18\x04" + bodies[-1]]
    found = {
        "protobuf_traces": bodies,
        "json_traces": texts,
        "other_signals": logs,
        "http": [*http, b"\x05\x00" + gzip.compress(texts[-1], mtime=0)],
        "spans": bodies,
        "round_trip": bodies,
        "files": [*texts[:4], *_files()],
        "whole_way": [*bodies, *texts[::4], *logs[:2], *map(_with_messages, requests[-2:])],
    }
    assert found.keys() == TARGETS.keys()
    return {name: [seed for seed in seeds if len(seed) <= _MAX_SEED_BYTES] for name, seeds in found.items()}


def _with_messages(request: ExportTraceServiceRequest) -> bytes:
    """Say what the agents said in log records, beside the spans."""
    logs = ExportLogsServiceRequest()
    records = logs.resource_logs.add().scope_logs.add().log_records
    for span in request.resource_spans[0].scope_spans[0].spans:
        record = records.add(trace_id=span.trace_id, span_id=span.span_id, event_name="gen_ai.choice")
        record.body.kvlist_value.values.add(key="content").value.string_value = "the sum is 5"
    return request.SerializeToString() + delimit(tag_of(LOGS_FIELD), logs.SerializeToString())


def _recorded() -> Iterator[ExportTraceServiceRequest]:
    """Spans of every dialect, as its released package made them: a few of each recording."""
    for path in sorted(RECORDED.glob("*.jsonl")):
        request = request_from_json(path.read_bytes().splitlines()[0])
        yield _smaller(request)


def _ours() -> Iterator[ExportTraceServiceRequest]:
    for number in range(2):
        request = ExportTraceServiceRequest.FromString(whole_traces(2).body(number))
        yield _smaller(request)


def _smaller(request: ExportTraceServiceRequest) -> ExportTraceServiceRequest:
    """Keep some spans, spread over the request, so that one input stays quick to try."""
    for group in request.resource_spans:
        for scope in group.scope_spans:
            spans = [type(span).FromString(span.SerializeToString()) for span in scope.spans]
            del scope.spans[:]
            scope.spans.extend(spans[:: max(1, len(spans) // _MAX_SPANS)][:_MAX_SPANS])
    return request


def _files() -> Iterator[bytes]:
    yield b'{"history":[{"role":"user","content":"add"},{"role":"a","name":"a","content":"5"}],"mistake_agent":"a"}'
    yield b'{"question":"q","history":[{"content":"x","name":"WebSurfer","role":"assistant"}],"mistake_step":"0"}'
    yield b'{"id":"1","input":{"query":"q","conversation_history":[{"agent_name":"a","content":"x"}]},"output":{}}'


if __name__ == "__main__":
    main()
