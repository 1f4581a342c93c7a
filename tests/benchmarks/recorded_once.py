"""Measure one recorder on one program, in this process; called by `bench_sdk`, which starts a fresh one for each.

    python -m tests.benchmarks.recorded_once langgraph blamespan --steps 200

Prints one JSON document. With `floor` for a recorder: what it costs to make the spans that blamespan makes with
the same attributes, by OpenTelemetry alone.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.benchmarks.programs import NODE, autogen_chat, autogen_tool_chat, langgraph_loop
from tests.benchmarks.recorders import RECORDERS

PROGRAMS = {"autogen": autogen_chat, "langgraph": langgraph_loop}
WARM_UP_STEPS = 10
TOOL_TURNS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=PROGRAMS)
    parser.add_argument("recorder", choices=[*RECORDERS, "floor"])
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--most-runs", type=int, default=5)
    parser.add_argument("--most-s", type=float, default=0.6, help="start no further run after this long")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    measure = _floor if arguments.recorder == "floor" else _recorder
    print(json.dumps(measure(arguments)))  # noqa: T201


def _recorder(arguments: argparse.Namespace) -> dict[str, Any]:
    exporter = InMemorySpanExporter()
    callbacks = RECORDERS[arguments.recorder].switch_on(exporter, arguments.framework)
    program = PROGRAMS[arguments.framework]
    program(WARM_UP_STEPS, callbacks)()
    times = _timed(lambda: program(arguments.steps, callbacks), exporter, arguments)
    figures = {**times, **shape(exporter.get_finished_spans(), arguments.framework)}
    if arguments.framework == "autogen":
        exporter.clear()
        autogen_tool_chat(TOOL_TURNS)()
        figures["tool_chat"] = shape(_flushed(exporter), "autogen")
    return figures


def _floor(arguments: argparse.Namespace) -> dict[str, Any]:
    """Let blamespan record the program once, then only make its spans again."""
    recorded = InMemorySpanExporter()
    RECORDERS["blamespan"].switch_on(recorded, arguments.framework)
    PROGRAMS[arguments.framework](arguments.steps)()
    spans = [(span.name, span.kind, dict(span.attributes or {})) for span in recorded.get_finished_spans()]
    children, (root_name, root_kind, root_attributes) = spans[:-1], spans[-1]  # what encloses all the rest ends last
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("floor")

    def make_spans() -> None:
        root = tracer.start_span(root_name, Context(), root_kind, root_attributes)
        context = trace.set_span_in_context(root)
        for name, kind, attributes in children:
            tracer.start_span(name, context, kind, attributes).end()
        root.end()

    make_spans()
    times = _timed(lambda: make_spans, exporter, arguments)
    return {**times, **shape(exporter.get_finished_spans(), arguments.framework)}


def _timed(
    prepare: Callable[[], Callable[[], None]], exporter: InMemorySpanExporter, arguments: argparse.Namespace
) -> dict[str, list[float]]:
    """Run what *prepare* gives several times; its spans after this are the last run's."""
    seconds: list[float] = []
    cpu_seconds: list[float] = []
    while len(seconds) < arguments.most_runs and sum(seconds) < arguments.most_s:
        run = prepare()
        _flushed(exporter)
        exporter.clear()
        gc.collect()
        start_s, start_cpu_s = time.perf_counter(), time.process_time()
        run()
        _flushed(exporter)
        seconds.append(time.perf_counter() - start_s)
        cpu_seconds.append(time.process_time() - start_cpu_s)
    return {"seconds": seconds, "cpu_seconds": cpu_seconds}


def _flushed(exporter: InMemorySpanExporter) -> Sequence[ReadableSpan]:
    """Give all spans, also those that a recorder still has under way."""
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.force_flush()
    return exporter.get_finished_spans()


def shape(spans: Sequence[ReadableSpan], framework: str) -> dict[str, int]:
    """Count what was recorded, by the words of whoever recorded it."""
    is_agent = _is_about_the_node if framework == "langgraph" else _is_agent
    return {
        "spans": len(spans),
        "traces": len({span.context.trace_id for span in spans}),
        "roots": sum(span.parent is None for span in spans),
        "agent_spans": sum(map(is_agent, spans)),
        "tool_spans": sum(_does(span, "execute_tool", "TOOL") for span in spans),
        "model_spans": sum(_does(span, "chat", "LLM") for span in spans),
        "attribute_bytes": attribute_bytes(spans),
    }


def _is_about_the_node(span: ReadableSpan) -> bool:
    return NODE in span.name or (span.attributes or {}).get("gen_ai.agent.name") == NODE


def _is_agent(span: ReadableSpan) -> bool:
    return _does(span, "invoke_agent", "AGENT")


def _does(span: ReadableSpan, operation: str, kind: str) -> bool:
    said = span.attributes or {}
    return operation == said.get("gen_ai.operation.name") or kind == said.get("openinference.span.kind")


def attribute_bytes(spans: Iterable[ReadableSpan]) -> int:
    """Add up keys and values, as UTF-8 text, of spans and of their events."""
    said = (each for span in spans for each in (span.attributes, *(event.attributes for event in span.events)))
    return sum(len(key.encode()) + len(_text(value).encode()) for each in said for key, value in (each or {}).items())


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


if __name__ == "__main__":
    main()
