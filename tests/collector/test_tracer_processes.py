"""A tracer in processes of its own gives the same verdicts, and takes nothing down with it that it did not before."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from blamespan.errors import ConfigError, TracerUnavailable
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_collector.judging.large_runs import LargeRunsTracer
from blamespan_collector.judging.processes import TracerProcesses
from blamespan_collector.judging.scorer import InFlight
from blamespan_collector.settings import CollectorSettings
from blamespan_collector.worker.main import Worker
from tests.collector.fakes import FirstStepTracer, run
from tests.collector.working import MemorySink, until, working

pytestmark = pytest.mark.usefixtures("installed_tracers")


@contextmanager
def processes(name: str, count: int) -> Iterator[TracerProcesses]:
    tracer = TracerProcesses(name, count)
    try:
        yield tracer
    finally:
        tracer.close()


def asking(task: str, count: int = 1) -> list[MessageActionTrace]:
    steps = tuple(Step(index, f"{index + 1:016x}", "agent", content="12 + 30 = 43") for index in range(2))
    agents = (Agent("agent"),)
    return [MessageActionTrace(f"{n + 1:032x}", task=task, steps=steps, agents=agents) for n in range(count)]


def test_verdicts_are_those_of_one_process_in_order() -> None:
    """However many share a batch, and also where there are fewer runs than processes."""
    with processes("first-step", 3) as tracer:
        assert tracer.identity == FirstStepTracer.identity
        for runs in (0, 1, 2, 7):
            traces = asking("Add 12 and 30.", runs)
            assert tracer.attribute(traces) == FirstStepTracer().attribute(traces)


def test_what_a_tracer_prints_and_raises_spoils_no_verdict() -> None:
    """A line on its standard output is no answer; an error names itself, and the next batch is answered."""
    with processes("odd", 2) as tracer:
        assert len(tracer.attribute(asking("print", 3))) == 3
        with pytest.raises(TracerUnavailable, match="cannot read"):
            tracer.attribute([*asking("add"), *asking("poison")])
        (verdict,) = tracer.attribute(asking("add"))
        assert verdict.decisive_step == 0


def test_tracer_that_is_not_there_is_refused() -> None:
    """As it is in one process."""
    with pytest.raises(ConfigError, match="nobody"):
        TracerProcesses("nobody", 2)


def test_run_that_takes_a_process_down_is_remembered(tmp_path: Path) -> None:
    """The worker ends as if the run had taken it down itself, and the next one knows which runs were being judged."""
    with processes("odd", 2) as tracer, working(tmp_path, MemorySink(), tracer=tracer, stop_s=0) as one:
        one.take(run(1, task="end"))
        until(lambda: one.failure)

    assert isinstance(one.failure[0], SystemExit)
    assert InFlight(tmp_path / "attributing").read() == [bytes.fromhex(run(1)[0].trace_id)]


def test_collector_that_is_told_so_judges_in_processes(tmp_path: Path) -> None:
    """What goes on is what one process says, and the processes end with the worker."""
    settings = CollectorSettings(journal=tmp_path, out="-", tracer="first-step", tracer_processes=2)
    worker = Worker(settings, sinks=[MemorySink()])
    tracer = worker._tracer
    assert isinstance(tracer, TracerProcesses)
    assert tracer.attribute(asking("add")) == FirstStepTracer().attribute(asking("add"))

    worker.close()
    assert [process.returncode for process in tracer._processes] == [0, 0]


@contextmanager
def for_large_runs(max_s: float = 60.0) -> Iterator[LargeRunsTracer]:
    tracer = LargeRunsTracer("odd", FirstStepTracer.identity, max_s)
    try:
        yield tracer
    finally:
        tracer.close()


def pids_of_children() -> set[int]:
    """List the processes that this one started."""
    return {child.pid for child in psutil.Process().children()}


def test_tracer_of_large_runs_is_there_only_while_it_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process before the first run, one that yields for several, none when there was nothing to do for a while."""
    monkeypatch.setattr("blamespan_collector.judging.large_runs._REST_AFTER_S", 0.3)
    before = pids_of_children()
    with for_large_runs() as tracer:
        assert not pids_of_children() - before
        [verdict] = tracer.attribute(asking("add"))
        [pid] = pids_of_children() - before
        tracer.attribute(asking("add"))

        assert verdict.decisive_step == 0
        assert pids_of_children() - before == {pid}
        assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5
        until(lambda: not pids_of_children() - before)
        assert len(tracer.attribute(asking("add"))) == 1


@pytest.mark.parametrize(("task", "max_s"), [("end", 60.0), ("hang", 0.3)])
def test_large_run_that_ends_its_process_spoils_no_other(task: str, max_s: float) -> None:
    """It goes without a verdict, ended or too slow; the next one has a process again."""
    with for_large_runs(max_s) as tracer:
        with pytest.raises(TracerUnavailable, match="a process that ended with the run"):
            tracer.attribute(asking(task))

        assert len(tracer.attribute(asking("add"))) == 1


def test_worker_does_not_wait_for_a_large_run_when_it_ends() -> None:
    """Closed in the middle of a run, the tracer ends at once and starts no process any more."""
    errors: list[BaseException] = []
    with for_large_runs() as tracer:
        tracer.attribute(asking("add"))

        def hang() -> None:
            try:
                tracer.attribute(asking("hang"))
            except TracerUnavailable as error:
                errors.append(error)

        thread = threading.Thread(target=hang)
        thread.start()
        time.sleep(0.3)
        tracer.close()
        thread.join(10)
        with pytest.raises(TracerUnavailable, match="the collector ends"):
            tracer.attribute(asking("add"))

    assert len(errors) == 1
