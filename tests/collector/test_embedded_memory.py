"""The embedded processor holds as much memory as it counts, no more than its limit says, and nothing over a fork."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from blamespan import conventions as words
from blamespan.errors import ConfigError
from blamespan.lazy import lazy_property
from blamespan.otlp.sdk import span_from_sdk
from blamespan_collector import embedded
from blamespan_collector.embedded import EmbeddedProcessor, _held_bytes
from tests.collector.embedded_program import run_python
from tests.sdk.fixed_tracer import LongestStepTracer

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
TEXTS = {"short": "ok", "long": "x" * 4_000, "not latin": "\u6f22" * 4_000, "outside the plane": "\U0001f600" * 1_000}


class Never(SpanExporter):
    """Takes a first batch and never comes back, until told."""

    def __init__(self) -> None:
        self.is_over = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.is_over.wait(60)
        return SpanExportResult.SUCCESS


def spans_of(text: str, count: int) -> list[ReadableSpan]:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("app")
    made: list[ReadableSpan] = []
    for number in range(count):
        attributes = {words.OPERATION: "invoke_agent", words.AGENT_NAME: f"a{number}", "text": f"{number}{text}"}
        with tracer.start_as_current_span(f"invoke_agent a{number}", attributes=attributes) as span:
            span.set_attribute("tags", [f"{number}", "b"])
        made.append(span)  # type: ignore[arg-type]  # the SDK's
    return made


@pytest.mark.parametrize("text", TEXTS)
def test_memory_is_counted_as_it_is(text: str) -> None:
    """What a held span takes, ours and the SDK's, is estimated within a fifth, whatever its texts."""
    spans_of(TEXTS[text], 10)
    gc.collect()
    tracemalloc.start(1)
    try:
        held = [(span, span_from_sdk(span)) for span in spans_of(TEXTS[text], 300)]
        gc.collect()
        really, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    estimated = sum(_held_bytes(span) for span, _ in held)
    assert 0.8 < estimated / really < 1.35


