"""Statements that contradict the task, a tool, or what the same agent stated before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, check
from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import Floats
from blamespan_tracer.representation.facts import Conflict
from blamespan_tracer.representation.reading import is_number

_CHANGES = 3
"""Times that an agent gives one thing another value from which on it speaks of a state."""


@check("result-believed", "What a tool answered is not contradicted by who reads it.", mode="blamespan:X3", trust=0.6)
def agents_believe_results(run: ExaminedRun) -> Iterator[Finding]:
    """Compare what agents state with what tools answered about the same subject."""
    segments = run.analysis.segments
    for conflict in run.analysis.facts.conflicts:
        if segments.is_result[conflict.earlier] and segments.is_said[conflict.later]:
            yield _describe(run, conflict, "a tool answered")


@check("task-kept", "What the task states is not contradicted.", mode="mast:FM-1.1", trust=0.5)
def agents_keep_the_task(run: ExaminedRun) -> Iterator[Finding]:
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


_SOURCES = ("the task", "a result", "another", "itself")


def mark_conflicts(run: Analysis) -> dict[str, Floats]:
    """Return which steps contradict what, and which are contradicted: (N,) of 0 and 1 each."""
    segments = run.segments
    contradicts = {source: np.zeros(len(run.steps)) for source in _SOURCES}
    by_result, by_another, overridden = np.zeros((3, len(run.steps)))
    for conflict in run.facts.conflicts:
        earlier, later = int(segments.owner[conflict.earlier]), int(segments.owner[conflict.later])
        if segments.is_said[conflict.later]:
            if segments.is_given[conflict.earlier]:
                source = "the task"
            elif segments.is_result[conflict.earlier]:
                source = "a result"
            elif segments.speaker[conflict.earlier] == segments.speaker[conflict.later]:
                source = "itself"
            else:
                source = "another"
            contradicts[source][later] = 1.0
        if segments.is_said[conflict.earlier] and earlier != later:
            overridden[earlier] = 1.0
            if segments.is_result[conflict.later]:
                by_result[earlier] = 1.0
            elif run.agent[earlier] != run.agent[later]:
                by_another[earlier] = 1.0
    stands = np.maximum.reduce(list(contradicts.values())) * (1 - overridden)
    return contradicts | {"by a result": by_result, "by another": by_another, "later": overridden, "stands": stands}


@check("contradicts the task", "A step does not contradict the task, or what a user said.", is_evidence=True)
def task_stands(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that give a subject of the task another value."""
    return run.findings(run.once(mark_conflicts)["the task"])


@check("contradicts a result", "A step does not contradict a tool.", is_evidence=True)
def results_stand(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that give a subject of a tool's answer another value."""
    return run.findings(run.once(mark_conflicts)["a result"])


@check("contradicts another", "A step does not contradict another agent.", is_evidence=True)
def others_stand(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that give a subject of another agent another value."""
    return run.findings(run.once(mark_conflicts)["another"])


@check("contradicts itself", "A step does not contradict its own agent.", is_evidence=True)
def own_statements_stand(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that give a subject of their own agent another value."""
    return run.findings(run.once(mark_conflicts)["itself"])


@check("contradicted by a result", "No tool contradicts a step later.", is_evidence=True)
def results_agree(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that a later answer of a tool contradicts."""
    return run.findings(run.once(mark_conflicts)["by a result"])


@check("contradicted by another", "No other agent contradicts a step later.", is_evidence=True)
def others_agree(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that another agent contradicts later."""
    return run.findings(run.once(mark_conflicts)["by another"])


@check("overridden", "No later step contradicts a step.", is_evidence=True)
def later_steps_agree(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that a later step contradicts."""
    return run.findings(run.once(mark_conflicts)["later"])


@check("contradicts and stands", "What contradicts is contradicted itself.", is_evidence=True)
def contradictions_do_not_stand(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that contradict and that no later step contradicts."""
    return run.findings(run.once(mark_conflicts)["stands"])
