"""The core of every line, live or offline: the spans of a trace in, the same spans with verdicts out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from blamespan.annotate import annotate
from blamespan.attribution import Attribution
from blamespan.errors import MalformedTrace
from blamespan.rebuilding.continuing import WAITS, earlier_parts, is_waiting, join_parts, part_of_verdict
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer

__all__ = ["AttributedRun", "annotate_traces", "attribute_runs", "attribute_traces"]


SpansOf: TypeAlias = Callable[[str], Sequence[Span]]
"""Returns the spans of a trace by its id; nothing where they are not to be had."""


@dataclass(frozen=True, slots=True)
class AttributedRun:
    """One run with its verdict.

    Attributes:
        run: Its spans.
        trace: The run, rebuilt.
        attribution: The verdict.
        earlier: The parts before it that it was judged with, the first one first, each with what the verdict says of
            that part; empty where it is no run in parts, or they are gone.
    """

    run: Run
    trace: MessageActionTrace
    attribution: Attribution
    earlier: tuple[AttributedRun, ...] = ()


def attribute_runs(
    runs: Sequence[Run], tracer: Tracer, *, revision: int = 0, spans_of: SpansOf | None = None
) -> list[AttributedRun]:
    """Rebuild and attribute each run, all in one batch; same order.

    A run that waits for an answer gets no verdict, unless its outcome is known. One that goes on from there is judged
    with what was before it.

    Args:
        runs: Of any traces.
        tracer: Who judges.
        revision: Of the verdicts.
        spans_of: Where earlier parts of a run are found, beside *runs* themselves.
    """
    traces = [rebuild_run(run) for run in runs]
    waiting = [is_waiting(run) and trace.outcome == "unknown" for run, trace in zip(runs, traces, strict=True)]
    find = _among(runs, spans_of)
    earlier = [[] if waits else earlier_parts(run, find) for run, waits in zip(runs, waiting, strict=True)]
    parts = [[*map(rebuild_run, before), trace] for before, trace in zip(earlier, traces, strict=True)]
    asked = [_joined(of_run) for of_run, waits in zip(parts, waiting, strict=True) if not waits]
    verdicts = iter(tracer.attribute(asked) if asked else [])
    judged: list[AttributedRun] = []
    for run, before, of_run, waits in zip(runs, earlier, parts, waiting, strict=True):
        verdict = Attribution.abstain(of_run[-1], WAITS, tracer.identity) if waits else next(verdicts)
        verdict = replace(verdict, revision=revision)
        if len(verdict.steps) == len(of_run[-1].steps):
            judged.append(AttributedRun(run, of_run[-1], verdict))  # alone
            continue
        said = [part_of_verdict(verdict, of_run, number) for number in range(len(of_run))]
        sides = tuple(
            AttributedRun(part, trace, replace(of_part, revision=revision + 1))
            for part, trace, of_part in zip(before, of_run, said, strict=False)
        )
        judged.append(AttributedRun(run, of_run[-1], said[-1], sides))
    return judged


def _among(runs: Sequence[Run], spans_of: SpansOf | None) -> SpansOf:
    """Look for the spans of a trace among *runs*, then where *spans_of* does."""
    by_trace: dict[str, list[Span]] = {}
    for run in runs:
        by_trace.setdefault(run.spans[0].trace_id, []).extend(run.spans)

    def find(trace_id: str) -> Sequence[Span]:
        return by_trace.get(trace_id) or (spans_of(trace_id) if spans_of is not None else ())

    return find


def _joined(parts: Sequence[MessageActionTrace]) -> MessageActionTrace:
    """Join the parts of a run; the last one alone where they cannot be joined, as with ids that come again."""
    try:
        return join_parts(parts) if len(parts) > 1 else parts[-1]
    except MalformedTrace:
        return parts[-1]


def attribute_traces(
    traces: Sequence[Sequence[Span]], tracer: Tracer, *, revision: int = 0, spans_of: SpansOf | None = None
) -> list[list[AttributedRun]]:
    """Attribute every run in every trace, in one batch.

    Args:
        traces: Their spans.
        tracer: Who judges.
        revision: Of the verdicts.
        spans_of: Where earlier parts of a run are found, as for `attribute_runs`.

    Returns:
        Per trace its runs, first to start first; empty where it has none.
    """
    runs = [split_runs(spans) for spans in traces]
    every = [run for of_trace in runs for run in of_trace]
    done = iter(attribute_runs(every, tracer, revision=revision, spans_of=spans_of))
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
