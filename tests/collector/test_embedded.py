"""In process: the same verdicts on the same spans, and the program never notices."""

from __future__ import annotations

import logging
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from blamespan import conventions as words
from blamespan.host_safety import shield_host
from blamespan.pipeline import AttributedTrace
from blamespan.plugins import load_part
from blamespan.spans import Span
from blamespan_collector.embedded import EmbeddedProcessor, embedded_processor
from blamespan_collector.settings import Limits
from tests.collector.embedded_program import EmbeddedProgram, run_python
from tests.collector.fakes import FirstStepTracer, SlowTracer
from tests.sdk.broken_packages import install_package
from tests.sdk.malformed_verdicts import BAD_TASK

NOW = Limits(quiet_s=0, idle_s=0.3)


Make = Callable[..., EmbeddedProgram]


@pytest.fixture
def program() -> Iterator[Make]:
    made: list[EmbeddedProgram] = []

    def make(exporter: InMemorySpanExporter | None = None, **options: object) -> EmbeddedProgram:
        target = exporter or InMemorySpanExporter()
        settings = {"tracer": FirstStepTracer(), "limits": NOW, **options}
        made.append(EmbeddedProgram(EmbeddedProcessor(target, **settings), target))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for one in made:
        one.processor.shutdown()


def test_complete_run_is_exported_with_its_verdict_at_once(program: Make) -> None:
    """When all spans of a run have ended, no time is waited."""
    here = program(limits=Limits(quiet_s=0, idle_s=3600))
    here.run()
    planner, coder, root = here.exported(3)

    assert (root.attributes or {})[words.BLAME_AGENT] == "planner"
    assert [(span.attributes or {})[words.BLAME_SCORE] for span in (planner, coder)] == [1.0, 0.0]


def test_run_is_held_while_a_span_is_open(program: Make) -> None:
    """However long a model takes to answer, the trace is not let go before its spans have ended."""
    here = program()
    with here.tracer.start_as_current_span("request"):
        here.run()
        time.sleep(0.6)
        held = here.exported(1, 0)

    assert held == ()
    assert len(here.exported(4)) == 4


def test_spans_without_agents_are_the_same_objects(program: Make) -> None:
    """What holds no step goes to the exporter as the SDK made it."""
    here = program()
    ended: list[ReadableSpan] = []
    here.provider.add_span_processor(_Recorder(ended))
    with here.tracer.start_as_current_span("GET /"), here.tracer.start_as_current_span("query"):
        pass
    exported = here.exported(2)

    assert [span.name for span in exported] == ["query", "GET /"]
    assert [span.to_json() for span in exported] == [span.to_json() for span in ended]


class _Recorder(EmbeddedProcessor):
    def __init__(self, ended: list[ReadableSpan]) -> None:
        super().__init__(InMemorySpanExporter())
        self._ended = ended

    def on_start(self, span: object, parent_context: object = None) -> None: ...

    def on_end(self, span: ReadableSpan) -> None:
        self._ended.append(span)


def test_flush_exports_what_is_held(program: Make) -> None:
    """`force_flush` annotates and exports also what is not complete; what ends later follows without a verdict."""
    here = program()
    with here.tracer.start_as_current_span("request"):
        here.run()
        assert here.provider.force_flush()
        held = here.exporter.get_finished_spans()

    assert [words.BLAME_AGENT in (span.attributes or {}) for span in held] == [False, False, True]
    assert [span.name for span in here.exported(4)][3:] == ["request"]


def test_flush_says_when_it_took_too_long(program: Make) -> None:
    """`force_flush` keeps to its time."""
    tracer = SlowTracer()
    here = program(tracer=tracer)
    here.run()
    before = time.monotonic()
    flushed = here.processor.force_flush(100)
    tracer.go.set()

    assert not flushed
    assert time.monotonic() - before < 5


def test_shutdown_exports_what_is_held_and_only_once(program: Make) -> None:
    """Shutting down loses nothing; shutting down again does nothing, and later spans are left alone."""
    here = program(limits=Limits(quiet_s=60))
    here.run()
    here.provider.shutdown()
    here.processor.shutdown()
    here.run()

    assert len(here.exporter.get_finished_spans()) == 3
    assert here.processor.force_flush(100)


