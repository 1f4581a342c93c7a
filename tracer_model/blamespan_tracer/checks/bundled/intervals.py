"""Spans of time: those that a plan gives one after the other, and what is said of two of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, check
from blamespan_tracer.ledger.values import Value, find_values

_RANGE: Final = re.compile(r"(?i)^ ?(?:-|\u2013|\u2014|to|until|till|and|bis|a) ?$")
_OVERLAPS: Final = re.compile(
    r"(?i)\b(?:falls? (?:in|into|within)|overlaps?|collides?|clash(?:es)?|lies? (?:in|within)|is within)\b"
)
_APART: Final = re.compile(
    r"(?i)\b(?:does not overlap|lies? outside|falls? outside|is outside|ends? before|clear of)\b"
)
_HEDGED: Final = re.compile(
    r"(?i)\?|\b(?:if|whether|unless|would|should|must|(?-i:may)|can|could|not|no|never)\b|n['\u2019]t\b"
)
_TIMES: Final = re.compile(r"\d[:.]\d\d.{1,9}\d[:.]\d\d")
_SLOT: Final = re.compile(r"\s*(?:[-*\u2022]|\d{1,2}[.)])\s+[*_]*[^\W\d_][^\d|]{1,30}")
"""What stands in a list beside a span: a name."""
_WEEKDAY: Final = re.compile(r"(?i)\b(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*\b")
_LEAST_SLOTS: Final = 3
_MAX_CHARS: Final = 10_000
_MINUTES: Final = re.compile(r"(\d{1,2})[:.](\d\d)")
_DAY: Final = re.compile(r"(\d\d)-(\d\d)$")


@dataclass(frozen=True, slots=True)
class _Span:
    """A span of days or of minutes, and how it is written."""

    begin: int
    end: int
    start: int
    stop: int
    text: str


@check("intervals-fit", "Spans of time lie to each other as is said.", mode="mast:FM-1.1", trust=0.7)
def intervals_fit(run: ExaminedRun) -> Iterator[Finding]:
    """Look for a plan whose times overlap, and for a sentence that wrongly puts two spans of days together or apart."""
    known = run.trace.task[:_MAX_CHARS]
    for step in run.trace.steps:
        if step.kind == "tool_result":
            known += step.content[:_MAX_CHARS]
        if step.kind not in ("message", "plan") or not run.trace.can_be_blamed(step):
            continue
        yield from _judge_plan(step.index, step.content[:_MAX_CHARS], known)
        for sentence in run.sentences(step):
            yield from _judge_sentence(step.index, sentence)


def _judge_plan(step: int, text: str, known: str) -> Iterator[Finding]:
    """Hold the times of the lines of a list against each other: each line gives a name a span, which is new."""
    slots: list[tuple[str, _Span]] = []
    for line in [*text.splitlines(), ""]:
        spans = list(_find_spans(line, "time")) if _TIMES.search(line) else []
        rest = line.replace(spans[0].text, "") if len(spans) == 1 else ""
        if rest and _SLOT.fullmatch(rest) and not _WEEKDAY.search(rest) and spans[0].text not in known:
            slots.append((line, spans[0]))
            continue
        for (_, one), (other_line, other) in pairwise(slots) if len(slots) >= _LEAST_SLOTS else ():
            if one.begin < other.begin < one.end:
                source = Source(step, one.text)
                yield Finding(step, "fail", other_line, f"begins before {one.text} is over", source=source)
            else:
                yield Finding(step, "pass")
        slots = []


def _judge_sentence(step: int, sentence: str) -> Iterator[Finding]:
    together, apart = _OVERLAPS.search(sentence), _APART.search(sentence)
    if bool(together) == bool(apart) or _HEDGED.search(sentence.replace("does not overlap", "")):
        return
    verb = together or apart
    assert verb is not None
    spans = list(_find_spans(sentence, "date"))
    before = [span for span in spans if span.stop <= verb.start()]
    after = [span for span in spans if span.start >= verb.end()]
    if len(before) != 1 or len(after) != 1:
        return
    one, other = before[0], after[0]
    overlap = one.begin <= other.end and other.begin <= one.end
    holds = overlap == bool(together)
    reason = f"{one.text!r} and {other.text!r} {'overlap' if overlap else 'do not overlap'}"
    yield Finding(step, "pass" if holds else "fail", sentence, "" if holds else reason)


def _find_spans(text: str, form: str) -> Iterator[_Span]:
    values: Sequence[Value] = sorted((one for one in find_values(text) if one.form == form), key=lambda one: one.start)
    index = 0
    while index + 1 < len(values):
        one, other = values[index], values[index + 1]
        if _RANGE.match(text[one.stop : other.start]):
            begin, end = (_measure(value) for value in (one, other))
            if begin is not None and end is not None and begin < end:
                yield _Span(begin, end, one.start, other.stop, text[one.start : other.stop])
            index += 1
        index += 1


def _measure(value: Value) -> int | None:
    """Return the minute of the day, or a number by which days of one year are in order; None for anything else."""
    match = (_MINUTES.match if value.form == "time" else _DAY.search)(value.key)
    return None if match is None else int(match[1]) * 60 + int(match[2])
