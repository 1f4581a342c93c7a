"""`instrument()` in programs of their own: an exporter that hangs, forks, and embedded verdicts."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

RUN_A_GRAPH = """
    from langgraph.graph import START, MessagesState, StateGraph
    builder = StateGraph(MessagesState)
    builder.add_node("writer", lambda state: {"messages": [("assistant", "hello")]})
    builder.add_edge(START, "writer")
    builder.compile(name="team").invoke({"messages": [("user", "say hello")]})
"""


def program(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "BLAMESPAN_"))}
    return subprocess.run(
        [sys.executable, "-W", "error::UserWarning:blamespan", "-c", textwrap.dedent(code)],
        env=clean | {"BLAMESPAN_STORE": "none"} | environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def with_graph(code: str) -> str:
    return textwrap.dedent(code) + textwrap.dedent(RUN_A_GRAPH)


def test_hanging_exporter_does_not_hold_the_program_up() -> None:
    """Spans are exported in the background; when nobody takes them, they are dropped and the run goes on."""
    code = with_graph("""
        import os, threading, time, blamespan
        from opentelemetry.sdk.trace.export import SpanExporter
        class Hangs(SpanExporter):
            def export(self, spans):
                threading.Event().wait()
        blamespan.instrument(exporter=Hangs())
        """) + textwrap.dedent("""
        graph = builder.compile(name="team")
        start_s = time.monotonic()
        for _ in range(30):
            answer = graph.invoke({"messages": [("user", "say hello")]})
        print(answer["messages"][-1].content, time.monotonic() - start_s < 10, flush=True)
        os._exit(0)  # the SDK gives exporters 30 s at exit
        """)

    queue = {"OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_BSP_MAX_QUEUE_SIZE": "16", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "8"}
    done = program(code, **queue)

    assert done.stdout == "hello True\n", done.stderr


@pytest.mark.parametrize("options", ["", "embedded=True"])
def test_forked_process_records_its_own_runs(options: str) -> None:
    """A process forked after `instrument()` (gunicorn, multiprocessing) exports what it does itself.

    Without a provider one is made, as `OTEL_TRACES_EXPORTER` says.
    """
    code = with_graph(f"import blamespan\nblamespan.instrument({options})") + textwrap.dedent("""
        import os, sys
        child = os.fork()
        graph = builder.compile(name="team")
        graph.invoke({"messages": [("user", "say hello")]})
        if child:
            os.waitpid(child, 0)
        sys.stdout.flush()
        """)

    done = program(code, OTEL_TRACES_EXPORTER="console")

    assert done.stdout.count('"name": "invoke_workflow team"') == 3, done.stderr
    assert done.returncode == 0


def test_embedded_mode_annotates_and_leaves_other_spans_alone() -> None:
    """Agents' spans leave with a verdict; the program's other spans go their old way; all share the trace."""
    done = program(
        """
        import blamespan
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
        provider = TracerProvider()
        def show(where):
            return ConsoleSpanExporter(formatter=lambda s: f"{where} {s.name} {s.context.trace_id:x} "
                                       f"{'blamespan.blame.score' in s.attributes}\\n")
        provider.add_span_processor(SimpleSpanProcessor(show("own")))
        trace.set_tracer_provider(provider)
        blamespan.instrument(embedded=True, exporter=show("ours"))
        from langgraph.graph import START, MessagesState, StateGraph
        builder = StateGraph(MessagesState)
        builder.add_node("writer", lambda state: {"messages": [("assistant", "hello, I will skip verification")]})
        builder.add_edge(START, "writer")
        with trace.get_tracer("app").start_as_current_span("POST /ask"):
            builder.compile(name="team").invoke({"messages": [("user", "say hello")]})
        """
    )

    lines = [line.rsplit(" ", 2) for line in done.stdout.splitlines()]
    assert sorted((name, annotated) for name, _, annotated in lines) == [
        ("ours invoke_agent writer", "True"),
        ("ours invoke_workflow team", "False"),
        ("own POST /ask", "False"),
    ], done.stderr
    assert len({trace_id for _, trace_id, _ in lines}) == 1
