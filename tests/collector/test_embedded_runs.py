"""In process: an outcome that comes later is judged, runs are kept on this machine, and stderr says what failed."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from blamespan import conventions as words
from blamespan.analysis.sources import runs_in
from blamespan.attribution import Attribution, TracerIdentity
from blamespan.cli import cli
from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.pipeline import AttributedRun
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.runs import split_runs
from blamespan.trace import MessageActionTrace
from blamespan_collector.embedded import EmbeddedProcessor, embedded_processor
from blamespan_collector.exported_runs import ExportedRuns
from blamespan_collector.local_runs import LocalRuns
from blamespan_collector.page import page_application
from blamespan_collector.run_notices import RunNotices
from blamespan_collector.settings import Limits, ListenAddress
from blamespan_collector.store import Retention, RunQuery, RunStore, RunWriter
from blamespan_collector.stored_trace import stored_trace
from tests.collector.embedded_program import EmbeddedProgram, run_python
from tests.collector.paging import stored
from tests.sdk.builders import small_run


class OutcomeTracer:
    """Blames the last step of runs that are known to have failed, and the first one of others, not surely."""

    identity = TracerIdentity("outcome", "1")

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Judge each."""
        return [self._one(run) for run in traces]

    def _one(self, run: MessageActionTrace) -> Attribution:
        shares = [0.0] * len(run.steps)
        has_failed = run.outcome == "failed"
        shares[-1 if has_failed else 0] = 1.0
        return Attribution.of(run, shares, failure_score=0.9 if has_failed else 0.1, tracer=self.identity)


@pytest.fixture
def stopped() -> Iterator[list[EmbeddedProcessor]]:
    """Shut down what a test puts into it."""
    made: list[EmbeddedProcessor] = []
    yield made
    for processor in made:
        processor.shutdown()


def judging(stopped: list[EmbeddedProcessor], **options: Any) -> EmbeddedProgram:
    """Make a program that is judged within it."""
    exporter = InMemorySpanExporter()
    settings: dict[str, Any] = {"tracer": OutcomeTracer(), "limits": Limits(quiet_s=0), **options}
    stopped.append(EmbeddedProcessor(exporter, **settings))
    return EmbeddedProgram(stopped[-1], exporter)


@pytest.fixture
def program(stopped: list[EmbeddedProcessor], tmp_path: Path) -> EmbeddedProgram:
    """Make a program that keeps its runs in `runs.db`."""
    kept = LocalRuns(tmp_path / "runs.db")
    notices = RunNotices(lambda trace_id: f"blamespan show {trace_id[:4]}", "blamespan open")
    return judging(stopped, limits=Limits(quiet_s=0, idle_s=0.3), local_runs=kept, notices=notices)


def test_outcome_that_comes_later_is_judged_once(program: EmbeddedProgram, tmp_path: Path) -> None:
    """A later verdict is a new span below the blamed one, as the collector's; the outcome's span goes out once."""
    run = program.run()
    program.exported(3)
    program.tell(run, "failed")
    program.exported(5)
    program.tell(run, "failed", "said again")
    program.exported(6)
    program.processor.shutdown()
    spans = program.exporter.get_finished_spans()
    names = [span.name for span in spans]
    verdict = spans[names.index("verdict coder")]
    coder = spans[names.index("invoke_agent coder")]

    assert sorted(names) == sorted(
        ["invoke_agent planner", "invoke_agent coder", "invoke_workflow", "run_outcome", "run_outcome", "verdict coder"]
    )
    assert verdict.parent is not None
    assert coder.context is not None
    assert verdict.parent.span_id == coder.context.span_id
    assert (verdict.attributes or {})[words.REVISION] == 1
    assert words.BLAME_RANK not in (coder.attributes or {})
    [summary] = RunStore(tmp_path / "runs.db").search()
    assert (summary.outcome, summary.blamed_agent, summary.revision, summary.spans) == ("failed", "coder", 1, 6)


