"""How steps say the task again."""

from __future__ import annotations

from collections.abc import Iterator

from blamespan_tracer.checks.check import Finding, check
from blamespan_tracer.checks.examined_run import ExaminedRun
from blamespan_tracer.representation.reading import Flag

_LEAST_WORDS, _RESTATES = 8, 0.8
"""Words of a task that can be said again, and share of them that a step has if it says the task again."""


@check("task-restated-whole", "Who states the task to others leaves no number out.", mode="mast:FM-2.4", trust=0.4)
def task_is_restated_whole(run: ExaminedRun) -> Iterator[Finding]:
    """Look at who says the task again to others: every number of it must be there."""
    analysis = run.analysis
    reading, claims = analysis.reading, analysis.claims
    of_task = set(claims.claim[(claims.segment == 0) & claims.is_number].tolist())
    task_words = _list_words(run, 0)
    if not of_task or len(task_words) < _LEAST_WORDS:
        return
    for step in run.decisions:
        if step.kind not in ("message", "plan", "handoff") or not run.hints(step.index, "request", "plan"):
            continue
        if len(task_words & _list_words(run, step.index + 1)) < _RESTATES * len(task_words):
            continue
        own = set(claims.claim[claims.segment == step.index + 1].tolist())
        missing = [reading.tokens[claims.token[claim]] for claim in sorted(of_task - own)]
        yield Finding(
            step.index, "inconclusive" if missing else "pass", run.sentence_with(step), f"leaves out {missing[:3]!r}"
        )
        return


def _list_words(run: ExaminedRun, segment: int) -> set[int]:
    reading = run.analysis.reading
    is_word = (reading.segment == segment) & reading.has(Flag.WORD) & ~reading.has(Flag.STOP)
    return set(reading.token[is_word].tolist())
