"""What a sentence says of two amounts that it names: which is more, and which way it went."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from blamespan_tracer.checks.check import ExaminedRun, Finding, check
from blamespan_tracer.ledger.values import Value, find_values

Direction: TypeAlias = Literal[-1, 1]

_LESS: Final = "below|under|less than|lower than|fewer than|smaller than|cheaper than|shorter than|within|no more than|at most"
_MORE: Final = "above|over|more than|higher than|greater than|larger than|longer than|exceeds|exceeding|at least|no less than"
_COMPARES = re.compile(rf"(?i)\b(?:(?P<less>{_LESS})|(?P<more>{_MORE}))\b")
_EQUAL_FITS: Final = frozenset(("within", "no more than", "at most", "at least", "no less than"))
"""Comparisons that equal amounts keep, too."""

_FELL: Final = "fell|falls|fallen|decreased|decreases|dropped|drops|declined|declines|shrank|sank|went down|came down|is down|was down|reduced|improved"
_ROSE: Final = "rose|rises|risen|increased|increases|grew|grows|grown|climbed|climbs|gained|went up|is up|was up"
_TREND = re.compile(
    rf"(?i)\b(?:(?P<down>fell|falls|fallen|decreased|dropped|declined|shrank|sank|down)|"
    rf"(?P<up>rose|rises|risen|increased|grew|grown|climbed|up))\b"
)
_FROM = re.compile(r"(?i)\bfrom\b")
_TO = re.compile(r"(?i)^[\s(*_]*(?:[A-Za-z%\u20ac$\u00a3]{1,12}[\s)*_,]*){0,4}\bto\b[\s*_(~]*(?:about |around |roughly |approximately |just |only )?[\u20ac$\u00a3]?[\s*_]*$")
_HEDGED = re.compile(r"(?i)\?|\b(?:if|when|whenever|where|whether|unless|until|should|must|may|can|could|would|will|shall|needs?|has to|have to|had to|not|n't|never|no longer|neither|nor|instead|rather|require[sd]?|only|goal|aim|plan(?:ned)?|expect(?:ed)?|forecast|any|every|each|all|for|alert|rule|policy)\b")
"""A sentence with one of them asks, sets or denies; it states no fact."""

_LEADS_AWAY = re.compile(r"(?i)[;:|]|\b(?:by|since|between|or|and|in|on|of the|with|so|therefore)\b")
"""What stands between two amounts that are not compared with each other."""
_MOST_WORDS: Final = 5
_UNITLESS: Final = re.compile(r"\d{3,}|\d\.\d")
_YEAR = re.compile(r"(?:19|20)\d\d")
_STATES = re.compile(r"(?i)\b(?:is|are|was|were|comes? to|came to|stands? at|amounts? to|totals?|costs?|takes?|took|has|had)\b|,|=|which")
_MAX_APART: Final = 70


@check("comparison-holds", "A comparison of two amounts holds.", mode="mast:FM-2.6", trust=0.8)
def comparisons_hold(run: ExaminedRun) -> Iterator[Finding]:
    """Hold what a sentence says of two amounts against these: 455 ms is not below 412 ms."""
    for step in run.decisions:
        if step.kind == "tool_call":
            continue
        for sentence in run.sentences(step):
            judged = [*_judge_comparisons(sentence), *_judge_trends(sentence)]
            wrong = next((reason for holds, reason in judged if not holds), None)
            if wrong is not None:
                yield Finding(step.index, "fail", sentence, wrong)
            elif judged:
                yield Finding(step.index, "pass")


def _judge_comparisons(sentence: str) -> Iterator[tuple[bool, str]]:
    """Yield whether each `A is below B` holds, and why it does not."""
    found = list(_COMPARES.finditer(sentence))
    if not found or _HEDGED.search(sentence):
        return
    amounts = _read_amounts(sentence)
    for match in found:
        before = [amount for amount in amounts if amount.stop <= match.start()]
        after = [amount for amount in amounts if amount.start >= match.end()]
        if not before or not after:
            continue
        left, right = before[-1], after[0]
        beside, between = sentence[left.stop : match.start()], sentence[match.end() : right.start]
        if not _are_alike(left, right) or len(beside) > _MAX_APART or not _STATES.search(beside) or len(between) > _MAX_APART:
            continue
        if len(between.split()) > _MOST_WORDS or _LEADS_AWAY.search(between) or _LEADS_AWAY.search(beside):
            continue
        first, second = float(left.key), float(right.key)
        is_less = match["less"] is not None
        holds = first < second if is_less else first > second
        holds = holds or (first == second and match.group().lower() in _EQUAL_FITS)
        yield holds, f"{left.text} is not {match.group().lower()} {right.text}"


def _judge_trends(sentence: str) -> Iterator[tuple[bool, str]]:
    """Yield whether each `rose from A to B` holds, and why it does not."""
    found = list(_TREND.finditer(sentence))
    if not found or len(found) > 1:
        return
    (match,) = found
    source = _FROM.search(sentence, match.end())
    amounts = _read_amounts(sentence)
    if source is None or source.start() - match.end() > _MAX_APART or _HEDGED.search(sentence):
        return
    after = [amount for amount in amounts if amount.start >= source.end()]
    if not after or after[0].start - source.end() > 12:
        return
    old, new = after[0], None
    if len(after) > 1 and _TO.match(sentence[old.stop : after[1].start]):
        new = after[1]
    if new is None or (old.unit and new.unit and old.unit != new.unit):
        return
    first, second = float(old.key), float(new.key)
    holds = second < first if match["down"] else second > first
    if first != second:
        yield holds, f"from {old.text} to {new.text} it went the other way"


def _are_alike(left: Value, right: Value) -> bool:
    """Check whether two numbers are amounts of one thing: of one unit, or both without one and telling by themselves."""
    if left.unit or right.unit:
        return left.unit == right.unit
    texts = left.text, right.text
    return all(_UNITLESS.search(text.replace(",", "")) and not _YEAR.fullmatch(text) for text in texts)


def _read_amounts(sentence: str) -> list[Value]:
    return sorted((value for value in find_values(sentence) if value.form == "number"), key=lambda value: value.start)
