"""All engines give the same outcomes in the same order; what dies or raises costs itself and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import psutil
import pytest

from blamespan.analysis.engines import local
from blamespan.analysis.engines.local import LocalEngine, tracer_for_others
from blamespan.analysis.engines.worker import TracerOf
from blamespan.analysis.outcomes import AttributedOutcome, Finished, Outcome, Wanted
from blamespan.analysis.sources import Piece, pieces
from blamespan.cores import THREADS, cores, keep_to_one_thread
from blamespan.errors import ConfigError, TracerUnavailable, UnreadableInput
from blamespan.tracers import Tracer
from tests.sdk.analysis.archives import archive
from tests.sdk.analysis.failing_tracers import BatchingTracer, DyingTracer, PickyTracer
from tests.sdk.fixed_tracer import LongestStepTracer

ROWS = Wanted()
EVERYTHING = Wanted(spans=True, whole=None)


def outcomes(tracer: Tracer, found: Iterable[Piece], processes: int | None, wanted: Wanted = ROWS) -> list[Outcome]:
    return list(LocalEngine(tracer, tracer_for_others(tracer), processes).outcomes(found, wanted))


def said(found: Iterable[Outcome]) -> list[object]:
    """What outcomes say, comparable: errors have no equality."""
    return [str(item) if isinstance(item, UnreadableInput) else item for item in found]


def tasks(found: Iterable[Outcome]) -> list[str]:
    return [item.result.run.trace.task for item in found if isinstance(item, AttributedOutcome) and item.result]


def children() -> set[psutil.Process]:
    """List this process's children; others' tests leave some, such as multiprocessing's trackers."""
    return set(psutil.Process().children())


def test_processes_change_nothing(tmp_path: Path) -> None:
    """Rows, spans, errors and their order are the same from one process and from several, bit for bit."""
    folder = archive(tmp_path / "a", [range(1, 9), range(9, 10), range(10, 30)])
    (folder / "001b.jsonl").write_text("torn {")
    found = list(pieces([str(folder)]))

    alone = outcomes(LongestStepTracer(), found, 1, EVERYTHING)

    assert len([item for item in alone if isinstance(item, AttributedOutcome)]) == 29
    assert said(outcomes(LongestStepTracer(), found, 2, EVERYTHING)) == said(alone)
    assert said(outcomes(LongestStepTracer(), iter(found), 2, EVERYTHING)) == said(alone)


def test_one_large_file_is_attributed_in_several_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be read in parts is read here and attributed elsewhere, in the same order."""
    monkeypatch.setattr(local, "_WORTH_A_PROCESS_BATCHES", 1)
    folder = archive(tmp_path / "a", [range(1, 200)])
    found = list(pieces([str(folder)]))
    before, pids = children(), set[psutil.Process]()

    engine = LocalEngine(LongestStepTracer(), tracer_for_others(LongestStepTracer()), 2)
    several = []
    with closing(engine.outcomes(found, EVERYTHING)) as coming:
        for item in coming:
            several.append(item)
            if len(pids) < 2:
                pids |= children() - before

    assert said(several) == said(outcomes(LongestStepTracer(), found, 1, EVERYTHING))
    assert len(pids) == 2


def test_run_that_the_tracer_raises_on_costs_itself(tmp_path: Path) -> None:
    """The others of its batch get their verdicts; it gets an abstention that says what was raised."""
    folder = archive(tmp_path / "a", [range(1, 20)])

    found = [
        item
        for item in outcomes(PickyTracer("task 7"), pieces([str(folder)]), 1)
        if isinstance(item, AttributedOutcome)
    ]

    assert [item.trace_id for item in found if item.error] == [f"{7:032x}"]
    assert "IndexError: cannot think about 'task 7'" in str(found[6].error)
    assert len(found) == 19


def test_worker_killed_once_loses_nothing(tmp_path: Path) -> None:
    """Its work is done again by another."""
    folder = archive(tmp_path / "a", [range(1, 5), range(5, 9), range(9, 13)])
    found = list(pieces([str(folder)]))
    dying = DyingTracer("task 6", tmp_path / "grave")

    survived = outcomes(dying, found, 2)

    assert (tmp_path / "grave").exists()
    assert said(survived) == said(outcomes(LongestStepTracer(), found, 1))


def test_piece_that_kills_its_workers_is_named(tmp_path: Path) -> None:
    """After the second death it is left out, and the rest goes on."""
    folder = archive(tmp_path / "a", [range(1, 5), range(5, 9), range(9, 13)])

    found = outcomes(DyingTracer("task 6"), list(pieces([str(folder)])), 2, Wanted(whole=None))

    [error] = [item for item in found if isinstance(item, UnreadableInput)]
    assert "001.jsonl: expected to read and attribute it, got a worker process that was killed by signal 9" in str(
        error
    )
    assert tasks(found) == [f"task {number}" for number in (*range(1, 5), *range(9, 13))]
    assert len([item for item in found if isinstance(item, Finished)]) == 3


def test_batch_that_kills_its_workers_is_told_run_by_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large file only the batch is lost, and every run of it says so."""
    monkeypatch.setattr(local, "_WORTH_A_PROCESS_BATCHES", 1)
    folder = archive(tmp_path / "a", [range(1, 80)])

    found = outcomes(DyingTracer("task 70"), list(pieces([str(folder)])), 2)

    failed = [int(item.trace_id, 16) for item in found if isinstance(item, AttributedOutcome) and item.error]
    assert failed == list(range(65, 80))
    assert len(found) == 80


