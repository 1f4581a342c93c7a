"""What `bench_tracer` measures, in worker processes: a tracer on runs, from spans or from rebuilt traces."""

from __future__ import annotations

import pickle  # what the parent wrote for us
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.rebuild import rebuild
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


def _tracer() -> Tracer:
    return cast(Tracer, _state["tracer"])
