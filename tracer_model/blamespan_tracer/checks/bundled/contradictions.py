"""Statements that contradict the task, a tool, or what the same agent stated before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from blamespan_tracer.checks.check import Finding, Source, check
from blamespan_tracer.checks.examined_run import ExaminedRun
from blamespan_tracer.representation.facts import Conflict
from blamespan_tracer.representation.reading import is_number

_CHANGES = 3
"""Times that an agent gives one thing another value from which on it speaks of a state."""


@check("result-believed", "What a tool answered is not contradicted by who reads it.", mode="blamespan:X3", trust=0.6)
def results_are_believed(run: ExaminedRun) -> Iterator[Finding]:
    """Compare what agents state with what tools answered about the same subject."""
    segments = run.analysis.segments
    for conflict in run.analysis.facts.conflicts:
        if segments.is_result[conflict.earlier] and segments.is_said[conflict.later]:
            yield _describe(run, conflict, "a tool answered")


@check("task-kept", "What the task states is not contradicted.", mode="mast:FM-1.1", trust=0.5)
def task_is_kept(run: ExaminedRun) -> Iterator[Finding]:
    """Compare the numbers that agents state with what the task says of the same subject.

    Names are left out: of two names in a task, both may be right.
    """
    for conflict in run.analysis.facts.conflicts:
        is_of_task = conflict.earlier == 0 and is_number(conflict.values[1])
        if is_of_task and run.analysis.segments.is_said[conflict.later]:
            yield _describe(run, conflict, "the task says")


@check(
    "own-words-stand",
    "An agent does not give a subject another value without saying so.",
    mode="mast:FM-2.6",
    trust=0.5,
)
def own_words_stand(run: ExaminedRun) -> Iterator[Finding]:
    """Look for an agent that gives a subject another value than it did before, without a word of correction.

    What it gives another value time and again is a state that changes, like the part of a page on a screen.
    """
    segments = run.analysis.segments
    own = [
        conflict
        for conflict in run.analysis.facts.conflicts
        if segments.speaker[conflict.earlier] == segments.speaker[conflict.later] >= 0
        and segments.is_said[conflict.earlier]
        and segments.is_said[conflict.later]
    ]
    times = Counter((int(segments.speaker[conflict.later]), conflict.subject) for conflict in own)
    for conflict in own:
        changes = times[int(segments.speaker[conflict.later]), conflict.subject] >= _CHANGES
        if changes or run.hints(conflict.later - 1, "object", "redo", "contrast"):
            yield Finding(conflict.later - 1, "pass")
        else:
            yield _describe(run, conflict, "it said before")


def _describe(run: ExaminedRun, conflict: Conflict, who: str) -> Finding:
    step = run.trace.steps[conflict.later - 1]  # segment 0 is the task
    earlier, later = conflict.values
    quote = run.sentence_with(step, *conflict.subject, later)
    is_shown = later in quote.lower().replace(",", "")
    is_invented = run.brings_in(step.index, later) and not conflict.is_computed and step.kind != "tool_call"
    subject = " ".join(conflict.subject)
    return Finding(
        step.index,
        "fail" if is_shown and is_invented else "inconclusive",
        quote,
        f"{who} {earlier[:60]!r} of {subject[:60]!r}, here it is {later[:60]!r}",
        source=_find_source(run, conflict),
    )


def _find_source(run: ExaminedRun, conflict: Conflict) -> Source:
    words = (*conflict.subject, conflict.values[0])
    if conflict.earlier == 0:
        return Source(None, run.sentence_in(run.trace.task, *words))
    step = run.trace.steps[conflict.earlier - 1]
    return Source(step.index, run.sentence_with(step, *words))