def test_unused_processor_shuts_down_at_once(program: Make) -> None:
    """A program without spans starts no threads and does not wait."""
    before = threading.active_count()
    program().processor.shutdown()

    assert threading.active_count() == before


def test_spans_that_are_not_sampled_are_left_alone(program: Make) -> None:
    """Sampling is the program's decision."""
    here = program()
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(here.processor)
    with provider.get_tracer("test").start_as_current_span("unsampled"):
        pass

    assert here.processor.force_flush()
    assert here.exporter.get_finished_spans() == ()


def test_run_below_a_remote_caller_is_complete(program: Make) -> None:
    """A run whose caller is in another process gets its verdict when it ends, and so does the next one."""
    here = program(limits=Limits(quiet_s=0, idle_s=3600))
    caller = SpanContext(1, 2, is_remote=True, trace_flags=TraceFlags(1))
    with trace.use_span(NonRecordingSpan(caller)):
        here.run()
        here.exported(3)
        here.run()
    exported = here.exported(6)

    assert [words.BLAME_AGENT in (span.attributes or {}) for span in exported] == [False, False, True] * 2


def test_missing_tracer_is_one_error_and_costs_no_span(program: Make, caplog: pytest.LogCaptureFixture) -> None:
    """A tracer that is not installed is named once; the spans are exported."""
    here = program(tracer=None, tracer_name="nonesuch")
    here.run()
    here.run()
    exported = here.exported(6)

    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(exported) == 6
    assert len(errors) == 1
    assert "'nonesuch'" in errors[0]
    assert "'nonesuch'" in str((exported[2].attributes or {})[words.ABSTAINED])


