"""Values that a later word replaced, and that are used all the same."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from blamespan.trace import Step
from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, check
from blamespan_tracer.ledger.values import Value, find_values

_REPLACES: Final = re.compile(
    r"(?i)\b(?:instead|rather than|please (?:make|use|take|change|set|write)|make (?:it|that|this)|moved|postponed|"
    r"rescheduled|brought forward|correction|corrected|is final|no longer|replaces|superseded|"
    r"change(?:d| it| that| this) to|has (?:been )?changed|is now|from now on|update:|updated to|not \S*\d\S* but|"
    r"let's (?:do|take|make it)|we(?:'ll| will) (?:go with|take))\b"
)
"""A word by which somebody puts another value in the place of one."""
_HEDGED: Final = re.compile(r"(?i)\?|\b(?:if|would have been|could|might|maybe|perhaps|either|whether)\b")
_TELLS: Final = re.compile(
    r"(?i)\b(?:was|were|had|earlier|before|originally|previously|first|old|former|not|instead|rather|changed|moved|from)\b"
)
"""A word by which somebody tells of a value that has gone."""
_MAX_CHARS: Final = 2_000
_LEAST_DIGITS: Final = 2

_Values: TypeAlias = Mapping[tuple[str, str], Mapping[str, Value]]
"""Values by form and unit, and then by key."""


@check("latest-word-kept", "A value that a later word replaced is not used any more.", mode="mast:FM-2.5", trust=0.7)
def latest_words_are_kept(run: ExaminedRun) -> Iterator[Finding]:
    """Look for a step that uses the one value that somebody else replaced, and not the one that they gave for it."""
    steps = run.trace.steps
    words = [(step, _find_word(run, step)) for step in steps if step.kind == "message"]
    words = [(step, sentence) for step, sentence in words if sentence]
    values = [_read_values(step.content[:_MAX_CHARS]) for step in steps] if words else []
    for word, sentence in words:
        for form, said in _read_values(sentence).items():
            stated = {key for own in values[: word.index] for key in own.get(form, ())}
            old, new = [*(stated - said.keys())], [*(said.keys() - stated)]
            if len(old) == len(new) == 1:
                later = [step for step in run.decisions if step.index > word.index and step.agent != word.agent]
                for step in later:
                    source = Source(word.index, sentence)
                    yield from _judge(run, step, values[step.index].get(form, {}), old[0], new[0], source)


def _judge(
    run: ExaminedRun, step: Step, values: Mapping[str, Value], old: str, new: str, source: Source
) -> Iterator[Finding]:
    if new in values:
        yield Finding(step.index, "pass")
    elif old in values:
        text = values[old].text
        quote = run.sentence_with(step, text)
        if not _TELLS.search(quote) and not _REPLACES.search(step.content[:_MAX_CHARS]):
            yield Finding(step.index, "fail", quote, f"{text!r} was replaced", source=source)


def _find_word(run: ExaminedRun, step: Step) -> str:
    """Return the first sentence of a step that puts one value in the place of another."""
    if not _REPLACES.search(step.content):
        return ""
    return next((one for one in run.sentences(step) if _REPLACES.search(one) and not _HEDGED.search(one)), "")


def _read_values(text: str) -> _Values:
    forms: dict[tuple[str, str], dict[str, Value]] = {}
    for value in find_values(text):
        has_digits = sum(map(str.isdigit, value.key)) >= _LEAST_DIGITS
        if has_digits and (value.form in ("date", "time") or (value.form == "number" and value.unit)):
            forms.setdefault((value.form, value.unit), {}).setdefault(value.key, value)
    return forms