def test_changed_mind_is_judged_again(program: EmbeddedProgram) -> None:
    """Each outcome that changes the verdict makes the next revision."""
    run = program.run()
    program.exported(3)
    for outcome, count in (("failed", 5), ("succeeded", 7), ("failed", 9)):
        program.tell(run, outcome)
        program.exported(count)
    program.processor.shutdown()
    verdicts = [span for span in program.exporter.get_finished_spans() if span.name.startswith("verdict")]

    assert [(span.name, (span.attributes or {})[words.REVISION]) for span in verdicts] == [
        ("verdict coder", 1),
        ("verdict", 2),
        ("verdict coder", 3),
    ]


def test_outcome_that_comes_in_time_is_part_of_the_verdict(stopped: list[EmbeddedProcessor]) -> None:
    """Told while the tracer is still being loaded, it stands in the one verdict, on the run's own spans."""
    gate = threading.Event()

    class Late(OutcomeTracer):
        def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
            gate.wait(20)
            return super().attribute(traces)

    program = judging(stopped, tracer=Late())
    program.run("one that is being judged")
    time.sleep(0.1)
    program.tell(program.run(), "failed")
    time.sleep(0.1)
    gate.set()
    program.exported(7)
    program.processor.shutdown()
    roots = [span for span in program.exporter.get_finished_spans() if span.name == "invoke_workflow"]

    says = [root.attributes or {} for root in roots]
    assert [(said[words.VERDICT], said.get(words.BLAME_AGENT)) for said in says] == [
        ("no sign of failure", None),
        ("failed", "coder"),
    ]
    assert len(program.exporter.get_finished_spans()) == 7


def test_what_is_remembered_is_bounded() -> None:
    """Of more than it may hold, the latest traces stay."""
    kept = ExportedRuns(max_bytes=30_000, most=50)
    for number in range(200):
        payload = os.urandom(1_000)
        kept.put(number.to_bytes(16, "big"), [payload], digests=frozenset(), revision=0, is_complete=True)

    assert kept.held_bytes <= 30_000
    assert kept.get((199).to_bytes(16, "big")) is not None
    assert kept.get((100).to_bytes(16, "big")) is None


def test_failed_runs_are_told_on_stderr(program: EmbeddedProgram, capsys: pytest.CaptureFixture[str]) -> None:
    """A line names run, agent, step and how to see it, once; sound runs are counted at exit alone."""
    program.run("fine")
    program.exported(3)
    run = program.run("What is\n\x1b[31m12 * 3?" + " and more" * 20)
    program.exported(6)
    for _ in range(2):
        program.tell(run, "failed", "expected 36")
    program.exported(9)
    program.processor.shutdown()
    trace_id = f"{run.get_span_context().trace_id:032x}"
    lines = capsys.readouterr().err.splitlines()

    assert lines == [
        'blamespan: run "What is [31m12 * 3? and more and more and more and more and…" failed (expected 36): '
        f"coder at step 1. See it: blamespan show {trace_id[:4]}",
        "blamespan: 2 runs, of which 1 failed. See them: blamespan open",
    ]


