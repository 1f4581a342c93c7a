"""The embedded mode in worker processes and forked children, and at the end of a program whose exporter hangs."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from blamespan.instrumenting import exchange
from blamespan.instrumenting.exchange import LentExporter
from blamespan_collector.embedded import EmbeddedProcessor
from blamespan_collector.store import RunQuery, RunStore
from tests.collector.embedded_program import HERE
from tests.sdk.fixed_tracer import LongestStepTracer

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

PROGRAM = """
import multiprocessing, os, signal, sys, threading, time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from blamespan_collector.embedded import EmbeddedProcessor
from blamespan_collector.local_runs import LocalRuns
from tests.sdk.fixed_tracer import LongestStepTracer

def record(_=0):
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "a", "blamespan.step.index": 0}
    provider.get_tracer("x").start_span("invoke_agent a", attributes=attributes).end()
"""
FIXED = """
provider = TracerProvider()
provider.add_span_processor(
    EmbeddedProcessor(InMemorySpanExporter(), tracer=LongestStepTracer(), local_runs=LocalRuns(Path(sys.argv[1])))
)
"""


def run_program(code: str, folder: Path) -> str:
    """Run a program that keeps its runs in `runs.db`; return what it wrote to stdout."""
    (folder / "program.py").write_text(PROGRAM + textwrap.dedent(code))
    command = [sys.executable, str(folder / "program.py"), str(folder / "runs.db")]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=os.environ | {"PYTHONPATH": str(HERE)}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


POOL = "with context.Pool(3) as pool: pool.map(record, range(12), chunksize=1); pool.close(); pool.join()"
EXECUTOR = "with ProcessPoolExecutor(3, context) as pool: list(pool.map(record, range(12)))"


@pytest.mark.parametrize(
    ("method", "use"),
    [
        pytest.param("fork", POOL, id="pool", marks=needs_fork),
        pytest.param("fork", EXECUTOR, id="executor", marks=needs_fork),
        pytest.param("forkserver", POOL, id="pool of a fork server", marks=[needs_fork, pytest.mark.slow]),
        pytest.param("forkserver", EXECUTOR, id="executor of a fork server", marks=[needs_fork, pytest.mark.slow]),
        pytest.param("spawn", POOL, id="spawned pool", marks=pytest.mark.slow),
        pytest.param("spawn", EXECUTOR, id="spawned executor", marks=pytest.mark.slow),
    ],
)
def test_runs_of_workers_that_end_in_order_are_stored(tmp_path: Path, method: str, use: str) -> None:
    """A worker of `multiprocessing` delivers what it holds as it ends, though no hook of `atexit` runs there."""
    start = f'if __name__ == "__main__":\n    context = multiprocessing.get_context("{method}")\n    {use}\n'
    run_program(FIXED + start, tmp_path)

    assert len(RunStore(tmp_path / "runs.db").search(RunQuery(limit=100))) == 12


@needs_fork
def test_processor_made_in_a_worker_ends_with_it(tmp_path: Path) -> None:
    """A worker whose initializer begins to record delivers, too."""
    making = FIXED.replace("provider = TracerProvider()", "global provider; provider = TracerProvider()")
    code = f"def begin():\n{textwrap.indent(making, '    ')}\n" + (
        'with multiprocessing.get_context("fork").Pool(1, begin) as pool:\n'
        "    pool.map(record, range(3)); pool.close(); pool.join()"
    )
    run_program(code, tmp_path)

    assert len(RunStore(tmp_path / "runs.db").search()) == 3


NETWORK = """
exporter = InMemorySpanExporter()
processor = EmbeddedProcessor(exporter, tracer_name="auto", local_runs=LocalRuns(Path(sys.argv[1])))
provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(processor)
"""


@pytest.mark.slow
def test_threads_of_ours_import_nothing(tmp_path: Path) -> None:
    """What verdicts need is imported before the threads begin: no child is forked while one of them imports."""
    code = """
    class Watch:
        imported = []

        def find_spec(self, name, path=None, target=None):
            if threading.current_thread().name.startswith("blamespan"):
                self.imported.append(name)

    sys.meta_path.insert(0, Watch())
    before = set(sys.modules)
    for _ in range(3):
        record()
        processor.force_flush()
    print(len(exporter.get_finished_spans()), Watch.imported, sorted(set(sys.modules) - before))
    """
    output = run_program(NETWORK + textwrap.dedent(code), tmp_path)

    assert output == "3 [] []\n"


@needs_fork
@pytest.mark.slow
def test_children_forked_while_the_annotator_works_record(tmp_path: Path) -> None:
    """Of sixty children forked at any moment of the first verdicts none hangs."""
    code = """
    codes = []
    for number in range(60):
        if number % 20 == 0:  # anew: the tracer is loaded, and gives its first verdict
            processor._renew()
        record()
        time.sleep(number % 20 * 0.02)
        if (child := os.fork()) == 0:
            signal.alarm(60)
            record()
            os._exit(not processor.force_flush(50_000))
        codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(codes == [0] * 60)
    """
    assert run_program(NETWORK + textwrap.dedent(code), tmp_path) == "True\n"


class HangingExporter(SpanExporter):
    """Never comes back from one of its methods, until told."""

    def __init__(self, method: str) -> None:
        self.is_over = threading.Event()
        self.method = method
        self.calls: list[str] = []

    def _note(self, method: str) -> None:
        self.calls.append(method)
        if method == self.method:
            self.is_over.wait(30)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self._note("export")
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        self._note("force_flush")
        return True

    def shutdown(self) -> None:
        self._note("shutdown")


@pytest.mark.parametrize("method", ["export", "force_flush", "shutdown", "none"])
@pytest.mark.parametrize("spans", [0, 3])
def test_no_method_of_an_exporter_holds_the_end_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str, spans: int
) -> None:
    """Whatever hangs, the end waits for `BLAMESPAN_EXIT_S` and says so in one line; a sound exporter ends quietly."""
    monkeypatch.setenv("BLAMESPAN_EXIT_S", "0.2" if method != "none" else "20")
    exporter = HangingExporter(method)
    processor = EmbeddedProcessor(exporter, tracer=LongestStepTracer())
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(processor)
    for _ in range(spans):
        provider.get_tracer("x").start_span("a").end()
    start_s = time.monotonic()
    processor.shutdown()
    spent_s = time.monotonic() - start_s
    exporter.is_over.set()
    lines = [record.getMessage() for record in caplog.records]
    hangs = method != "none" and (spans > 0 or method != "export")

    assert spent_s < 5
    assert [line.partition(":")[0] for line in lines] == [
        "the end did not wait longer than 0.2 s for the exporter"
    ] * hangs
    assert hangs or exporter.calls[-2:] == ["force_flush", "shutdown"]


@pytest.mark.parametrize("method", ["shutdown", "none"])
def test_exporter_that_was_lent_does_not_hold_the_end_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    """What is no more in use is shut down at exit, within `BLAMESPAN_EXIT_S`."""
    monkeypatch.setenv("BLAMESPAN_EXIT_S", "0.2" if method != "none" else "20")
    monkeypatch.setattr(exchange, "_lent", {})
    exporter = HangingExporter(method)
    LentExporter(exporter).shutdown()
    start_s = time.monotonic()
    exchange._end_lent()
    spent_s = time.monotonic() - start_s
    exporter.is_over.set()

    assert spent_s < 5
    assert exporter.calls == ["force_flush", "shutdown"]
    assert caplog.text.count("the end did not wait longer than 0.2 s for the exporter") == (method != "none")


def test_lent_exporter_that_hangs_in_a_call_is_left_alone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An exporter that does not come back from an export is not waited for again."""
    monkeypatch.setattr(exchange, "_lent", {})
    exporter = HangingExporter("export")
    lent = LentExporter(exporter)
    exporting = threading.Thread(target=lent.export, args=([],), daemon=True)
    exporting.start()
    while not exporter.calls:
        time.sleep(0.001)
    exchange._end_lent()
    called = list(exporter.calls)
    exporter.is_over.set()
    exporting.join(10)
    exchange._end_lent()

    assert called == ["export"]
    assert exporter.calls == ["export", "shutdown"]


@needs_fork
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_forked_child_that_recorded_nothing_leaves_the_exporter_alone() -> None:
    """The exporter of a child that has used none is its parent's, and the parent shuts it down."""
    exporter = HangingExporter("none")
    processor = EmbeddedProcessor(exporter, tracer=LongestStepTracer())
    child = os.fork()
    if child == 0:
        processor.shutdown()
        os._exit(len(exporter.calls))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    processor.shutdown()

    assert (code, exporter.calls) == (0, ["force_flush", "shutdown"])
