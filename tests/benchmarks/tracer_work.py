"""What `bench_tracer` measures, in worker processes: a tracer on runs, from spans or from rebuilt traces."""

from __future__ import annotations

import pickle  # what the parent wrote for us
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import rebuild
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer, load_tracer

_state: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Round:
    """One worker's share of a round: when it began and ended, by the clock of the machine, and its processor time."""

    start_s: float
    end_s: float
    cpu_s: float


def begin(path: Path, tracer: str) -> None:
    """Load runs and tracer, write the runs as spans, and warm up."""
    traces: list[MessageActionTrace] = pickle.loads(path.read_bytes())  # our own
    _state.update(tracer=load_tracer(tracer), traces=traces, spans=[emit(trace) for trace in traces])
    _tracer().attribute(traces[:8])


def throughput(share: tuple[int, int, bool]) -> Round:
    """Attribute every *step*-th run from *start* on, in batches as large as the tracer wants; rebuild them before."""
    start, step, from_spans = share
    given: Sequence[Any] = _state["spans" if from_spans else "traces"][start::step]
    at_once = getattr(_tracer(), "batch_runs", 64)
    begun, cpu_s = time.time(), time.process_time()
    for place in range(0, len(given), at_once):
        some = given[place : place + at_once]
        _tracer().attribute([rebuild(spans) for spans in some] if from_spans else some)
    return Round(begun, time.time(), time.process_time() - cpu_s)


def latencies(from_spans: bool) -> list[float]:
    """Attribute each run alone; give the milliseconds of each."""
    found = []
    for spans, trace in zip(_state["spans"], _state["traces"], strict=True):
        begun = time.perf_counter()
        _tracer().attribute([rebuild(spans) if from_spans else trace])
        found.append(1_000 * (time.perf_counter() - begun))
    return found


def parts(_: None = None) -> dict[str, float]:
    """Measure what the network's verdicts are made of, one after the other: CPU milliseconds a run."""
    from blamespan_tracer.alternatives.features import in_batches, read_batch
    from blamespan_tracer.alternatives.network.inputs import read_runs
    from blamespan_tracer.alternatives.network.representation import analyse, represent
    from blamespan_tracer.alternatives.network.step_features import step_features
    from blamespan_tracer.alternatives.network.tracer import NetworkTracer
    from blamespan_tracer.checks import CHECKS, apply_checks

    tracer = cast(NetworkTracer, _state["tracer"])
    traces: list[MessageActionTrace] = _state["traces"]
    spans: list[list[Span]] = _state["spans"]
    found: dict[str, float] = {}

    def timed(name: str, work: Callable[[], Any]) -> Any:
        begun = time.process_time()
        done = work()
        found[name] = 1_000 * (time.process_time() - begun) / len(traces)
        return done

    timed("rebuild", lambda: [rebuild(each) for each in spans])
    read = timed("words", lambda: [run for batch in in_batches(traces) for run in read_batch(batch)])
    timed("lexicon", lambda: tracer.lexicon.score_all([agent for run in read for agent in run]))
    analyses = timed("analysis", lambda: [analyse(trace) for trace in traces])
    timed("representation", lambda: [(represent(run.trace, run), step_features(run)) for run in analyses])
    timed("checks", lambda: [apply_checks(CHECKS, trace) for trace in traces])
    runs = timed(
        "all reading", lambda: read_runs(traces, tracer.lexicon, tracer.network.vocabulary, tracer.network.features)
    )
    timed("forward", lambda: tracer.predict([run for run, _ in runs]))
    timed("trace to verdict", lambda: tracer.attribute(traces))
    found["evidence and verdict"] = found["trace to verdict"] - found["all reading"] - found["forward"]
    return {name: found[name] for name in PARTS}


PARTS = (
    *("rebuild", "words", "lexicon", "analysis", "representation", "checks"),
    *("all reading", "forward", "evidence and verdict", "trace to verdict"),
)


def _tracer() -> Tracer:
    return cast(Tracer, _state["tracer"])