@pytest.mark.parametrize(
    ("part", "line"),
    [
        (1.0, "failed: checker at step 4"),
        (0.0, "failed: suspects checker at step 4 (no evidence in the run: by where mistakes usually are)"),
    ],
)
def test_suspects_without_evidence_are_no_culprits(part: float, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The line of a run that failed names a culprit where the run shows one, else suspects."""
    trace = replace(small_run(), outcome="failed")
    [run] = split_runs(emit(trace))
    shares = [0.0, 1.0, 0.0, 2.0, 5.0]
    verdict = Attribution.of(
        trace, shares, failure_score=1, tracer=OutcomeTracer.identity, by_evidence=[part * share for share in shares]
    )

    RunNotices(lambda trace_id: "", "").note_run(AttributedRun(run, trace, verdict))

    assert capsys.readouterr().err.strip().endswith(line)


def test_many_failures_do_not_flood_stderr(program: EmbeddedProgram, capsys: pytest.CaptureFixture[str]) -> None:
    """After some lines only the count goes on."""
    for number in range(30):
        program.tell(program.run(f"task {number}"), "failed")
    program.processor.shutdown()
    lines = capsys.readouterr().err.splitlines()

    assert len(lines) == 22
    assert lines[-1] == "blamespan: 30 runs, of which 30 failed. See them: blamespan open"


def test_store_that_cannot_be_written_costs_no_span(
    tmp_path: Path, stopped: list[EmbeddedProcessor], caplog: pytest.LogCaptureFixture
) -> None:
    """Runs are exported all the same, and one warning says that they are not kept."""
    (tmp_path / "runs.db").write_text("somebody else's file")
    program = judging(stopped, local_runs=LocalRuns(tmp_path / "runs.db"))
    for _ in range(3):
        program.run()

    assert len(program.exported(9)) == 9
    assert caplog.text.count("runs are not kept on this machine") == 1
    assert (tmp_path / "runs.db").read_text() == "somebody else's file"


def test_several_processes_keep_their_runs_in_one_store(tmp_path: Path) -> None:
    """Programs that write at once lose nothing of each other's."""
    code = """
        import sys
        from pathlib import Path
        from blamespan.rebuilding.emit import emit
        from blamespan_collector.wire.raw_spans import encode, request
        from blamespan.trace import Agent, MessageActionTrace, Step
        from blamespan_collector.local_runs import LocalRuns
        kept = LocalRuns(Path(sys.argv[1]))
        for number in range(20):
            step = Step(0, f"{number + 1:016x}", "solver", content="x" * 2_000)
            run = MessageActionTrace(f"{sys.argv[2]}{number + 1:031x}", "q", (step,), (Agent("solver"),))
            kept.keep([request(encode(emit(run)))])
        kept.close()
    """
    programs = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "runs.db"), digit])
        for digit in "123"
    ]

    assert [one.wait(100) for one in programs] == [0, 0, 0]
    assert len(RunStore(tmp_path / "runs.db").search(RunQuery(limit=100))) == 60


def test_store_is_bounded(tmp_path: Path, program: EmbeddedProgram) -> None:
    """What is too much goes, the first first."""
    kept = LocalRuns(tmp_path / "other.db", Retention(max_bytes=1))
    program.run()
    program.run()
    program.processor.shutdown()
    store = RunStore(tmp_path / "runs.db")
    for summary in store.search():
        stored = store.run(summary.trace_id)
        assert stored is not None
        kept.keep(stored.payloads)
        kept._pruned_s = float("-inf")
    kept.keep([b""])
    kept.close()

    assert len(RunStore(tmp_path / "other.db").search()) == 1


_PROGRAM = """
import sys, time, atexit
import blamespan
began = []
atexit.register(lambda: print("exit", time.monotonic() - began[0] < 5, flush=True))
blamespan.instrument(embedded=True, tracer="lexical", **dict(OPTIONS))
from opentelemetry import trace
from blamespan import conventions as words
tracer = trace.get_tracer("blamespan.autogen")
with tracer.start_as_current_span("invoke_workflow desk", attributes={
    words.OPERATION: words.OPERATION_WORKFLOW, words.WORKFLOW_NAME: "desk", words.RUN_COMPLETE: True,
    words.RUN_OUTCOME: "failed"}):
    for agent in ("planner", "coder"):
        tracer.start_span("invoke_agent", attributes={words.OPERATION: words.OPERATION_AGENT,
            words.AGENT_NAME: agent, words.STEP_CONTENT: "I will skip verification"}).end()
BODY
began.append(time.monotonic())
"""


