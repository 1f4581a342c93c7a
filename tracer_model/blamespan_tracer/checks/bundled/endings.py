"""How messages and runs end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from itertools import groupby

import numpy as np

from blamespan.trace import Step
from blamespan_tracer.checks.check import ExaminedRun, Finding, Outcome, check
from blamespan_tracer.representation.reading import Flag, Mask, Reading
from blamespan_tracer.representation.sentences import Sentence
from blamespan_tracer.tokens import is_number

_LEAST_TEXT = 80
_CUT = re.compile(r"(?:\b(?:the|a|an|of|and|to|in|is|with|for|that)|,)$")

_LEAST_CHARS, _MOST_NAME = 60, 80
"""What is shorter may be no sentence; and of a name, the characters that are looked at."""

_LOOP, _LOOPING = 3, 0.95
"""Decisions at the end of a run that make a loop, and share of each that was said before."""

_OPEN = re.compile(
    r"(?i)\b(?:"
    r"(?:still|remains?|left|(?:questions?|points?|issues?|items?|tasks?|parts?|steps?|matters?) (?:is|are)) "
    r"(?:open(?! (?:from|until|till|to|on|at|for|in|between|every|all|daily)\b)|outstanding)|"
    r"(?:is|are|remains?|still|left) (?:still )?(?:unfinished|incomplete|to be (?:done|determined))|"
    r"not (?:yet |been )?(?:done|complete|completed|finished)|"
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
    rows = np.flatnonzero(run.analysis.decides)
    if len(rows) < _LOOP + 1:
        return
    repetition = run.analysis.repetition
    shares = repetition.own[rows] + repetition.others[rows]
    n_loops = int(np.argmin(np.concatenate([shares[::-1] > _LOOPING, [False]])))
    step = run.analysis.steps[int(rows[len(rows) - max(n_loops, 1)])].origins[0]
    is_loop = n_loops >= _LOOP
    yield Finding(step.index, "fail" if is_loop else "pass", step.content, f"the last {n_loops} steps say nothing new")


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
    states = bool((run.analysis.claims.segment == last.index + 1).any())
    if run.hints(last.index, "inability") and not states:
        yield Finding(last.index, "fail", run.sentence_with(last), "gives up and states nothing")
    else:
        yield Finding(last.index, "pass" if states else "inconclusive", run.sentence_with(last), "states nothing")


def _last_statement(run: ExaminedRun) -> Step | None:
    """Return the last decision, if it is no call, hand-off or memory."""
    last = run.decisions[-1] if run.decisions else None
    return None if last is None or last.kind in ("tool_call", "handoff", "memory") else last


@check("breaks off", "A step ends where a sentence, or code, ends.", is_evidence=True)
def steps_end_in_sentences(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that end within a sentence, or within code."""
    analysis = run.analysis
    names = tuple({merged.agent.lower() for merged in analysis.steps} - {""})
    is_cut = _mark_cut_segments(analysis.reading, names)
    return run.findings(analysis.per_step(is_cut, analysis.segments.is_said & ~analysis.segments.is_call) > 0)


def _mark_cut_segments(reading: Reading, names: tuple[str, ...]) -> Mask:
    """Return which segments end within a sentence, or within code: (G,).

    That is after a word that goes on ("of", "the"), or, if they are more than a few words, after any small letter; but
    not after the name of an agent, whose turn it is.
    """
    last_flags = np.zeros(len(reading.texts), np.int64)
    last_flags[reading.segment] = reading.flags
    is_broken = []
    for text, flags, is_cut in zip(reading.texts, last_flags.tolist(), reading.is_cut.tolist(), strict=True):
        written = text.rstrip()
        end = written[-1:]
        goes_on = end.isalpha() and bool(flags & Flag.STOP)
        goes_on = goes_on or (end.islower() and len(text) >= _LEAST_CHARS)
        is_named = written[-_MOST_NAME:].lower().endswith(names)
        is_broken.append((goes_on and not is_named) or (text.count("```") % 2 and not is_cut))
    return np.array(is_broken, np.bool_)


@check("ends on another answer", "A step ends on the answer that it came to.", is_evidence=True)
def steps_keep_their_answer(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that state, last and of nothing in particular, what neither they nor anybody said before.

    Like "it is 89.4, so we get 98.4".
    """
    analysis = run.analysis
    ends_on_another = np.zeros(len(analysis.steps))
    known: set[int] = set()
    steps = analysis.segments.speaking_steps
    for segment, group in groupby(analysis.sentences, lambda sentence: sentence.segment):
        own = list(group)
        row = steps[segment]
        if row >= 0:
            is_second = _is_second_answer(analysis.reading, own, analysis.facts.subject_tokens, known)
            ends_on_another[row] = max(ends_on_another[row], is_second)
        known.update(number for sentence in own for number in sentence.numbers)
    return run.findings(ends_on_another)


def _is_second_answer(reading: Reading, own: Sequence[Sentence], subjects: Set[int], known: Set[int]) -> bool:
    stating = [sentence for sentence in own if sentence.value >= 0]
    if not stating:
        return False
    last = stating[-1]
    others = [sentence for sentence in own if sentence is not last]
    if is_number(reading.tokens[last.value]):
        is_bare = len(last.numbers) == 1 and not (last.words | last.names) & subjects
        return is_bare and last.value not in known and all(last.value not in other.numbers for other in others)
    before = stating[-2].value if len(stating) > 1 else last.value
    is_name = before != last.value and not is_number(reading.tokens[before])
    return is_name and not last.words & subjects and not any(last.value in other.names for other in others)
