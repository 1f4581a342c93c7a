"""How often a tracer calls runs failed that did not fail: `blamespan lab evaluate clean`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypedDict

from blamespan.analysis.summary.statistics import wilson
from blamespan.attribution import Attribution
from blamespan.importing.recorded import RecordedRun
from blamespan_lab.statistics import percent


class CleanFigures(TypedDict):
    """Of runs that succeeded: how many there are, how many raised an alarm, in percent, and how many no verdict.

    `false_alarms_ci` is Wilson's 95 % interval: none of 48 does not mean none. `failure_score` is the median over the
    runs with a verdict; None without any.
    """

    tracer: str
    n: int
    false_alarms: float
    false_alarms_ci: list[float]
    abstained: int
    failure_score: float | None


def evaluate_clean(verdicts: Sequence[Attribution], *, tracer: str) -> CleanFigures:
    """Count the false alarms among verdicts on runs that succeeded: those that say that a run probably failed."""
    alarms = [verdict.calls_failed for verdict in verdicts]
    scores = sorted(verdict.failure_score for verdict in verdicts if verdict.abstained is None)
    return {
        "tracer": tracer,
        "n": len(verdicts),
        "false_alarms": percent(alarms),
        "false_alarms_ci": [100 * end for end in wilson(sum(alarms), len(alarms))],
        "abstained": sum(verdict.abstained is not None for verdict in verdicts),
        "failure_score": scores[len(scores) // 2] if scores else None,
    }


def hide_outcome(run: RecordedRun) -> RecordedRun:
    """Return *run* without its outcome, so that a tracer cannot go by it."""
    return replace(run, trace=replace(run.trace, outcome="unknown"))
