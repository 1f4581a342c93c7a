"""Measure what a tracer quotes, on failed runs that have a sound twin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from blamespan.attribution import Attribution
from blamespan.importing.recorded import RecordedRun
from blamespan_lab.measuring.metrics import percent
from blamespan_tracer.evidence import sentences_of

__all__ = ["EvidenceFigures", "evaluate_evidence"]

_ALL = 10_000


class EvidenceFigures(TypedDict):
    """How often a quote is of what differs; percent but for `n`.

    `n` decisive steps were found, quoted, and differ from their twin's in some sentences and not in others; `right` is
    how often the quote stands nowhere in the twin's step, `drawn` how often a sentence drawn from the step would.
    """

    n: int
    right: float
    drawn: float


def evaluate_evidence(runs: Sequence[RecordedRun], verdicts: Sequence[Attribution]) -> EvidenceFigures:
    """Hold what is quoted of decisive steps against the same step of the sound twin, which is among *runs*."""
    by_id = {run.trace.trace_id: run for run in runs}
    rights, drawn = [], []
    for run, verdict in zip(runs, verdicts, strict=True):
        decisive = run.origin.decisive if run.origin is not None else None
        twin = by_id.get(run.origin.twin) if run.origin is not None else None
        quote = next((item.quote for item in verdict.evidence if item.index == decisive), None)
        if decisive is None or twin is None or quote is None or verdict.decisive_step != decisive:
            continue
        said = run.trace.steps[decisive]
        same_step = twin.trace.steps[decisive] if decisive < len(twin.trace.steps) else None
        if same_step is None or same_step.agent != said.agent:
            continue
        differs = [sentence not in same_step.content for sentence in sentences_of(said.content, _ALL)]
        if any(differs) and not all(differs):
            rights.append(quote not in same_step.content)
            drawn.append(sum(differs) / len(differs))
    return {"n": len(rights), "right": percent(rights), "drawn": percent(drawn)}
