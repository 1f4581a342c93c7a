"""Realistic agent traces as ready-made OTLP bodies that get fresh ids by one replacement: next to no cost to send."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from random import Random

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from blamespan import conventions as words
from blamespan.otlp import spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.trace import Agent, MessageActionTrace, Step, StepKind

SPANS_PER_TRACE = 12
TRACES_PER_REQUEST = 10
CONTENT_BYTES = 1024
_KINDS: tuple[StepKind, ...] = (
    *("plan", "message", "tool_call", "message", "tool_call", "message"),
    *("handoff", "message", "tool_call", "message", "message"),
)
_AGENTS = ("planner", "researcher", "browser", "writer")
_MARK = b"\xfe\xf5\xfb\xf9"
"""Begins every id of a body. None of these bytes occurs in UTF-8, so it occurs nowhere else."""
_TEXT = (
    "the report says revenue grew by nine percent while the table on page three gives four so I asked for the source "
    "again and the tool returned an empty list which means that we cannot confirm the figure before we write the answer"
)
_WORDS = _TEXT.split()


@dataclass(frozen=True, slots=True)
class Bodies:
    """Bodies of one kind; send number *n* by `body(n)`: its ids are those of no other number."""

    templates: tuple[bytes, ...]

    def body(self, number: int) -> bytes:
        template = self.templates[number % len(self.templates)]
        return template.replace(_MARK, (number + 1).to_bytes(4, "big"))


def whole_traces(templates: int = 16) -> Bodies:
    return Bodies(tuple(_serialised(_request(Random(seed)), {True, False}) for seed in range(templates)))


def without_roots(templates: int = 16) -> Bodies:
    return Bodies(tuple(_serialised(_request(Random(seed)), {False}) for seed in range(templates)))


def roots_only(templates: int = 16) -> Bodies:
    return Bodies(tuple(_serialised(_request(Random(seed)), {True}) for seed in range(templates)))


def _request(random: Random) -> ExportTraceServiceRequest:
    spans = [span for number in range(TRACES_PER_REQUEST) for span in emit(_trace(random, number + 1))]
    request = ExportTraceServiceRequest(resource_spans=spans_to_proto(spans))
    _rename(request)
    return request


def _trace(random: Random, number: int) -> MessageActionTrace:
    steps: list[Step] = []
    now_ns = time.time_ns()
    for place, kind in enumerate(_KINDS):
        steps += _steps(random, kind, len(steps), f"{number * 100 + place + 1:016x}", now_ns + place * 1_000_000_000)
    agents = tuple(Agent(name) for name in _AGENTS)
    resource = {"service.name": "report-writers", "service.version": "1.4.2"}
    return MessageActionTrace(f"{number:032x}", "What did revenue grow by?", tuple(steps), agents, resource=resource)


def _steps(random: Random, kind: StepKind, index: int, span_id: str, at_ns: int) -> list[Step]:
    """Make the steps of one span: a message, or a tool's call and its answer."""
    inputs = (index - 1,) if index else ()
    agent = _AGENTS[index % len(_AGENTS)]
    said = Step(index, span_id, agent, kind, _text(random, CONTENT_BYTES), inputs=inputs)
    said = replace(said, start_ns=at_ns, end_ns=at_ns + 900_000_000)
    if kind != "tool_call":
        return [said]
    arguments = json.dumps({"query": _text(random, 80)})
    named = {words.TOOL_NAME: "search", words.TOOL_CALL_ID: f"call_{index}"}
    answer = replace(said, index=index + 1, kind="tool_result", inputs=(index,))
    return [replace(said, content=f"search({arguments})", attributes=named), answer]


def _text(random: Random, size_bytes: int) -> str:
    return " ".join(random.choices(_WORDS, k=size_bytes // 4))[:size_bytes]


def _rename(request: ExportTraceServiceRequest) -> None:
    """Let every id begin with the mark, and keep what refers to what."""
    spans = [span for group in request.resource_spans for scope in group.scope_spans for span in scope.spans]
    numbers = {(span.trace_id, span.span_id): _MARK + i.to_bytes(4, "big") for i, span in enumerate(spans, 1)}
    for span in spans:
        trace_id = span.trace_id
        span.parent_span_id = numbers.get((trace_id, span.parent_span_id), b"")
        for link in span.links:
            link.span_id, link.trace_id = numbers[trace_id, link.span_id], _MARK + trace_id[4:]
        span.span_id, span.trace_id = numbers[trace_id, span.span_id], _MARK + trace_id[4:]


def _serialised(request: ExportTraceServiceRequest, roots: set[bool]) -> bytes:
    for group in request.resource_spans:
        for scope in group.scope_spans:
            kept: list[ProtoSpan] = [span for span in scope.spans if (not span.parent_span_id) in roots]
            copy = [ProtoSpan.FromString(span.SerializeToString()) for span in kept]
            del scope.spans[:]
            scope.spans.extend(copy)
    return request.SerializeToString()
