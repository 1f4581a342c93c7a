"""Checks as networks learnt them: those that are read otherwise by now, or are no contracts any more.

Weights name what they were trained with; under these names they are given what they learnt from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import numpy as np

from blamespan_tracer.alternatives.network.evidence.numbers import is_slip
from blamespan_tracer.alternatives.network.representation import Analysis, analyse
from blamespan_tracer.alternatives.network.representation.claims import Floats
from blamespan_tracer.alternatives.network.representation.facts import Conflict
from blamespan_tracer.alternatives.network.representation.reading import Ints
from blamespan_tracer.checks import CHECKS, ExaminedRun, Finding, check
from blamespan_tracer.checks.check import Outcome
from blamespan_tracer.ledger.equations import calculations, equations, is_common, spell_number
from blamespan_tracer.tokens import is_number

_LONG = 3
"""Characters of an argument that anybody may make up."""
_CHANGES = 3
"""Times that an agent gives one thing another value from which on it speaks of a state."""
_MAX_KNOWN = 60
"""Numbers that one may have been worked out from: those of the step, and the latest before it."""


def analyse_run(run: ExaminedRun) -> Analysis:
    """Find out what features and checks are made of; `ExaminedRun.once` keeps it."""
    return analyse(run.trace)


@check("result-believed", "What a tool answered is not contradicted by who reads it.", mode="blamespan:X3", trust=0.6)
def _believe_results(run: ExaminedRun) -> Iterator[Finding]:
    analysis = run.once(analyse_run)
    for conflict in analysis.facts.conflicts:
        if analysis.segments.is_result[conflict.earlier] and analysis.segments.is_said[conflict.later]:
            yield _describe(run, conflict, "a tool answered")


@check("task-kept", "What the task states is not contradicted.", mode="mast:FM-1.1", trust=0.5)
def _keep_the_task(run: ExaminedRun) -> Iterator[Finding]:
    analysis = run.once(analyse_run)
    for conflict in analysis.facts.conflicts:  # of two names in a task, both may be right
        if conflict.earlier == 0 and is_number(conflict.values[1]) and analysis.segments.is_said[conflict.later]:
            yield _describe(run, conflict, "the task says")


@check("own-words-stand", "An agent keeps the value that it gave a subject.", mode="mast:FM-2.6", trust=0.5)
def _keep_own_words(run: ExaminedRun) -> Iterator[Finding]:
    """Look for an agent that gives a subject another value than it did before, without a word of correction.

    What it gives another value time and again is a state that changes, like the part of a page on a screen.
    """
    analysis = run.once(analyse_run)
    speaker, is_said = analysis.segments.speaker, analysis.segments.is_said
    own = [
        conflict
        for conflict in analysis.facts.conflicts
        if speaker[conflict.earlier] == speaker[conflict.later] >= 0
        and is_said[conflict.earlier]
        and is_said[conflict.later]
    ]
    times = Counter((int(speaker[conflict.later]), conflict.subject) for conflict in own)
    for conflict in own:
        changes = times[int(speaker[conflict.later]), conflict.subject] >= _CHANGES
        if not changes and not run.hints(conflict.later - 1, "object", "redo", "contrast"):
            yield _describe(run, conflict, "it said before")


def _describe(run: ExaminedRun, conflict: Conflict, who: str) -> Finding:
    step = run.trace.steps[conflict.later - 1]  # segment 0 is the task
    earlier, later = conflict.values
    quote = run.sentence_with(step, *conflict.subject, later)
    is_shown = later in quote.lower().replace(",", "")
    is_invented = (conflict.later, later) in run.once(_list_brought_in) and not conflict.is_computed
    is_worked_out = is_number(later) and float(later) in calculations(quote)
    is_broken = is_shown and is_invented and not is_worked_out and step.kind != "tool_call"
    reason = f"{who} {earlier[:60]!r} of {' '.join(conflict.subject)[:60]!r}, here it is {later[:60]!r}"
    return Finding(step.index, "fail" if is_broken else "inconclusive", quote, reason)


def _list_brought_in(run: ExaminedRun) -> set[tuple[int, str]]:
    """List the claims that nothing before their segment has, each with that segment."""
    analysis = run.once(analyse_run)
    claims = analysis.claims
    is_fresh = claims.source == claims.segment
    return set(zip(claims.segment[is_fresh].tolist(), _spell(analysis, claims.claim[is_fresh]), strict=True))


def _spell(run: Analysis, claims: Ints) -> list[str]:
    return [run.reading.tokens[token] for token in run.claims.token[claims].tolist()]


@check("number-has-source", "A number stands in what is known, or follows from it.", mode="blamespan:X1", trust=0.4)
def _have_sources(run: ExaminedRun) -> Iterator[Finding]:
    """Look for numbers that nothing before them has, and that no two known numbers give."""
    analysis = run.once(analyse_run)
    claims, segments, inputs = analysis.claims, analysis.segments, analysis.inputs
    is_judged = claims.is_number & segments.is_said[claims.segment] & ~claims.in_code
    is_judged &= ~segments.is_call[claims.segment]
    numbers = np.flatnonzero(claims.is_number)
    values = np.zeros(len(claims.claim))
    values[numbers] = [float(token) for token in _spell(analysis, claims.claim[numbers])]
    broken: Outcome = "fail" if run.tells_inputs else "inconclusive"
    for segment in np.unique(claims.segment[is_judged]).tolist():
        is_fresh = is_judged & (claims.segment == segment) & (claims.source == segment)
        own_inputs = [float(number) for number in inputs.few_until(segment)]
        known = np.concatenate([values[numbers[claims.segment[numbers] <= segment][-_MAX_KNOWN:]], own_inputs])
        step = run.trace.steps[segment - 1]
        fresh = _spell(analysis, claims.claim[np.flatnonzero(is_fresh)])
        token = _find_odd_number(fresh, run.read_text(step), known, inputs.numbers_until(segment))
        quote = run.sentence_with(step, token) if token else ""
        yield Finding(step.index, broken if token else "pass", quote, f"nothing before it gives {token!r}")


def _find_odd_number(fresh: Sequence[str], text: str, known: Floats, sources: Sequence[str]) -> str:
    """Return the first number of a step that nothing gives; empty where each has a source.

    Args:
        fresh: The step's numbers that nothing before it has, as `Reading.tokens` spells them.
        text: What the step says: a number of a written sum is for `sum-holds` to judge.
        known: The numbers that they may have been worked out from.
        sources: The numbers that the step was given, spelt likewise: what is one of them but for a digit is odd.
    """
    unknown = [token for token in fresh if not is_common(float(token))]
    if not unknown:
        return ""
    written = {side for sum_ in equations(text) for side in (sum_.left, sum_.right)} | calculations(text)
    results = _CalculatedNumbers(known)
    for token in unknown:
        value = float(token)
        if value not in written and (not results.have(value) or is_slip(spell_number(value), sources)):
            return token
    return ""


_OPERATIONS: tuple[Callable[[Floats, Floats], Floats], ...] = (
    lambda left, right: left + right,
    lambda left, right: left - right,
    lambda left, right: left * right,
    lambda left, right: left / right,
    lambda left, right: left * right / 100,
)


class _CalculatedNumbers:
    """What two numbers give by a basic operation, and several in a row added up.

    Args:
        numbers: The numbers, in order.
    """

    def __init__(self, numbers: Floats) -> None:
        self._numbers = numbers
        self._tables: list[Floats] = []

    def have(self, value: float) -> bool:
        """Check whether the numbers other than *value* give it, as rounded."""
        slack = abs(value) * 0.005 + 1e-9
        is_other = self._numbers != value
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for number, operation in enumerate(_OPERATIONS):
                if number == len(self._tables):
                    self._tables.append(operation(self._numbers[:, None], self._numbers[None, :]))
                hits = np.abs(self._tables[number] - value) <= slack
                if bool(hits.any()) and bool((hits & is_other[:, None] & is_other[None, :]).any()):
                    return True
            sums = np.concatenate([[0.0], np.cumsum(self._numbers[is_other])])
            return bool((np.abs(sums[:, None] - sums[None, :] - value) <= slack).any())


@check("arguments-known", "What a call asks for comes from somewhere.", mode="blamespan:X2", trust=0.3)
def _have_known_arguments(run: ExaminedRun) -> Iterator[Finding]:
    """Look for identifiers and long numbers in a call that nothing before it mentions."""
    analysis = run.once(analyse_run)
    is_call = analysis.segments.is_call.tolist()
    unknown = [
        (segment, token)
        for segment, token in run.once(_list_brought_in)
        if is_call[segment] and len(token) > _LONG and any(map(str.isdecimal, token))
    ]
    for segment in sorted({segment for segment, _ in unknown}):
        if run.trace.can_be_blamed(run.trace.steps[segment - 1]):
            yield Finding(segment - 1, "inconclusive")


@check("answer-given", "The last word is an answer.", mode="mast:FM-2.4", trust=0.4, is_symptom=True)
def _give_answers(run: ExaminedRun) -> Iterator[Finding]:
    """Look at the last decision: one that states nothing although others did, or gives up, is no answer."""
    last = run.decisions[-1] if run.decisions else None
    if last is None or last.kind in ("tool_call", "handoff", "memory") or not last.content.strip():
        return
    if not bool((run.once(analyse_run).claims.segment == last.index + 1).any()):
        outcome: Outcome = "fail" if run.hints(last.index, "inability") else "inconclusive"
        yield Finding(last.index, outcome, run.sentence_with(last), "states nothing")


_OWN: Final = (
    *(_believe_results, _keep_the_task, _keep_own_words, _have_sources, _have_known_arguments, _give_answers),
)
LEARNT_CHECKS: Final = (*_OWN, *(one for one in CHECKS if one.name not in {own.name for own in _OWN}))
"""Every check that networks can learn from."""