def run_program(
    tmp_path: Path, body: str = "", options: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a program that judges its own run."""
    code = _PROGRAM.replace("OPTIONS", options).replace("BODY", textwrap.dedent(body))
    return run_python(code, **{"BLAMESPAN_STORE": str(tmp_path / "runs.db")} | environment)


def test_program_without_a_back_end_ends_at_once(tmp_path: Path) -> None:
    """Nobody listens: no retries, no noise but the lines of the runs, which are kept and can be shown."""
    done = run_program(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="")
    [summary] = RunStore(tmp_path / "runs.db").search()
    store = {"BLAMESPAN_STORE": str(tmp_path / "runs.db")}
    shown = CliRunner().invoke(cli, ["show", summary.trace_id[:8]], env=store)

    assert done.stdout == "exit True\n", done.stderr
    failed, counted = done.stderr.splitlines()
    assert failed.startswith("blamespan: run desk failed: ")
    assert failed.endswith(f"See it: blamespan show {summary.trace_id[:12]}")
    assert counted == "blamespan: 1 run, which failed, kept on this machine. See them: blamespan open"
    assert "most to blame" in shown.output


def test_named_back_end_that_is_absent_is_told_once(tmp_path: Path) -> None:
    """Who named a back end is told that nobody listens there, in one line, however many exports there were."""
    body = """
    for _ in range(3):
        with tracer.start_as_current_span("other"):
            pass
        trace.get_tracer_provider().force_flush()
    """
    done = run_program(tmp_path, body, OTEL_EXPORTER_OTLP_ENDPOINT="http://localhost:1")

    assert done.stdout == "exit True\n", done.stderr
    assert done.stderr.count("nobody listens at http://localhost:1: runs are kept on this machine alone") == 1
    assert len(done.stderr.splitlines()) == 3


@pytest.mark.parametrize(("is_quiet", "variable", "lines"), [(True, "", 0), (None, "1", 0), (None, "", 2)])
def test_quiet_program_writes_nothing(
    stopped: list[EmbeddedProcessor],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_quiet: bool | None,
    variable: str,
    lines: int,
) -> None:
    """Told to be quiet, by argument or variable, nothing goes to stderr; the runs are kept."""
    monkeypatch.setenv("BLAMESPAN_QUIET", variable)
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    exporter = InMemorySpanExporter()
    stopped.append(embedded_processor(exporter, tracer_name="checks", quiet=is_quiet))
    program = EmbeddedProgram(stopped[0], exporter)
    program.tell(program.run(), "failed")
    program.processor.shutdown()

    assert len(capsys.readouterr().err.splitlines()) == lines
    assert len(RunStore(tmp_path / "runs.db").search()) == 1


def test_quiet_that_is_no_switch_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that is neither yes nor no is not taken for a no."""
    monkeypatch.setenv("BLAMESPAN_QUIET", "perhaps")
    with pytest.raises(ConfigError, match="BLAMESPAN_QUIET must be true or false, got 'perhaps'"):
        embedded_processor(InMemorySpanExporter())


def test_plain_mode_without_a_back_end_ends_at_once_too() -> None:
    """`instrument()` alone, with nobody listening, says so once and does not retry."""
    code = _PROGRAM.replace('embedded=True, tracer="lexical", **dict(OPTIONS)', "").replace("BODY", "")
    done = run_python(code, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")

    assert done.stdout == "exit True\n"
    assert done.stderr == (
        "nobody listens at http://127.0.0.1:1: spans are dropped until somebody does. "
        "Start one with: blamespan collect\n"
    )


def test_page_beside_a_program_shows_its_runs(tmp_path: Path) -> None:
    """`page=True` serves the kept runs while the program lives, and stderr says where; a forked child does not."""
    body = """
    import os, urllib.request
    trace.get_tracer_provider().force_flush()
    from blamespan_collector.page import serving
    print(urllib.request.urlopen(serving.addresses[0], timeout=20).read().decode().count("planner"))
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    """
    done = run_program(tmp_path, body, "page=True")

    assert int(done.stdout.split()[0]) > 0, done.stderr
    assert done.stderr.splitlines()[0].startswith("blamespan: page of runs at http://127.0.0.1:")
    assert "See it: http://127.0.0.1:" in done.stderr


def test_open_serves_the_kept_runs_until_it_is_ended(tmp_path: Path) -> None:
    """`blamespan open TRACE` prints the address of the run, and serves it."""
    [summary] = stored(tmp_path / "runs.db", emit(small_run())).search()
    command = [sys.executable, "-m", "blamespan", "open", summary.trace_id[:6], "--no-browser"]
    environment = os.environ | {"BLAMESPAN_STORE": str(tmp_path / "runs.db")}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as opened:
        assert opened.stdout is not None
        address = opened.stdout.readline().strip()
        with urllib.request.urlopen(address, timeout=20) as answer:
            page = answer.read().decode()
        opened.send_signal(2)
        opened.wait(20)

    assert address.endswith(f"/run/{summary.trace_id}")
    assert small_run().agents[0].name in page
    assert opened.returncode == 0


def test_open_without_a_store_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing kept yet is an error with the next thing to do."""
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "none yet.db"))
    monkeypatch.setenv("BLAMESPAN_JOURNAL", str(tmp_path / "none"))
    done = CliRunner().invoke(cli, ["open", "--no-browser"])

    assert "expected a store of runs at" in str(done.exception)
    assert "instrument(embedded=True)" in str(done.exception)


def test_slow_back_end_still_gets_its_time(stopped: list[EmbeddedProcessor]) -> None:
    """An exporter that takes its time at exit is waited for."""
    taken: list[str] = []

    class Slow(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            time.sleep(0.5)
            taken.extend(span.name for span in spans)
            return SpanExportResult.SUCCESS

    stopped.append(EmbeddedProcessor(Slow(), tracer=OutcomeTracer(), limits=Limits(quiet_s=0)))
    program = EmbeddedProgram(stopped[0], InMemorySpanExporter())
    program.run()
    program.processor.shutdown()

    assert len(taken) == 3


def test_writer_of_a_store_waits_no_longer_than_told(tmp_path: Path) -> None:
    """A store that another process holds costs a program a moment, never its exit."""
    RunWriter(tmp_path / "runs.db").close()
    writer = RunWriter(tmp_path / "runs.db", busy_s=0.2)

    assert writer._database.execute("PRAGMA busy_timeout").fetchone()[0] == 200
    writer.close()


def test_resumed_run_is_judged_with_what_was_before(tmp_path: Path) -> None:
    """A paused run has no verdict; resumed, both are one run in lists and counts, and blame may fall on the first."""
    pytest.importorskip("langgraph")
    code = """
        import blamespan
        blamespan.instrument(embedded=True)
        from langgraph.checkpoint.memory import InMemorySaver
        from langgraph.graph import START, MessagesState, StateGraph
        from langgraph.types import Command, interrupt
        from opentelemetry import trace
        builder = StateGraph(MessagesState)
        builder.add_node("solver", lambda state: {"messages": [("assistant", "12 * 3 = 35, as anybody can see.")]})
        builder.add_node("ask", lambda state: {"messages": [("assistant", f"{interrupt('Fine?')}: it is 35.")]})
        builder.add_edge(START, "solver")
        builder.add_edge("solver", "ask")
        desk = builder.compile(name="desk", checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": "1"}}
        desk.invoke({"messages": [("user", "What is 12 * 3?")]}, config)
        trace.get_tracer_provider().force_flush()
        desk.invoke(Command(resume="yes"), config)
        trace.get_tracer_provider().force_flush()
        blamespan.record_outcome("failed", "expected 36", result=config)
    """
    store = tmp_path / "runs.db"
    done = run_python(code, BLAMESPAN_STORE=str(store), OTEL_TRACES_EXPORTER="none")
    [second] = RunStore(store).search()
    [first] = [trace for trace in RunStore(store).search(RunQuery(is_run=False)) if trace != second]
    client = TestClient(page_application(RunStore(store), ListenAddress("testserver", 80)))
    pages = {run.trace_id: client.get(f"/run/{run.trace_id}").text for run in (first, second)}

    assert [run.task for run in (first, second)] == ["What is 12 * 3?"] * 2, done.stderr
    assert (first.blamed_agent, first.blamed_step) == ("solver", 0)
    assert (second.blamed_agent, second.outcome, second.abstained) == ("solver", "failed", "")
    assert "<b>Paused.</b> The run was answered." in pages[first.trace_id]
    assert "blamespan: 1 run, which failed" in done.stderr
    assert RunStore(store).count_outcomes() == {"succeeded": 0, "failed": 1, "unknown": 0}
    assert [len(run.trace.steps) for run in stored_trace(first.trace_id[:12], store)] == [3]
    assert [run.trace for run in stored_trace("last", store)] == [
        run.trace for run in runs_in([store]) if isinstance(run, RecordedRun)
    ]
    assert f'href="/run/{second.trace_id}"' in pages[first.trace_id]
    assert f'href="/run/{first.trace_id}"' in pages[second.trace_id]
    assert "Both were judged as one run." in pages[second.trace_id]
    assert f"See it: blamespan show {first.trace_id[:12]}" in done.stderr
