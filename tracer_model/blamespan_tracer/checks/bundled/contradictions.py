"""Statements that contradict the task, a tool, or what the same agent stated before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, check, evidence
from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import Floats
from blamespan_tracer.representation.equations import calculations
from blamespan_tracer.representation.facts import Conflict
from blamespan_tracer.tokens import is_number

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
    is_invented = is_invented and not is_worked_out(later, quote)
    subject = " ".join(conflict.subject)
    return Finding(
        step.index,
        "fail" if is_shown and is_invented else "inconclusive",
        quote,
        f"{who} {earlier[:60]!r} of {subject[:60]!r}, here it is {later[:60]!r}",
        source=_find_source(run, conflict),
        wrong=later,
        right=earlier,
    )


def is_worked_out(value: str, text: str) -> bool:
    """Check whether a text has a calculation that gives a value, written as its result or not."""
    return is_number(value) and float(value) in calculations(text)


def _find_source(run: ExaminedRun, conflict: Conflict) -> Source:
    words = (*conflict.subject, conflict.values[0])
    if conflict.earlier == 0:
        return Source(None, run.sentence_in(run.trace.task, *words))
    step = run.trace.steps[conflict.earlier - 1]
    return Source(step.index, run.sentence_with(step, *words))


@dataclass(frozen=True, slots=True)
class Contradictions:
    """Which steps contradict what, and which are contradicted: (N,) each, of 0 and 1.

    Attributes:
        the_task: Contradicts the task, or what a user said,
        a_result: a tool,
        another: another agent,
        itself: or its own agent.
        by_result: A tool contradicts it later,
        by_another: or another agent,
        overridden: or any step.
        stands: It contradicts, and no later step contradicts it.
    """

    the_task: Floats
    a_result: Floats
    another: Floats
    itself: Floats
    by_result: Floats
    by_another: Floats
    overridden: Floats
    stands: Floats


def mark_conflicts(run: Analysis) -> Contradictions:
    """Mark both steps of every conflict between statements."""
    segments = run.segments
    the_task, a_result, another, itself, by_result, by_another, overridden = np.zeros((7, len(run.steps)))
    for conflict in run.facts.conflicts:
        earlier, later = int(segments.owner[conflict.earlier]), int(segments.owner[conflict.later])
        if segments.is_said[conflict.later]:
            if segments.is_given[conflict.earlier]:
                the_task[later] = 1.0
            elif segments.is_result[conflict.earlier]:
                a_result[later] = 1.0
            elif segments.speaker[conflict.earlier] == segments.speaker[conflict.later]:
                itself[later] = 1.0
            else:
                another[later] = 1.0
        if segments.is_said[conflict.earlier] and earlier != later:
            overridden[earlier] = 1.0
            if segments.is_result[conflict.later]:
                by_result[earlier] = 1.0
            elif run.agent[earlier] != run.agent[later]:
                by_another[earlier] = 1.0
    stands = np.maximum.reduce([the_task, a_result, another, itself]) * (1 - overridden)
    return Contradictions(the_task, a_result, another, itself, by_result, by_another, overridden, stands)


CONTRADICTIONS = (
    evidence(
        "contradicts the task", "A step does not contradict the task, or what a user said.", mark_conflicts, "the_task"
    ),
    evidence("contradicts a result", "A step does not contradict a tool.", mark_conflicts, "a_result"),
    evidence("contradicts another", "A step does not contradict another agent.", mark_conflicts, "another"),
    evidence("contradicts itself", "A step does not contradict its own agent.", mark_conflicts, "itself"),
    evidence("contradicted by a result", "No tool contradicts a step later.", mark_conflicts, "by_result"),
    evidence("contradicted by another", "No other agent contradicts a step later.", mark_conflicts, "by_another"),
    evidence("overridden", "No later step contradicts a step.", mark_conflicts, "overridden"),
    evidence("contradicts and stands", "What contradicts is contradicted itself.", mark_conflicts, "stands"),
)
