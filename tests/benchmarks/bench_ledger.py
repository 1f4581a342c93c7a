"""What the ledger and the bundled checks cost on runs dense in values, and on recorded ones: CPU seconds and memory.

    scripts/bench ledger [--quick] [--data FILE ...] [--json]

Each figure is of a process of its own, so that its peak of memory is that of one run.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import click
from tests.benchmarks.dense_runs import make_dense_run
from tests.benchmarks.machine import describe

from blamespan.trace import MessageActionTrace

_PARTS = "ledger", "provenance", "checks"
_BYTES_OF_MAXRSS = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True, slots=True)
class Figure:
    """What one part costs.

    Attributes:
        part: Which: the ledger, the answer's provenance with it, or the bundled checks.
        runs: Of what.
        n_runs: How many they are.
        n_steps: Steps of all of them.
        n_chars: Characters of these.
        cpu_s: Seconds of the processor.
        peak_mb: Most memory of the process, and
        before_mb: of what it had before: the interpreter, modules and the runs.
    """

    part: str
    runs: str
    n_runs: int
    n_steps: int
    n_chars: int
    cpu_s: float
    peak_mb: float
    before_mb: float


def measure(part: str, n_steps: int, paths: Sequence[str]) -> Figure:
    """Measure one part on a dense run of so many steps, or on the runs of files, in a fresh process."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(_measure, part, n_steps, paths).result()


def _measure(part: str, n_steps: int, paths: Sequence[str]) -> Figure:
    from blamespan_tracer.checks import CONTRACTS, apply_checks
    from blamespan_tracer.ledger import read_ledger
    from blamespan_tracer.ledger.provenance import trace_answer

    traces = _read(paths) if paths else [make_dense_run(n_steps)]
    before_mb, begun = _peak_mb(), time.process_time()
    for trace in traces:
        if part == "ledger":
            read_ledger(trace)
        elif part == "provenance":
            trace_answer(trace)
        else:
            apply_checks(CONTRACTS, trace)
    cpu_s = time.process_time() - begun
    n_chars = sum(len(step.content) for trace in traces for step in trace.steps)
    runs = ", ".join(Path(path).name for path in paths) or "dense in identifiers"
    n_all = sum(len(trace.steps) for trace in traces)
    return Figure(part, runs, len(traces), n_all, n_chars, cpu_s, _peak_mb(), before_mb)


def _read(paths: Sequence[str]) -> list[MessageActionTrace]:
    from blamespan_lab.recorded_runs import read_recorded

    return [run.trace for path in paths for run in read_recorded(path)]


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _BYTES_OF_MAXRSS / 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser("scripts/bench ledger", description="What the ledger and the checks cost.")
    parser.add_argument("--quick", action="store_true", help="no run of 10,000 steps")
    parser.add_argument("--steps", type=int, nargs="+", metavar="N", help="of the dense runs (100 1000 10000)")
    parser.add_argument("--parts", nargs="+", choices=_PARTS, default=list(_PARTS))
    parser.add_argument("--data", nargs="+", default=[], metavar="FILE", help="recorded runs, in any format read")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    arguments = parser.parse_args()
    sizes = arguments.steps or ([100, 1_000] if arguments.quick else [100, 1_000, 10_000])
    given = [(size, ()) for size in sizes] + ([(0, arguments.data)] if arguments.data else [])
    figures = [measure(part, size, paths) for size, paths in given for part in arguments.parts]
    if arguments.json:
        click.echo(json.dumps({"machine": describe(), "figures": list(map(asdict, figures))}, indent=2))
        return
    click.echo(
        "| part | runs | n | steps | MB of text | CPU s | peak MB | before, MB |\n|---|---|---|---|---|---|---|---|"
    )
    for one in figures:
        click.echo(
            f"| {one.part} | {one.runs} | {one.n_runs} | {one.n_steps:,} | {one.n_chars / 1e6:.2f} | {one.cpu_s:.2f} | "
            f"{one.peak_mb:,.0f} | {one.before_mb:,.0f} |"
        )


if __name__ == "__main__":
    main()
