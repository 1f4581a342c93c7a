"""How messages and runs end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from blamespan.trace import Step
from blamespan_tracer.checks.check import ExaminedRun, Finding, Outcome, check

_LEAST_TEXT, _MAX_CHARS = 80, 8_000
_CUT = re.compile(r"(?:\b(?:the|a|an|of|and|to|in|is|with|for|that)|,)$")
_STATES = re.compile(r"(?<=[a-z,:] )[A-Z]\w|\d|[`\"]\w")
"""A name within a sentence, a number, or a quotation."""

_LOOP, _LOOPING = 3, 0.95
"""Decisions at the end of a run that make a loop, and share of each that was said before."""

_OPEN = re.compile(
    r"(?i)\b(?:"
    r"(?:questions?|points?|issues?|items?|tasks?|parts?|steps?|matters?)\b[^.;:\n]{0,30}? "
    r"(?:is|are|remains?|left|still) (?:still )?"
    r"(?:open(?! (?:from|until|till|to|on|at|for|in|between|every|all|daily)\b)|outstanding)|"
    r"still outstanding|"
    r"(?:is|are|remains?|still|left) (?:still )?(?:unfinished|incomplete|to be (?:done|determined))|"
    r"(?:(?:is|are|was|were) not |not (?:yet|been) )(?:yet |been )?(?:done|complete|completed|finished)|"
    r"stop(?:ping)? here for now|TBD|next steps? would be"
    r")\b"
)


@check("text-whole", "A message does not break off.", mode="blamespan:X5", trust=0.4, is_mended_later=True)
def text_is_whole(run: ExaminedRun) -> Iterator[Finding]:
    """Look for messages that break off: an open code fence, or an end in the middle of a sentence."""
    for step in run.decisions:
        text = step.content.rstrip()
        if step.kind not in ("message", "plan") or len(text) < _LEAST_TEXT:
            continue
        is_open = text.count("```") % 2 == 1
        is_cut = bool(_CUT.search(text[-40:]))
        outcome: Outcome = "fail" if is_open else "inconclusive" if is_cut else "pass"
        yield Finding(step.index, outcome, text[-120:], "breaks off")


@check("ends-when-done", "A run ends when it is done.", mode="mast:FM-1.5", trust=0.5, is_symptom=True)
def ends_when_done(run: ExaminedRun) -> Iterator[Finding]:
    """Look for a run whose last decisions only say again what was said: it does not see that it is done."""
    if len(run.decisions) <= _LOOP:
        return
    is_said = [run.steps[step.index].repeated > _LOOPING for step in run.decisions]
    n_loops = next((count for count, again in enumerate(reversed(is_said)) if not again), len(is_said))
    step = run.decisions[-max(n_loops, 1)]
    outcome: Outcome = "fail" if n_loops >= _LOOP else "pass"
    yield Finding(step.index, outcome, step.content, f"the last {n_loops} steps say nothing new")


@check(
    "done-when-ended",
    "A run does not end while it says itself that something is open.",
    mode="mast:FM-3.1",
    trust=0.5,
    is_symptom=True,
)
def goes_on_while_open(run: ExaminedRun) -> Iterator[Finding]:
    """Look at the last decision: one that says itself that something is open ends the run too early."""
    last = _last_statement(run)
    if last is None:
        return
    states = (sentence for sentence in run.sentences(last) if "=" not in sentence)  # "the distance still open = 685 km"
    quote = next((sentence for sentence in states if _OPEN.search(sentence[:1_000])), "")
    yield Finding(last.index, "fail" if quote else "pass", quote, "the run ends here, and says that it is not done")


@check("answer-given", "The last word is an answer.", mode="mast:FM-2.4", trust=0.4, is_symptom=True)
def last_word_is_an_answer(run: ExaminedRun) -> Iterator[Finding]:
    """Look at the last decision: one that states nothing although others did, or gives up, is no answer."""
    last = _last_statement(run)
    if last is None or not last.content.strip():
        return
    states = bool(run.ledger.claims[last.index]) or bool(_STATES.search(last.content[:_MAX_CHARS]))
    if run.hints(last.index, "inability") and not states:
        yield Finding(last.index, "fail", run.sentence_with(last), "gives up and states nothing")
    else:
        yield Finding(last.index, "pass" if states else "inconclusive", run.sentence_with(last), "states nothing")


def _last_statement(run: ExaminedRun) -> Step | None:
    """Return the last decision, if it is no call, hand-off or memory."""
    last = run.decisions[-1] if run.decisions else None
    return None if last is None or last.kind in ("tool_call", "handoff", "memory") else last
