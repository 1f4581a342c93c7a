"""What recording costs a program: run it, read the figures. Not collected by pytest.

    python tests/benchmarks/bench_recording.py [--steps 200]

An AutoGen team of two agents and a LangGraph loop, 1 KB a message, scripted models, spans kept in memory;
each bare and recorded, the best of five runs of each, in one process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import time
from collections.abc import Callable, Sequence

import click
from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.replay import ReplayChatCompletionClient
from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from blamespan_integrations.autogen import AutoGenInstrumentor
from blamespan_integrations.langgraph import LangGraphInstrumentor

TEXT = "x" * 1_000


def autogen_run(steps: int) -> None:
    """Let two agents speak in turn; AutoGen's own tracing has no exporter and costs what it costs anyone."""
    members = [AssistantAgent(name, ReplayChatCompletionClient([TEXT] * steps)) for name in ("one", "two")]
    asyncio.run(RoundRobinGroupChat(list(members), max_turns=steps).run(task="go"))


def langgraph_run(steps: int) -> None:
    """Let one node speak in a loop."""
    builder = StateGraph(MessagesState)
    builder.add_node("speaker", lambda state: {"messages": [AIMessage(f"{len(state['messages'])} {TEXT}")]})
    builder.add_edge(START, "speaker")
    builder.add_conditional_edges("speaker", lambda state: END if len(state["messages"]) > steps else "speaker")
    builder.compile().invoke({"messages": [("user", "go")]}, {"recursion_limit": steps + 10})


def best_s(run: Callable[[], None]) -> float:
    """Time *run* five times after one warm-up; the best is least disturbed by others."""
    times: list[float] = []
    for _ in range(6):
        start_s = time.perf_counter()
        run()
        times.append(time.perf_counter() - start_s)
    return min(times[1:])


def attribute_bytes(spans: Sequence[ReadableSpan]) -> int:
    """Add up keys and values as text."""
    texts = (part for span in spans for key, value in (span.attributes or {}).items() for part in (key, _text(value)))
    return sum(len(text.encode()) for text in texts)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def measure(name: str, run: Callable[[int], None], instrumentor: BaseInstrumentor, steps: int) -> str:
    """Run bare and recorded; one line of figures."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    bare_s = best_s(lambda: run(steps))
    instrumentor.instrument(tracer_provider=provider)
    recorded_s = best_s(lambda: (exporter.clear(), run(steps))[1])
    instrumentor.uninstrument()
    spans = exporter.get_finished_spans()
    traces = len({span.context.trace_id for span in spans})
    return (
        f"{name:10} {steps:5} steps   bare {bare_s:.3f} s   recorded {recorded_s:.3f} s   "
        f"{len(spans)} spans in {traces} trace(s)   {attribute_bytes(spans):,} bytes of attributes"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    logging.disable(logging.INFO)
    click.echo(measure("AutoGen", autogen_run, AutoGenInstrumentor(), steps))
    click.echo(measure("LangGraph", langgraph_run, LangGraphInstrumentor(), steps))


if __name__ == "__main__":
    main()
