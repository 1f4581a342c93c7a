"""The bundled contracts on whole runs: how they plan, check and end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from blamespan.trace import Step
from blamespan_tracer.contracts.contract import Finding, Outcome
from blamespan_tracer.contracts.run import Run
from blamespan_tracer.representation.reading import Flag

__all__ = [
    "answer_is_given",
    "approvals_see_errors",
    "approvals_see_wrong_sums",
    "ends_when_done",
    "goes_on_while_open",
    "restates_all_of_the_task",
    "text_is_whole",
]


def ends_when_done(run: Run) -> Iterator[Finding]:
    """Look for a run whose last decisions only say again what was said: it does not see that it is done."""
    places = np.flatnonzero(run.analysis.decides)
    if len(places) < _LOOP + 1:
        return
    repetition = run.analysis.repetition
    said = repetition.own[places] + repetition.others[places]
    n_loops = int(np.argmin(np.concatenate([said[::-1] > _LOOPING, [False]])))
    step = run.analysis.steps[int(places[len(places) - max(n_loops, 1)])].said[0]
    is_loop = n_loops >= _LOOP
    yield Finding(step.index, "fail" if is_loop else "pass", step.content, f"the last {n_loops} steps say nothing new")


_LOOP, _LOOPING = 3, 0.95


def goes_on_while_open(run: Run) -> Iterator[Finding]:
    """Look at the last decision: one that says itself that something is open ends the run too early."""
    last = _last(run)
    if last is None:
        return
    states = (sentence for sentence in run.sentences(last) if "=" not in sentence)  # "the distance still open = 685 km"
    quote = next((sentence for sentence in states if _OPEN.search(sentence[:1_000])), "")
    yield Finding(last.index, "fail" if quote else "pass", quote, "the run ends here, and says that it is not done")


_OPEN = re.compile(
    r"(?i)\b(?:"
    r"(?:is|are|remains?|still|left) (?:still )?(?:open|unfinished|incomplete|outstanding|to be (?:done|determined))|"
    r"not (?:yet |been )?(?:done|complete|completed|finished)|"
    r"stop(?:ping)? here for now|TBD|next steps? (?:is|are|would be)"
    r")\b"
)


def answer_is_given(run: Run) -> Iterator[Finding]:
    """Look at the last decision: one that states nothing although others did, or gives up, is no answer."""
    last = _last(run)
    if last is None or not last.content.strip():
        return
    place = last.index + 1
    claims = run.analysis.claims
    states = bool((claims.segment == place).any())
    if run.hints(last.index, "inability") and not states:
        yield Finding(last.index, "fail", run.sentence_with(last), "gives up and states nothing")
    else:
        yield Finding(last.index, "pass" if states else "inconclusive", run.sentence_with(last), "states nothing")


def _last(run: Run) -> Step | None:
    said = [step for step in run.decisions if step.kind not in ("tool_call", "handoff", "memory")]
    return said[-1] if said and said[-1] == run.decisions[-1] else None


def restates_all_of_the_task(run: Run) -> Iterator[Finding]:
    """Look at who says the task again to others: every number of it must be there."""
    analysis = run.analysis
    reading, claims = analysis.reading, analysis.claims
    of_task = set(claims.claim[(claims.segment == 0) & claims.is_number].tolist())
    task_words = _words(run, 0)
    if not of_task or len(task_words) < _LEAST_WORDS:
        return
    for step in run.decisions:
        if step.kind not in ("message", "plan", "handoff") or not run.hints(step.index, "request", "plan"):
            continue
        if len(task_words & _words(run, step.index + 1)) < _RESTATES * len(task_words):
            continue
        had = set(claims.claim[claims.segment == step.index + 1].tolist())
        missing = [reading.tokens[claims.token[claim]] for claim in sorted(of_task - had)]
        yield Finding(
            step.index, "inconclusive" if missing else "pass", run.sentence_with(step), f"leaves out {missing[:3]!r}"
        )
        return


_LEAST_WORDS, _RESTATES = 8, 0.8


def _words(run: Run, segment: int) -> set[int]:
    reading = run.analysis.reading
    words = (reading.segment == segment) & reading.has(Flag.WORD) & ~reading.has(Flag.STOP)
    return set(reading.token[words].tolist())


def approvals_see_errors(run: Run) -> Iterator[Finding]:
    """Look for an approval right after the approver's own tool said that something fails."""
    for call, results in run.results_of.items():
        asked = run.trace.steps[call]
        step = run.next_own_decision(asked) if run.trace.can_be_blamed(asked) else None
        if step is None or step.kind == "tool_call" or not run.hints(step.index, "agree"):
            continue
        failing = bool(_FAILS.search(results[-1].content[:4_000]))
        is_blind = failing and not run.hints(step.index, "object", "error", "negation", "inability")
        yield Finding(
            step.index, "fail" if is_blind else "pass", step.content, "approves what its own tool found failing"
        )


_FAILS = re.compile(
    r"(?i)\b(?:[1-9]\d{0,4} (?:tests? )?fail(?:ed|ures?)?|tests? fail(?:ed|s)?|assertionerror|FAILED)\b"
)


def approvals_see_wrong_sums(run: Run) -> Iterator[Finding]:
    """Look for an approval of a step that holds a sum which does not hold."""
    analysis = run.analysis
    places = np.flatnonzero(analysis.decides).tolist()
    for before, after in pairwise(places):
        step = analysis.steps[after].said[0]
        if analysis.agent[before] == analysis.agent[after] or not analysis.sums[before]:
            continue
        if step.kind != "message" or not run.hints(step.index, "agree", "check"):
            continue
        is_blind = bool(analysis.wrong_sums[before]) and not run.hints(step.index, "object", "negation", "contrast")
        yield Finding(step.index, "fail" if is_blind else "pass", step.content, "approves a sum that does not hold")


def text_is_whole(run: Run) -> Iterator[Finding]:
    """Look for messages that break off: an open code fence, or an end in the middle of a sentence."""
    for step in run.decisions:
        text = step.content.rstrip()
        if step.kind not in ("message", "plan") or len(text) < _LEAST_TEXT:
            continue
        is_open = text.count("```") % 2 == 1
        is_cut = bool(_CUT.search(text[-40:]))
        outcome: Outcome = "fail" if is_open else "inconclusive" if is_cut else "pass"
        yield Finding(step.index, outcome, text[-120:], "breaks off")


_LEAST_TEXT = 80
_CUT = re.compile(r"(?:\b(?:the|a|an|of|and|to|in|is|with|for|that)|,)$")