def test_unread_spans_are_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Where the program makes spans faster than they are read, the newest are dropped, with an error in the log."""
    monkeypatch.setattr(embedded, "_MAX_INBOX", 10)
    processor = EmbeddedProcessor(Never(), tracer=LongestStepTracer())
    monkeypatch.setattr(processor, "_start", lambda: None)  # nobody reads

    for span in spans_of("x", 30):
        processor.on_end(span)

    assert len(processor._inbox) == 10
    assert "1 spans dropped so far: the program makes them faster than they are read" in caplog.text


def test_unread_spans_are_bounded_by_what_they_take(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Unread spans with long contents are dropped past 32 MiB, before there are many; one alone is not, of any size."""
    processor = EmbeddedProcessor(Never(), tracer=LongestStepTracer())
    monkeypatch.setattr(processor, "_start", lambda: None)  # nobody reads
    [large] = spans_of("x" * 50_000_000, 1)
    small = spans_of("x" * 20_000, 1)[0]

    processor.on_end(large)
    processor.on_end(small)
    alone = len(processor._inbox)
    processor._inbox.get(timeout_s=0)
    for _ in range(3_000):
        processor.on_end(small)

    assert (alone, len(processor._inbox)) == (1, 32 * 1024 * 1024 // _held_bytes(small))
    assert "spans dropped so far: the program makes them faster than they are read" in caplog.text


UNHEARD = """
import os, threading, time
import psutil
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from blamespan_collector.embedded import EmbeddedProcessor
from tests.sdk.fixed_tracer import LongestStepTracer

class Never(SpanExporter):
    def export(self, spans):
        threading.Event().wait(600)

provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(EmbeddedProcessor(Never(), tracer=LongestStepTracer()))
tracer, memory, peak = provider.get_tracer("app"), psutil.Process().memory_info, 0

def run(name):
    with tracer.start_as_current_span("invoke_workflow w", attributes={"gen_ai.operation.name": "invoke_workflow"}):
        for step in range(4):
            texts = {"gen_ai.agent.name": "a", "text": name + "x" * 20_000}
            attributes = {"gen_ai.operation.name": "invoke_agent", **texts}
            tracer.start_span("invoke_agent a", attributes=attributes).end()

run("first")
time.sleep(0.5)  # the exporter is at it
before = memory().rss
threads = [threading.Thread(target=lambda n=n: [run(f"{n} {i}") for i in range(1_500)]) for n in range(4)]
[thread.start() for thread in threads]
while any(thread.is_alive() for thread in threads):
    peak = max(peak, memory().rss)
    time.sleep(0.01)
print((max(peak, memory().rss) - before) // 2**20, flush=True)
os._exit(0)
"""


def test_process_stays_within_its_bound_where_nobody_listens() -> None:
    """480 MB of spans and an exporter that hangs: the process grows by no more than the 272 MiB that the docs say."""
    done = run_python(UNHEARD)

    assert 100 < int(done.stdout) < 272, done.stderr


def test_wrong_exit_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A time that is no number is an error at once."""
    monkeypatch.setenv("BLAMESPAN_EXIT_S", "soon")
    with pytest.raises(ConfigError, match="BLAMESPAN_EXIT_S must be a number of seconds, got 'soon'"):
        EmbeddedProcessor(Never())


@contextmanager
def at_work(function: Any) -> Iterator[None]:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    yield
    thread.join(10)


def exit_of_child(work: Any) -> int:
    """Fork, do *work* in the child, and return its exit code: 0 if it came to its end within 5 s."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(5)
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_within_a_lazy_property_does_not_stop_the_child() -> None:
    """A property that another thread works out while the program forks can be read in the child."""
    inside, may_end = threading.Event(), threading.Event()

    class Table:
        is_slow = True

        @lazy_property
        def rows(self) -> int:
            if self.is_slow:
                inside.set()
                may_end.wait(10)
            return 7

    slow, quick = Table(), Table()
    quick.is_slow = False
    with at_work(lambda: slow.rows):
        inside.wait(10)
        code = exit_of_child(lambda: quick.rows)
        may_end.set()

    assert (code, slow.rows, vars(quick).get("rows")) == (0, 7, None)


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_waits_while_we_import() -> None:
    """A program that forks while a thread of ours imports waits a moment: its child can import the same."""
    inside, done = threading.Event(), []

    def import_slowly() -> None:
        with embedded._importing:
            inside.set()
            threading.Event().wait(0.2)
            done.append(True)

    def import_again() -> None:
        with embedded._importing:
            pass

    with at_work(import_slowly):
        inside.wait(10)
        code = exit_of_child(import_again)
        at_fork = len(done)

    assert (code, at_fork) == (0, 1)


def test_no_property_of_ours_holds_a_lock() -> None:
    """`functools.cached_property`, which locks on Python 3.11, is nowhere in the packages."""
    folders = ["sdk", "integrations", "collector", "tracer_model/blamespan_tracer"]
    pattern = r"^ *@(functools\.)?cached_property|= *(functools\.)?cached_property"
    command = ["grep", "-rlE", pattern, *folders, "--include=*.py"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)

    assert found.stdout == ""


PROGRAM = """
import multiprocessing, os, sys
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from blamespan_collector.embedded import EmbeddedProcessor

exporter = InMemorySpanExporter()
provider = TracerProvider(shutdown_on_exit=False)
processor = EmbeddedProcessor(exporter, tracer_name="auto")
provider.add_span_processor(processor)

def run(_=0):
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", "blamespan.step.index": 0}
    with provider.get_tracer("x").start_as_current_span("invoke_agent a", attributes=attributes):
        pass
    return processor.force_flush(20_000) and len(exporter.get_finished_spans())

if __name__ == "__main__":
    for _ in range(20):
        with provider.get_tracer("x").start_as_current_span("invoke_agent b", attributes={
            "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "b", "blamespan.step.index": 0}):
            pass
    before = len(exporter.get_finished_spans())
    with multiprocessing.get_context("fork").Pool(3) as pool:  # while the annotator loads and works
        done = pool.map(run, range(3), chunksize=1)
    sys.stdout.write(str(all(done)))
    os._exit(0)
"""


@needs_fork
def test_pool_forked_while_the_annotator_works_records() -> None:
    """Workers of `multiprocessing`, forked while the tracer is loaded and at work, record runs of their own."""
    done = run_python(PROGRAM)

    assert done.stdout == "True", done.stderr
