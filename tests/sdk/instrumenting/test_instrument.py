"""`instrument()` finds the right provider, does not double, and leaves nothing behind.

Each test is a process of its own: OpenTelemetry lets a program set its provider once.
"""

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


def test_programs_own_provider_is_used() -> None:
    """A program that has set up OpenTelemetry keeps its setup, and its exporter gets our spans."""
    done = program(
        with_graph("""
            import blamespan
            from opentelemetry import trace
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
            provider = TracerProvider()
            show = ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")
            provider.add_span_processor(SimpleSpanProcessor(show))
            trace.set_tracer_provider(provider)
            blamespan.instrument()
            assert trace.get_tracer_provider() is provider
            """)
    )

    assert done.stdout.split("\n")[:-1] == ["invoke_agent writer", "invoke_workflow team"], done.stderr


def test_standard_variables_choose_the_exporter() -> None:
    """Without a provider one is made, as `OTEL_TRACES_EXPORTER` says."""
    done = program(with_graph("import blamespan\nblamespan.instrument()"), OTEL_TRACES_EXPORTER="console")

    assert '"name": "invoke_agent writer"' in done.stdout, done.stderr


def test_second_call_does_not_double() -> None:
    """Two calls, one set of spans."""
    code = with_graph("import blamespan\nblamespan.instrument()\nblamespan.instrument()")

    assert program(code, OTEL_TRACES_EXPORTER="console").stdout.count('"name": "invoke_agent writer"') == 1


def test_uninstrument_stops_recording() -> None:
    """After it nothing is recorded any more."""
    code = with_graph("import blamespan\nblamespan.instrument()\nblamespan.uninstrument()")

    assert program(code, OTEL_TRACES_EXPORTER="console").stdout == ""


def test_threads_that_switch_on_at_once_switch_on_once() -> None:
    """Several threads may call `instrument()`: one set of spans."""
    code = with_graph("""
        import threading, blamespan
        threads = [threading.Thread(target=blamespan.instrument) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        """)

    done = program(code, OTEL_TRACES_EXPORTER="console")

    assert done.stdout.count('"name": "invoke_agent writer"') == 1, done.stderr


def test_contents_are_withheld_by_argument() -> None:
    """`capture_content=False` reaches every integration, and wins over the standard variable."""
    code = with_graph("import blamespan\nblamespan.instrument(capture_content=False)")

    done = program(code, OTEL_TRACES_EXPORTER="console", OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="span_only")

    assert '"name": "invoke_agent writer"' in done.stdout, done.stderr
    assert "hello" not in done.stdout


def test_masks_reach_every_integration() -> None:
    """What `instrument()` is told to mask is masked."""
    code = with_graph("import blamespan\nblamespan.instrument(mask=lambda text: text.replace('hello', 'h*'))")

    done = program(code, OTEL_TRACES_EXPORTER="console")

    assert ("hello" in done.stdout, "h*" in done.stdout) == (False, True), done.stderr


def test_wrong_mask_is_refused_before_anything_is_switched_on() -> None:
    """A setting that would silently do nothing is answered where it is written."""
    done = program("import blamespan\nblamespan.instrument(mask_keys='ssn')")

    assert "ConfigError: mask_keys must be a list of names, got 'ssn'" in done.stderr


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


def test_failing_exporter_changes_nothing() -> None:
    """An exporter that raises is the exporter's problem."""
    code = with_graph("""
        import blamespan
        from opentelemetry.sdk.trace.export import SpanExporter
        class Fails(SpanExporter):
            def export(self, spans):
                raise OSError("no network")
        blamespan.instrument(exporter=Fails())
        """)

    assert program(code + "\nprint('done')").stdout == "done\n"


@pytest.mark.parametrize("options", ["", "embedded=True"])
def test_forked_process_records_its_own_runs(options: str) -> None:
    """A process forked after `instrument()` (gunicorn, multiprocessing) exports what it does itself."""
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


def test_disabled_sdk_records_nothing() -> None:
    """`OTEL_SDK_DISABLED` is honoured."""
    code = with_graph("import blamespan\nassert blamespan.instrument() == []")

    done = program(code, OTEL_TRACES_EXPORTER="console", OTEL_SDK_DISABLED="true")

    assert (done.stdout, done.returncode) == ("", 0), done.stderr


def test_unknown_exporter_is_refused_at_once() -> None:
    """A wrong variable is answered before anything is switched on."""
    done = program("import blamespan\nblamespan.instrument()", OTEL_TRACES_EXPORTER="nope")

    assert "OTEL_TRACES_EXPORTER must name installed exporters" in done.stderr
    assert "got 'nope'" in done.stderr


def test_exporter_beside_a_provider_needs_embedded() -> None:
    """Arguments that would be ignored are refused."""
    done = program("""
        import blamespan
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import ConsoleSpanExporter
        trace.set_tracer_provider(TracerProvider())
        blamespan.instrument(exporter=ConsoleSpanExporter())
        """)

    assert "ConfigError: exporter= needs embedded=True here" in done.stderr


def test_unknown_tracer_is_refused_at_once() -> None:
    """A wrong name is answered where it was written, not in a background thread."""
    done = program("import blamespan\nblamespan.instrument(embedded=True, tracer='nope')")

    names = "auto, checks, judge, language-model, lexical"
    assert f"ConfigError: blamespan.tracers offers {names}; got 'nope'" in done.stderr


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


def test_warning_of_nothing_names_the_releases_that_extras_install() -> None:
    """Where no framework is installed, the log asks for what the instrumentors ask for and the extras bring."""
    done = program(
        """
        from importlib.metadata import PackageNotFoundError, requires
        from opentelemetry.instrumentation import dependencies
        import blamespan
        extras = [text.partition(";")[0] for text in requires("blamespan") if "extra == 'all'" in text]
        [maf] = [text for text in extras if text.startswith("agent-framework-core")]
        [autogen] = [text for text in extras if text.startswith("autogen-agentchat")]
        [langgraph] = [text for text in extras if text.startswith("langgraph")]
        def version(name):
            raise PackageNotFoundError(name)
        dependencies.version = version
        print(blamespan.instrument(), f"expected {maf} or {autogen} or {langgraph} in".replace(">=", " >= "))
        """
    )

    assert done.stdout.startswith("[] expected agent-framework-core >= "), done.stderr
    assert done.stderr.startswith(done.stdout.removeprefix("[] ").strip()), done.stderr
    pips = " or ".join(f"pip install 'blamespan[{name}]'" for name in ("agent-framework", "autogen", "langgraph"))
    assert pips in done.stderr


@pytest.mark.parametrize(("arguments", "is_warned"), [("", True), ("embedded=True", False)])
def test_absent_frameworks_are_a_warning_only_where_nothing_is_judged(arguments: str, *, is_warned: bool) -> None:
    """An embedded program judges spans of other instrumentations: that nothing is recorded would be wrong."""
    done = program(
        f"""
        import blamespan
        from blamespan.instrumenting import instrument as instrumentation
        instrumentation._instrumentors = lambda: iter(())
        print(blamespan.instrument({arguments}))
        """,
        OTEL_TRACES_EXPORTER="none",
    )

    assert done.stdout == "[]\n", done.stderr
    assert ("nothing is recorded" in done.stderr) is is_warned
