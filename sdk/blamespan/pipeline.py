"""The core of every line, live or offline: the spans of a trace in, the same spans with verdicts out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from blamespan.annotate import annotate
from blamespan.attribution import Attribution
from blamespan.rebuild import rebuild_run
from blamespan.runs import Run, split_runs
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer

__all__ = ["AttributedRun", "annotate_traces", "attribute_runs", "attribute_traces"]


@dataclass(frozen=True, slots=True)
class AttributedRun:
    """One run with its verdict."""

    run: Run
    trace: MessageActionTrace
    attribution: Attribution


def attribute_runs(runs: Sequence[Run], tracer: Tracer, *, revision: int = 0) -> list[AttributedRun]:
    """Rebuild and attribute each run, all in one batch; same order."""
    traces = [rebuild_run(run) for run in runs]
    verdicts = tracer.attribute(traces) if traces else []
    return [
        AttributedRun(run, trace, replace(verdict, revision=revision))
        for run, trace, verdict in zip(runs, traces, verdicts, strict=True)
    ]


def attribute_traces(
    traces: Sequence[Sequence[Span]], tracer: Tracer, *, revision: int = 0
) -> list[list[AttributedRun]]:
    """Attribute every run in every trace, in one batch.

    Returns:
        Per trace its runs, first to start first; empty where it has none.
    """
    runs = [split_runs(spans) for spans in traces]
    done = iter(attribute_runs([run for of_trace in runs for run in of_trace], tracer, revision=revision))
    return [[next(done) for _ in of_trace] for of_trace in runs]


def annotate_traces(traces: Iterable[Iterable[Span]], tracer: Tracer) -> list[list[Span]]:
    """Attribute every run in every trace, in one batch, and write the verdicts onto the spans.

    Returns:
        Per trace its spans in their order. A trace without a run comes back as it was.
    """
    held = [list(spans) for spans in traces]
    done = attribute_traces(held, tracer)
    found: list[list[Span]] = []
    for spans, runs in zip(held, done, strict=True):
        annotated = {span.span_id: span for item in runs for span in annotate(item.run, item.attribution)}
        found.append([annotated.get(span.span_id, span) for span in spans])
    return found
