"""Counts, against what is listed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Final

from blamespan.trace import Step
from blamespan_tracer.checks.check import ExaminedRun, Finding, Source, check
from blamespan_tracer.ledger.records import fold_word

_WORDS: Final = "two three four five six seven eight nine ten eleven twelve"
_NUMBERS: Final = {word: number for number, word in enumerate(_WORDS.split(), start=2)}
_COUNT: Final = rf"(?P<n>\d{{1,2}}|{'|'.join(_NUMBERS)})"
_LISTING: Final = re.compile(
    rf"(?i)(?:^|[.;,(]\s+|\b(?:the|these|all|only|are|is|found|has|have|got|contains?|qualify|remain) ){_COUNT} "
    r"(?P<noun>[^\W\d_]+(?:[ -][^\W\d_]+){0,4}): (?P<items>[^:;\n?!]+?)(?:\.(?:\s|$)|$)"
)
"""`Three tickets qualify: ORB-101, ORB-118 and ORB-125.`"""
_NEXT: Final = re.compile(r",? (?:and|und|et|y) |, ")
_NAME: Final = re.compile(r"[*`'\"]*[^\W\d_]+[-_/#]?\d[\w-]*[*`'\"]*|[*`'\"]*[A-Z][^\W\d_]+[*`'\"]*")
"""What a list of things gives of each: an identifier or a name of one word."""
_OF_KIND: Final = re.compile(rf"(?i)(?<![\w.,:/-]){_COUNT} (?P<noun>[^\W\d_]{{3,}})\b")
_ALL: Final = re.compile(r"(?i)\b(?:all|every|everybody|everyone|everything|each|both|none|nobody)\b")
_EXCEPT: Final = re.compile(
    r"(?i)\?|\b(?:except|but|apart|besides|other|not|if|until|once|when|should|must|need|will)\b|n['\u2019]t\b"
)
_STATE: Final = re.compile(r"(?i)\b(?:is|are|was|were|have|has) (?:(?:all|both|now|each) )?([^\W\d_]+)")
_WORD: Final = re.compile(r"[^\W\d_]+")
_LEAST_LINES: Final = 3
_MOST_LINES: Final = 60


@check("count-holds", "A count is that of what is listed.", trust=0.8)
def counts_hold(run: ExaminedRun) -> Iterator[Finding]:
    """Count again what a sentence lists after a number, and what a tool listed by kind."""
    answer: Step | None = None
    lines: list[str] = []
    for step in run.trace.steps:
        if not run.trace.can_be_blamed(step):
            answer = step
            filled = (line for line in answer.content.splitlines() if line.strip())
            lines = list(islice(filled, _MOST_LINES + 1))
        elif step.kind == "message":
            for sentence in run.sentences(step):
                yield from _judge_listing(step, sentence)
                if answer is not None:
                    yield from _judge_kinds(step, sentence, answer, lines)
                    yield from _judge_all(step, sentence, answer, lines)


def _judge_listing(step: Step, sentence: str) -> Iterator[Finding]:
    """Count the items that follow a number, its noun and a colon."""
    match = _LISTING.search(sentence)
    if match is None:
        return
    items = _NEXT.split(match["items"].strip())
    if len(items) < 2 or not all(map(_NAME.fullmatch, items)):
        return
    count = _read(match["n"])
    if count != len(items):
        reason = f"{len(items)} are listed, not {match['n']}"
        yield Finding(step.index, "fail", sentence, reason, source=Source(step.index, match["items"]))
    else:
        yield Finding(step.index, "pass")


def _judge_kinds(step: Step, sentence: str, answer: Step, lines: Sequence[str]) -> Iterator[Finding]:
    """Count the lines of a tool's answer of each kind, where a sentence divides all of them up."""
    kinds = [(fold_word(match["noun"]), _read(match["n"])) for match in _OF_KIND.finditer(sentence)]
    if len(kinds) < 2 or not _LEAST_LINES <= len(lines) <= _MOST_LINES:
        return
    times = Counter(word for line in lines for word in {fold_word(word) for word in _WORD.findall(line)})
    told = {kind: count for kind, count in kinds if kind in times}
    if len(told) < 2 or {sum(times[kind] for kind in told), sum(told.values())} != {len(lines)}:
        return
    wrong = next((kind for kind, count in told.items() if count != times[kind]), None)
    if wrong is None:
        yield Finding(step.index, "pass")
    else:
        source = Source(answer.index, answer.content)
        yield Finding(
            step.index,
            "fail",
            sentence,
            f"{times[wrong]} of {len(lines)} lines are of the kind {wrong!r}",
            source=source,
        )


def _judge_all(step: Step, sentence: str, answer: Step, lines: Sequence[str]) -> Iterator[Finding]:
    """Look for a state that a sentence says of all, and that a line of the tool's answer has not.

    Each line names what it is, most of them with the state right behind it: `account ready, badge missing photo`.
    """
    if not _ALL.search(sentence) or _EXCEPT.search(sentence):
        return
    if not _LEAST_LINES <= len(lines) <= _MOST_LINES:
        return
    said = {fold_word(word) for word in _WORD.findall(sentence)}
    states = {fold_word(match[1]) for match in _STATE.finditer(sentence)}
    folded = [[fold_word(word) for word in _WORD.findall(line)] for line in lines]
    pairs = Counter(pair for words in folded for pair in {*pairwise(words)})
    for (thing, state), count in pairs.items():
        is_of_all = all(thing in words for words in folded)
        if not is_of_all or thing not in said or state not in states or 2 * count <= len(lines):
            continue
        if count == len(lines):
            yield Finding(step.index, "pass")
            continue
        index = next(index for index, words in enumerate(folded) if (thing, state) not in {*pairwise(words)})
        source = Source(answer.index, lines[index].strip())
        yield Finding(step.index, "fail", sentence, f"not every {thing!r} is {state!r}", source=source)


def _read(number: str) -> int:
    return _NUMBERS.get(number.lower()) or int(number)
