"""How fast the embedded tracers are, from spans and from rebuilt traces.

    scripts/bench tracer [--quick] [--runs N] [--data FILE] [--json]

Runs are drawn evenly from AEGIS's validation file where it is there, else made up. Workers use one thread each, as
those of `blamespan analyze`.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import click
from tests.benchmarks import tracer_work
from tests.benchmarks.machine import describe, versions
from tests.benchmarks.offline_archives import runs as made_up

from blamespan.trace import MessageActionTrace

ROOT = Path(__file__).parents[2]
TRACERS = ("lexical", "checks", "auto")

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


@dataclass(frozen=True, slots=True)
class Figure:
    """How fast one tracer is.

    Attributes:
        tracer: Its name.
        begins: What it begins with: `spans` or `traces`.
        processes: How many share the runs.
        runs: How many a round attributes.
        per_s: Runs in a second, of each round, ascending.
        cpu_ms: Processor time of all processes for a run, the least of the rounds: on a busy machine it still compares.
    """

    tracer: str
    begins: str
    processes: int
    runs: int
    per_s: tuple[float, ...]
    cpu_ms: float


def main() -> None:
    parser = argparse.ArgumentParser("scripts/bench tracer", description="How fast the embedded tracers are.")
    parser.add_argument("--quick", action="store_true", help="few runs, one round")
    parser.add_argument("--runs", type=int, metavar="N", help="how many (300; quick: 60)")
    parser.add_argument("--data", type=Path, metavar="FILE", help="recorded runs, in any format that is imported")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    arguments = parser.parse_args()
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    count = arguments.runs or (60 if arguments.quick else 300)
    source, traces = _runs(arguments.data, count)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "runs.pickle"
        path.write_bytes(pickle.dumps(traces))
        figures = list(_measured(path, len(traces), rounds=1 if arguments.quick else 3))
    about = {"machine": describe(), "versions": versions(("numpy", "blamespan")), "runs": source}
    document = about | {"figures": list(map(asdict, figures))}
    click.echo(json.dumps(document, indent=2) if arguments.json else _table(source, figures))


def _data() -> Path:
    """Name the folder of recorded runs."""
    named = os.environ.get("BLAMESPAN_TEST_DATA")
    return Path(named) if named else ROOT.parent / "shared" / "data"


def _runs(data: Path | None, count: int) -> tuple[str, list[MessageActionTrace]]:
    """Draw runs evenly from a file; say which they are."""
    path = data or _data() / "aegis" / "validation.jsonl.xz"
    if data is None and not path.is_file():
        traces = list(made_up(count))
        return _described("made up", traces), traces
    from blamespan_lab.recorded_runs import read_recorded

    every = [run.trace for run in read_recorded(path)]
    traces = every[:: max(1, len(every) // count)][:count]
    return _described(path.name, traces), traces


def _described(name: str, traces: Sequence[MessageActionTrace]) -> str:
    steps = statistics.median(len(trace.steps) for trace in traces)
    chars = statistics.median(sum(len(step.content) for step in trace.steps) for trace in traces)
    return f"{len(traces)} of {name}, median {steps:g} steps, {chars:,.0f} characters"


def _measured(path: Path, n_runs: int, *, rounds: int) -> Iterator[Figure]:
    for tracer in TRACERS:
        for processes in (1, 2):
            yield from _of_tracer(path, n_runs, tracer, processes, rounds)


def _of_tracer(path: Path, n_runs: int, tracer: str, processes: int, rounds: int) -> Iterator[Figure]:
    click.echo(f"{tracer}, {processes} processes", err=True)
    with _workers(path, tracer, processes) as pool:
        for begins in ("spans", "traces"):
            shares = [(place, processes, begins == "spans") for place in range(processes)]
            done = [list(pool.map(tracer_work.throughput, shares)) for _ in range(rounds + 1)][1:]  # the first warms up
            per_s = [n_runs / (max(each.end_s for each in one) - min(each.start_s for each in one)) for one in done]
            yield Figure(
                tracer,
                begins,
                processes,
                n_runs,
                tuple(sorted(per_s)),
                min(1_000 * sum(each.cpu_s for each in one) / n_runs for one in done),
            )


def _workers(path: Path, tracer: str, processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(processes, get_context("spawn"), tracer_work.begin, (path, tracer))


def _table(source: str, figures: Sequence[Figure]) -> str:
    lines = [
        ", ".join(f"{key} {value}" for key, value in describe().items()),
        source,
        "",
        "| tracer | from | processes | runs/s (min to max) | rounds | CPU ms |",
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.tracer} | {one.begins} | {one.processes} | {statistics.median(one.per_s):,.0f} "
        f"({one.per_s[0]:,.0f} to {one.per_s[-1]:,.0f}) | {len(one.per_s)} | {one.cpu_ms:.1f} |"
        for one in figures
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
