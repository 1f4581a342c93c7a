"""Which verdicts of a worker count as runs: the first on each, whenever it comes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from tests.collector.fakes import SlowTracer, run
from tests.collector.working import MemorySink, Working, until, verdicts, working


def told_runs(one: Working) -> Counter[tuple[str, ...]]:
    """Give the runs that the worker tells of, by outcome, verdict and tracer."""
    return +Counter({tuple(labels): number for *labels, number in one.worker._message()["runs"]})


def test_a_run_judged_again_is_one_run(tmp_path: Path) -> None:
    """A late span has its run judged again: two verdicts, one run."""
    sink = MemorySink()
    late = replace(run(1)[1], span_id="0" * 15 + "1", name="late", start_ns=0, end_ns=0)
    with working(tmp_path, sink) as one:
        one.take(run(1))
        until(lambda: sink.traces)
        one.take([late])
        until(lambda: len(sink.traces) == 3)
        found, counts = told_runs(one), one.counts

    assert found == {("unknown", "looks failed", "first-step"): 1}
    assert (counts["runs_attributed"], counts["revisions"]) == (2, 1)


def test_a_run_judged_past_its_deadline_is_a_run(tmp_path: Path) -> None:
    """Its first verdict comes after its spans went on, and counts all the same."""
    sink, tracer = MemorySink(), SlowTracer()
    with working(tmp_path, sink, tracer=tracer, deadline_s=0.3) as one:
        one.take(run(1))
        until(lambda: sink.traces)
        before = told_runs(one)
        tracer.go.set()
        until(lambda: verdicts(sink))
        found = told_runs(one)

    assert (before, found) == (Counter(), Counter({("unknown", "looks failed", "first-step"): 1}))