def test_tracer_on_an_accelerator_stays_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others read for it, and it gets the batches it asks for."""
    monkeypatch.setattr(local, "_WORTH_A_PROCESS_BYTES", 0)
    folder = archive(tmp_path / "a", [range(1, 4), range(4, 8), range(8, 13)])
    tracer = BatchingTracer()

    found = outcomes(tracer, list(pieces([str(folder)])), 2, Wanted(whole=None))

    assert tracer.batches == [5, 5, 2]
    assert tasks(found) == [f"task {number}" for number in range(1, 13)]


@dataclass
class Worked:
    """A worker of an analysis: the process, and its variables that say how many threads compute."""

    process: psutil.Process
    threads: dict[str, str]


@pytest.fixture(scope="module")
def abandoned(tmp_path_factory: pytest.TempPathFactory) -> list[Worked]:
    """Give the workers of an analysis that nobody read to its end, where nobody said how many threads there are."""
    folder = archive(tmp_path_factory.mktemp("abandoned") / "a", [range(1, 30), range(30, 60), range(60, 90)])
    before = children()
    engine = LocalEngine(LongestStepTracer(), tracer_for_others(LongestStepTracer()), 2)
    with mock.patch.dict(os.environ):
        for name in THREADS:
            os.environ.pop(name, None)
        keep_to_one_thread()  # which is not the user's word
        with closing(engine.outcomes(list(pieces([str(folder)])), EVERYTHING)) as coming:
            next(coming)
            found = [(worker, worker.environ()) for worker in children() - before]
    return [Worked(worker, {name: said[name] for name in THREADS if name in said}) for worker, said in found]


def test_abandoned_analysis_leaves_no_process(abandoned: list[Worked]) -> None:
    """Whoever stops reading stops the workers, whatever they were doing."""
    assert abandoned
    assert not [worker for worker in abandoned if worker.process.is_running()]


def test_workers_share_the_cores(abandoned: list[Worked]) -> None:
    """Each computes with its share of the threads."""
    shared = {name: "1" if name == "OPENBLAS_NUM_THREADS" else str(max(1, cores() // 2)) for name in THREADS}

    assert [worker.threads for worker in abandoned] == [shared] * len(abandoned)


def test_tracer_with_other_settings_is_no_worker(tmp_path: Path) -> None:
    """On another machine, or in a process told otherwise, a tracer by the same name may raise other alarms."""
    with pytest.raises(TracerUnavailable, match=r"settings \{'alarm': 0.5\}, got \{\}. Set the same BLAMESPAN_"):
        TracerOf("longest", LongestStepTracer(), "", {"alarm": 0.5}).load()


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    """kill -9 of the program leaves no orphan behind."""
    folder = archive(tmp_path / "a", [range(1, 30), range(30, 60)])
    program = f"""
import sys
from blamespan.analysis.analyze import analyze
from tests.sdk.fixed_tracer import LongestStepTracer
found = analyze({str(folder)!r}, tracer=LongestStepTracer(), processes=2)
next(found)
print("going", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stdin=subprocess.PIPE, cwd=Path(__file__).parents[3]
    ) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == b"going\n"
        children = psutil.Process(parent.pid).children()
        parent.kill()

    _, alive = psutil.wait_procs(children, timeout=20)
    assert children
    assert not alive


def test_tracer_that_cannot_be_sent_works_here(tmp_path: Path) -> None:
    """Its runs are attributed in this process; asking for more of them says why not."""

    class Closure(LongestStepTracer):
        """Cannot be pickled: its class has no name to be found by."""

    folder = archive(tmp_path / "a", [range(1, 4)])

    found = outcomes(Closure(), list(pieces([str(folder)])), None)

    assert len(found) == 4
    with pytest.raises(ConfigError, match="expected a tracer that other processes can load, to use 2 of them"):
        outcomes(Closure(), [], 2)


def test_importer_that_raises_costs_its_piece(tmp_path: Path) -> None:
    """Whatever a plugin raises is an error that names the piece."""
    folder = archive(tmp_path / "a", [range(1, 3)])
    broken = Piece("broken.jsonl", 3, _raises)

    found = outcomes(LongestStepTracer(), [broken, *pieces([str(folder)])], 1)

    assert "broken.jsonl: expected recorded runs, got ZeroDivisionError from its importer" in str(found[0])
    assert len(found) == 5


def _raises(with_spans: bool) -> object:
    raise ZeroDivisionError("by zero")


@pytest.mark.slow
def test_interrupt_is_clean(tmp_path: Path) -> None:
    """Ctrl-C ends program and workers within seconds, without a traceback."""
    folder = archive(tmp_path / "a", [range(1, 1_500), range(1_500, 3_000)])
    arguments = ["analyze", str(folder), "--json", "--processes", "2"]
    heard = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"  # else deaf in the background
    code = f"{heard}; import sys; sys.argv = ['blamespan', *{arguments!r}]; from blamespan.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0
    ) as program:
        assert program.stdout
        assert program.stderr
        program.stdout.readline()
        children = psutil.Process(program.pid).children()
        start_s = time.monotonic()
        os.killpg(program.pid, signal.SIGINT)  # as a terminal does
        _, told = program.communicate(timeout=60)

    assert program.returncode == 1
    assert b"Traceback" not in told
    assert b"interrupted after" in told
    assert time.monotonic() - start_s < 30
    assert not [child for child in children if child.is_running()]
