"""The recordings as traces, and what each keeps of the run it tells of."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from blamespan.otlp import request_from_json, spans_from_proto
from blamespan.otlp.logs import logs_from_document
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace, Step

FOLDER = Path(__file__).parent / "recorded"
NAMES = sorted(path.name.removesuffix(".jsonl") for path in FOLDER.glob("*.jsonl"))
HIDDEN = {
    "gen_ai.agent.description",
    "blamespan.agent.id",
    "gen_ai.input.messages",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.system_instructions",
    "gen_ai.tool.call.id",
    "gen_ai.tool.description",
    "gen_ai.tool.name",
}
"""What a drawing of a recording leaves out."""

ASPECTS = ("task", "agents", "order", "content", "tools", "links", "recipients", "tokens")
"""What a recording can keep or lose, in the order of the table in the reference."""


def traces_of(name: str) -> list[list[Span]]:
    """Read a recording, trace by trace, in the order in which they begin."""
    traces: dict[str, list[Span]] = defaultdict(list)
    with (FOLDER / f"{name}.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            for span in spans_from_proto(request_from_json(line).resource_spans):
                traces[span.trace_id].append(span)
    return sorted(traces.values(), key=lambda spans: min(span.start_ns for span in spans))


def logs_of(name: str) -> ExportLogsServiceRequest:
    """Read the log records kept beside a recording."""
    return logs_from_document(json.loads((FOLDER / f"{name}.logs.json").read_text(encoding="utf-8")))


def runs_of(name: str) -> list[Run]:
    """Split a recording into its runs."""
    return [run for spans in traces_of(name) for run in split_runs(spans)]


def run_of(name: str) -> Run:
    """Give the one run a recording holds."""
    [run] = runs_of(name)
    return run


def trace_of(name: str) -> MessageActionTrace:
    """Rebuild the one run a recording holds."""
    return rebuild_run(run_of(name))


def kept(told: MessageActionTrace, ours: MessageActionTrace) -> tuple[str, ...]:
    """List the aspects in which what a dialect *told* agrees with *ours*."""
    return tuple(aspect for aspect in ASPECTS if _ASPECT_VIEWS[aspect](told) == _ASPECT_VIEWS[aspect](ours))


def _shifts(trace: MessageActionTrace) -> Iterator[tuple[str, list[Step]]]:
    """Group the steps by who was at work: instrumentations differ in how often an agent speaks within that time."""
    for agent, steps in groupby(trace.steps, key=lambda step: step.agent):
        yield agent, list(steps)


def _last_words(trace: MessageActionTrace) -> list[list[str]]:
    return [
        [s.content for s in steps if s.kind not in ("tool_call", "tool_result")][-1:] for _, steps in _shifts(trace)
    ]


def _tools(trace: MessageActionTrace) -> list[tuple[str, str, str]]:
    """List the tools' steps; some write the arguments' JSON without spaces."""
    steps = [step for step in trace.steps if step.kind in ("tool_call", "tool_result")]
    return [(step.agent, step.kind, step.content.replace('": "', '":"')) for step in steps]


def _links(trace: MessageActionTrace) -> set[tuple[str, str]]:
    pairs = ((trace.steps[i], step) for step in trace.steps for i in step.inputs)
    return {(before.agent, after.agent) for before, after in pairs if before.agent != after.agent}


def _tokens(trace: MessageActionTrace) -> list[tuple[int, int]]:
    usages = [step.usage for step in trace.steps if step.usage]
    return [(sum(u.input_tokens for u in usages), sum(u.output_tokens for u in usages))]


_ASPECT_VIEWS: dict[str, Callable[[MessageActionTrace], object]] = {
    "task": lambda trace: trace.task,
    "agents": lambda trace: [(agent.name, agent.role) for agent in trace.agents],
    "order": lambda trace: [agent for agent, _ in _shifts(trace)],
    "content": _last_words,
    "tools": _tools,
    "links": _links,
    "recipients": lambda trace: [(s.agent, s.recipients) for s in trace.steps if s.recipients],
    "tokens": _tokens,
}