def test_faulty_check_is_one_error_and_costs_no_span(
    program: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The program goes on; the entry point and its package are named once."""
    install_package(tmp_path, monkeypatch, "blamespan.checks", "import nosuch")
    here = program(tracer=None, tracer_name="checks")
    here.run()
    here.run()
    exported = here.exported(6)

    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(exported) == 6
    assert len(errors) == 1
    assert "'ours' of blamespan.checks" in errors[0]
    assert errors[0].endswith("pip uninstall acme-rules")


def test_trace_whose_verdict_cannot_be_written_goes_out_as_it_came(
    program: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever nobody foresaw costs that trace its verdict, and the others of its batch nothing."""
    write = AttributedTrace.on

    def break_once(verdict: AttributedTrace, spans: Sequence[Span], *, is_complete: bool) -> list[Span]:
        if verdict.runs[0].trace.task == BAD_TASK:
            raise RuntimeError("nobody foresaw this")
        return write(verdict, spans, is_complete=is_complete)

    monkeypatch.setattr(AttributedTrace, "on", break_once)
    here = program(limits=Limits(quiet_s=3600, idle_s=3600))
    for task in (BAD_TASK, "add"):
        here.run(task=task)
    here.provider.force_flush()

    roots = [span.attributes or {} for span in here.exported(6) if span.parent is None]
    assert [words.TRACER_NAME in attributes for attributes in roots] == [False, True]
    assert "cannot be written" in caplog.text


class BrokenExporter(SpanExporter):
    """Raises."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise OSError("no backend")

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        raise OSError("no backend")

    def shutdown(self) -> None:
        raise OSError("no backend")


def test_broken_exporter_never_reaches_the_program(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever breaks behind us is logged, and the program goes on."""
    here = EmbeddedProgram(
        EmbeddedProcessor(BrokenExporter(), tracer=FirstStepTracer(), limits=NOW), InMemorySpanExporter()
    )
    here.run()
    here.provider.force_flush()
    here.provider.shutdown()

    assert "no backend" in caplog.text


def test_error_of_our_own_never_reaches_the_program(program: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of ours costs spans and a line in the log; the program and what follows go on."""
    monkeypatch.setattr(shield_host, "strict", False)
    here = program()
    with monkeypatch.context() as broken:
        broken.setattr(here.processor, "_put", _broken)
        here.run()
    with monkeypatch.context() as broken:
        broken.setattr("blamespan_collector.embedded.span_from_sdk", _broken)
        here.run()
        here.processor.force_flush()
    here.run()

    assert len(here.exported(3)) == 3


def _broken(_: object) -> None:
    raise RuntimeError("a bug")


def test_full_memory_exports_without_verdicts(program: Make) -> None:
    """Past the room for held traces the oldest are exported as they are."""
    here = program(limits=Limits(quiet_s=0, max_bytes=80_000))
    with here.tracer.start_as_current_span("request"):
        for _ in range(20):
            here.step("planner", "x" * 1000)
        exported = here.exported(20, 1)

    assert len(here.exported(21)) == 21
    assert not any(words.BLAME_SCORE in (span.attributes or {}) for span in exported)


def test_exporter_that_does_not_keep_up_costs_spans_not_memory(caplog: pytest.LogCaptureFixture) -> None:
    """Where nothing can be passed on, what is beyond the stated room is dropped, and the log says so."""
    tracer, exporter = SlowTracer(), InMemorySpanExporter()
    processor = EmbeddedProcessor(exporter, tracer=tracer, limits=Limits(quiet_s=0, max_bytes=80_000))
    here = EmbeddedProgram(processor, exporter)
    for _ in range(100):
        here.run(content="x" * 1000)
    processor.force_flush(500)  # everything is assembled by then
    tracer.go.set()
    processor.shutdown()

    assert caplog.messages == ["3 spans dropped so far: the exporter or the tracer cannot keep up"]
    assert 20 <= len(exporter.get_finished_spans()) < 60


def test_spans_of_many_threads_come_out_once(program: Make) -> None:
    """Runs in parallel do not mix and lose nothing."""
    here = program()
    with ThreadPoolExecutor(8) as pool:
        for _ in range(100):
            pool.submit(here.run)
    exported = here.exported(300)

    assert len({span.context.span_id for span in exported if span.context}) == len(exported) == 300
    assert sum(words.BLAME_AGENT in (span.attributes or {}) for span in exported) == 100


def test_ending_a_span_is_cheap(program: Make) -> None:
    """The program's thread only fills a queue: below 50 microseconds for a start and an end."""
    here = program()
    span = here.tracer.start_span("x")
    assert isinstance(span, ReadableSpan)
    before = time.thread_time()
    for _ in range(2000):
        here.processor.on_end(span)
    took_s = time.thread_time() - before

    assert took_s / 2000 < 50e-6


PROGRAM = """
import os, sys
from opentelemetry.sdk.trace.export import ConsoleSpanExporter
from blamespan_collector.embedded import EmbeddedProcessor
from tests.collector.embedded_program import EmbeddedProgram
from tests.collector.fakes import FirstStepTracer
from opentelemetry.sdk.trace import TracerProvider
from blamespan_collector.settings import Limits

exporter = ConsoleSpanExporter(formatter=lambda s: f"{os.getpid()} {s.name} {'blame' in str(s.attributes)}\\n")
here = EmbeddedProgram.__new__(EmbeddedProgram)
here.provider = TracerProvider()
here.provider.add_span_processor(EmbeddedProcessor(exporter, tracer=FirstStepTracer(), limits=Limits(quiet_s=60)))
here.tracer = here.provider.get_tracer("x")
here.run()
"""


def test_exception_that_nobody_caught_exports_what_is_held() -> None:
    """A program that ends by one flushes, as at every end."""
    done = run_python(PROGRAM + "1 / 0")

    assert [line.split(" ", 1)[1] for line in done.stdout.splitlines()] == [
        "invoke_agent planner True",
        "invoke_agent coder True",
        "invoke_workflow True",
    ]


def test_forked_child_exports_its_own_spans_only() -> None:
    """What the parent holds at a fork is exported by the parent, once; the child works on its own."""
    done = run_python(
        PROGRAM
        + textwrap.dedent("""
        child = os.fork()
        here.run()
        if child:
            os.waitpid(child, 0)
        print(os.getpid(), "me", file=sys.stderr)
        here.provider.shutdown()
        """)
    )
    child, parent = (line.split()[0] for line in done.stderr.splitlines() if line.endswith("me"))
    by_process = [line.split()[0] for line in done.stdout.splitlines()]

    assert (by_process.count(child), by_process.count(parent)) == (3, 6)


def test_processor_is_a_part_that_blamespan_finds() -> None:
    """`instrument(embedded=True)` finds it under its name."""
    assert load_part("embedded_processor") is embedded_processor
