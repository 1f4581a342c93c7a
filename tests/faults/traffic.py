"""Made-up agent runs as OTLP requests, the way senders really send them: in pieces, out of order, twice, late."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

SpanKey: TypeAlias = bytes
"""Trace id and span id, 24 bytes."""

_START_NS = 1_760_000_000_000_000_000
_TEXT = "the plan says to fetch page three but that file is empty so we ask again and then give up on it"
_WORDS = _TEXT.split()
_SERVICES = ("planner-host", "browser-host")
_LARGE_RUNS = 8
_LARGE_LETTERS = 8_000
_LARGE_TEXT = " ".join(Random(1).choices(_WORDS, k=20_000))
_LATE_S = (0.6, 1.5)
_DUPLICATE_WITHIN_S = 1.0
_REORDERED_WITHIN_S = 0.25


@dataclass(slots=True)
class Batch:
    """One request as a sender holds it until it is acknowledged.

    Attributes:
        body: The serialised `ExportTraceServiceRequest`.
        keys: Its spans.
        after_s: How long after its run began it is first sent.
        over_grpc: Which receiver gets it.
        patient: Whether the sender repeats it until it is answered; else one lost answer ends it.
        attempts: How often it was sent.
    """

    body: bytes
    keys: tuple[SpanKey, ...]
    after_s: float
    over_grpc: bool
    patient: bool = True
    attempts: int = field(default=0, compare=False)


def key_of(span: Span) -> SpanKey:
    return bytes(span.trace_id + span.span_id)


def runs(seed: str, *, over_grpc: bool = True) -> Iterator[list[Batch]]:
    """Make runs without end, the same ones for the same *seed*; each as the requests it is sent in.

    Args:
        seed: Decides everything.
        over_grpc: Whether some of the requests go over gRPC.
    """
    random = Random(seed)
    while True:
        batches = _batches(random, _run(random))
        for batch in batches:
            batch.over_grpc = batch.over_grpc and over_grpc
        yield batches


def large_batch(random: Random) -> Batch:
    """Make a request of runs with large documents that no tracer reads, some 0.5 MB, to fill a disk with."""
    traces = [_span(random, random.randbytes(16), b"", "invoke_workflow team", 0) for _ in range(_LARGE_RUNS)]
    spans = []
    for root in traces:
        children = [_span(random, root.trace_id, root.span_id, f"invoke_agent agent{i % 3}", i + 1) for i in range(7)]
        _describe(root, random)
        for index, child in enumerate(children):
            _speak(child, index, random)
            at = random.randrange(len(_LARGE_TEXT) - _LARGE_LETTERS)
            _set(child, "app.document", _LARGE_TEXT[at : at + _LARGE_LETTERS])
        spans += [*children, root]
    return Batch(*_encoded(random, spans), 0.0, over_grpc=False)


def _run(random: Random) -> list[Span]:
    """Make one trace: mostly an agent run, sometimes without its root, sometimes no agent in it at all."""
    trace_id = random.randbytes(16)
    root = _span(random, trace_id, b"", "invoke_workflow team", 0)
    steps = random.randint(1, 14)
    if random.random() < 0.1:
        return [_span(random, trace_id, b"", "GET /", 0, plain=True)]
    children = [_span(random, trace_id, root.span_id, f"invoke_agent agent{i % 3}", i + 1) for i in range(steps)]
    _describe(root, random)
    for index, child in enumerate(children):
        _speak(child, index, random)
    return [*children, *([] if random.random() < 0.05 else [root])]


def _span(random: Random, trace_id: bytes, parent: bytes, name: str, at: int, *, plain: bool = False) -> Span:
    span = Span(trace_id=trace_id, span_id=random.randbytes(8), parent_span_id=parent, name=name)
    span.start_time_unix_nano = _START_NS + at * 1_000_000
    span.end_time_unix_nano = span.start_time_unix_nano + (900_000 if parent or plain else 60_000_000)
    return span


def _describe(root: Span, random: Random) -> None:
    _set(root, "gen_ai.operation.name", "invoke_workflow")
    _set(root, "gen_ai.input.messages", _message("user", _text(random, 60)))
    root.attributes.append(KeyValue(key="blamespan.run.complete", value=AnyValue(bool_value=True)))


def _speak(span: Span, index: int, random: Random) -> None:
    _set(span, "gen_ai.operation.name", "invoke_agent")
    _set(span, "gen_ai.agent.name", f"agent{index % 3}")
    _set(span, "gen_ai.output.messages", _message("assistant", _text(random, random.choice((20, 80, 400)))))
    _set(span, "blamespan.step.kind", "message")
    span.attributes.append(KeyValue(key="blamespan.step.index", value=AnyValue(int_value=index)))
    if random.random() < 0.1:
        span.status.code = span.status.STATUS_CODE_ERROR
        span.status.message = "it broke"


def _set(span: Span, key: str, value: str) -> None:
    span.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def _text(random: Random, letters: int) -> str:
    return " ".join(random.choices(_WORDS, k=max(1, letters // 5)))


def _batches(random: Random, spans: list[Span]) -> list[Batch]:
    """Deal the spans out to requests: shuffled, some twice, one now and then when its trace is long gone."""
    random.shuffle(spans)
    pieces = random.choice((1, 1, 2, 4))
    over_grpc = random.random() < 0.4
    batches = [
        Batch(*_encoded(random, part), random.uniform(0, _REORDERED_WITHIN_S), over_grpc, random.random() > 0.05)
        for part in (spans[i::pieces] for i in range(pieces))
        if part
    ]
    if len(batches) > 1 and random.random() < 0.15:
        batches[0].after_s = random.uniform(*_LATE_S)
    copies = [b for b in batches if random.random() < 0.1]
    return batches + [
        Batch(b.body, b.keys, b.after_s + random.uniform(0, _DUPLICATE_WITHIN_S), not over_grpc) for b in copies
    ]


def _encoded(random: Random, spans: list[Span]) -> tuple[bytes, tuple[SpanKey, ...]]:
    resource = Resource()
    resource.attributes.append(
        KeyValue(key="service.name", value=AnyValue(string_value=_SERVICES[spans[0].trace_id[0] % 2]))
    )
    body = ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[ScopeSpans(spans=spans)])]
    ).SerializeToString()
    return body, tuple(key_of(span) for span in spans)
