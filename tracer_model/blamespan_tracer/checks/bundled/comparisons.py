"""What a sentence says of two amounts that it names: which is more, and which way it went."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from blamespan_tracer.checks.check import ExaminedRun, Finding, check
from blamespan_tracer.ledger.values import Value, find_values

_COMPARES: Final = re.compile(
    r"(?i)\b(?:(?P<less>below|under|(?:less|lower|fewer|smaller|cheaper|shorter) than|within|no more than|at most)"
    r"|(?P<more>above|over|(?:more|higher|greater|larger|longer) than|exceed(?:s|ing)|at least|no less than))\b"
)
_EQUAL_FITS: Final = frozenset(("within", "no more than", "at most", "at least", "no less than"))
"""Comparisons that equal amounts keep, too."""

_TREND: Final = re.compile(
    r"(?i)\b(?:(?P<down>fell|falls|fallen|decreased|dropped|declined|shrank|sank|down)"
    r"|(?P<up>rose|rises|risen|increased|grew|grown|climbed|up))\b"
)
_FROM: Final = re.compile(r"(?i)\bfrom\b")
_TO: Final = re.compile(r"(?i)^[^\d.;:()]{0,30}\bto\b[^\d.;:()]{0,30}$")
_MOST_BEFORE_FIRST: Final = 12
"""Characters between `from` and the amount that it is said of."""

_HEDGED: Final = re.compile(
    r"(?i)\?|\b(?:if|when(?:ever)?|where|whether|unless|until|should|must|(?-i:may)|can|could|would|will|shall|needs?|"
    r"ha(?:s|ve|d) to|not|never|no longer|neither|nor|instead|rather|required?|only|goal|aim|plan(?:ned)?|"
    r"expect(?:ed)?|forecast|any|every|each|all|for|alert|rule|policy)\b|n't\b"
)
"""A sentence with one of them asks, sets or denies; it states no fact."""

_STATES: Final = re.compile(
    r"(?i)\b(?:is|are|was|were|comes? to|came to|stands? at|amounts? to|totals?|costs?|takes?|took|has|had|which)\b|="
    r"|,\s*(?:(?:and|so|thus|now|still|just|only|well|far|slightly|clearly|safely|comfortably|easily)\s+)*$"
)
"""What joins an amount and a comparison of it. After a comma the comparison comes at once: "15 euro, free above 300"
sets a rule."""
_LEADS_AWAY: Final = re.compile(r"(?i)[;:|]|\b(?:by|since|between|or|and|in|on|of the|with|so|therefore)\b")
"""What stands between two amounts that are not compared with each other."""
_MOST_WORDS: Final = 5
_MOST_CHARS: Final = 70
_TELLING: Final = re.compile(r"\d{3,}|\d\.\d")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")


@check("comparison-holds", "A comparison of two amounts holds.", mode="mast:FM-2.6", trust=0.8)
def comparisons_hold(run: ExaminedRun) -> Iterator[Finding]:
    """Hold what a sentence says of two amounts against these: 455 ms is not below 412 ms."""
    for step in run.decisions:
        if step.kind == "tool_call":
            continue
        for sentence in run.sentences(step):
            judged = [] if _HEDGED.search(sentence) else [*_judge_comparisons(sentence), *_judge_trend(sentence)]
            wrong = next((reason for holds, reason in judged if not holds), None)
            if wrong is not None:
                yield Finding(step.index, "fail", sentence, wrong)
            elif judged:
                yield Finding(step.index, "pass")


def _judge_comparisons(sentence: str) -> Iterator[tuple[bool, str]]:
    """Yield whether each `A is below B` holds, and why it does not."""
    found = list(_COMPARES.finditer(sentence))
    amounts = _read_amounts(sentence) if found else []
    for match in found:
        left = next((amount for amount in reversed(amounts) if amount.stop <= match.start()), None)
        right = next((amount for amount in amounts if amount.start >= match.end()), None)
        if left is None or right is None or not _are_alike(left, right):
            continue
        beside, between = sentence[left.stop : match.start()], sentence[match.end() : right.start]
        is_far = max(len(beside), len(between)) > _MOST_CHARS or len(between.split()) > _MOST_WORDS
        if is_far or not _STATES.search(beside) or _LEADS_AWAY.search(f"{beside} {between}"):
            continue
        first, second = float(left.key), float(right.key)
        holds = first < second if match["less"] else first > second
        said = match.group().lower()
        yield holds or (first == second and said in _EQUAL_FITS), f"{left.text} is not {said} {right.text}"


def _judge_trend(sentence: str) -> Iterator[tuple[bool, str]]:
    """Yield whether `rose from A to B` holds, and why it does not."""
    found = list(_TREND.finditer(sentence))
    source = _FROM.search(sentence, found[0].end()) if len(found) == 1 else None
    if source is None or source.start() - found[0].end() > _MOST_CHARS:
        return
    old, new = (*[amount for amount in _read_amounts(sentence) if amount.start >= source.end()], None, None)[:2]
    if old is None or new is None or old.start - source.end() > _MOST_BEFORE_FIRST:
        return
    is_one_thing = not (old.unit and new.unit) or old.unit == new.unit
    if is_one_thing and old.key != new.key and _TO.match(sentence[old.stop : new.start]):
        fell = float(new.key) < float(old.key)
        yield fell == bool(found[0]["down"]), f"from {old.text} to {new.text} it went the other way"


def _are_alike(left: Value, right: Value) -> bool:
    """Check whether two numbers are amounts of one thing: of one unit, or both without one and long enough to tell."""
    if left.unit or right.unit:
        return left.unit == right.unit
    texts = [value.text.replace(",", "") for value in (left, right)]
    return all(_TELLING.search(text) and not _YEAR.fullmatch(text) for text in texts)


def _read_amounts(sentence: str) -> list[Value]:
    numbers = (value for value in find_values(sentence) if value.form == "number")
    return sorted(numbers, key=lambda value: value.start)
