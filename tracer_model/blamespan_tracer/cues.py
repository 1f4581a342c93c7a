"""Words and two-word phrases that hint at what a step does: hedges, objects, checks, ends, fails.

English only, and hints only: whatever another language says, the features that compare steps with each other still
hold. A word may hint at several things.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

_WORDS: Mapping[str, str] = {
    "hedge": (
        "assume assumes assumed assuming assumption likely probably perhaps maybe might presumably guess guessing "
        "unsure placeholder hypothetical hypothetically simulate simulated mock dummy seems apparently possibly "
        "estimate estimated fairly reasonably suppose unclear approximately roughly uncertain plausibly supposedly "
        "speculation guessed ballpark believe"
    ),
    "error": (
        "error errors exception traceback failed failure fails timeout unavailable denied undefined unreachable crash "
        "crashed aborted stderr refused expired forbidden unauthorized malformed"
    ),
    "inability": "sorry apologize unfortunately unable cannot can't couldn't won't impossible unknown missing",
    "end": (
        "terminate terminated done finished complete completed conclude concluded finalize finalized stop concluding "
        "ended"
    ),
    "check": (
        "verify verified verifies verifying verification check checked checks checking confirm confirmed confirms "
        "confirming validate validated validation test tested tests testing review reviewed recheck recalculate "
        "compare inspect inspected examine examined audited recomputed rechecked assess assessed assessment"
    ),
    "agree": (
        "agree agreed agrees correct right approved approve approves accurate consistent valid sound accepted accept "
        "lgtm holds endorse endorsed okay satisfied concur concurs convincing convinced flawless"
    ),
    "object": (
        "incorrect wrong mistake mistaken mistakes disagree erroneous inaccurate flawed contradicts contradiction "
        "mismatch inconsistent discrepancy reject rejected rejects revise corrected correction fix fixed amend "
        "misread overlooked invalid unsupported doubt off dispute disputes disputed refute refuted dismiss dismissed "
        "faulty inexact unconvinced objection"
    ),
    "contrast": "however but although instead actually rather yet nevertheless contrary whereas despite",
    "negation": "not no never none without nothing neither nor isn't aren't doesn't don't didn't wasn't shouldn't",
    "plan": "plan plans step steps first second third then next strategy approach order stages",
    "conclusion": (
        "therefore thus hence consequently answer result conclusion total overall finally final outcome upshot "
        "ultimately accordingly eventually"
    ),
    "request": "please need needs could would let ask asks request provide send give tell",
    "certainty": "definitely certainly clearly obviously surely always exactly undoubtedly guaranteed certain",
    "skip": (
        "skip skipped skipping ignore ignored ignoring omit omitted unnecessary needless disregard bypass trust waive "
        "waived superfluous redundant dispense spare neglect"
    ),
    "vague": (
        "some something somehow several various appropriate relevant stuff things about mentioned expected sundry "
        "assorted reasonable adequate handful numerous couple sensible sort sorts"
    ),
    "redo": "again repeat repeated once restart anew redo already before earlier previous previously over",
    "you": "you your yours you're you've",
    "self": "i my me mine i'm i'll i've",
    "team": "we our us let's",
}

CUES = tuple(_WORDS)
"""Names of what words hint at; by place."""

_PHRASES: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("you", "said"): "object",
        ("not", "correct"): "object",
        ("not", "right"): "object",
        ("not", "match"): "object",
        ("not", "consistent"): "object",
        ("should", "be"): "object",
        ("no", "need"): "skip",
        ("without", "checking"): "skip",
        ("without", "verification"): "skip",
        ("not", "found"): "error",
        ("no", "such"): "error",
        ("not", "sure"): "hedge",
        ("looks", "good"): "agree",
        ("looks", "right"): "agree",
        ("final", "answer"): "conclusion",
        ("start", "over"): "redo",
        ("from", "scratch"): "redo",
        ("timed", "out"): "error",
        ("too", "many"): "error",
        ("bad", "request"): "error",
        ("field", "required"): "error",
        ("incomplete", "input"): "error",
    }
)
"""Pairs of neighbouring words, and what they hint at together."""

_BY_WORD: dict[str, frozenset[int]] = {}
for _place, _cue in enumerate(CUES):
    for _word in _WORDS[_cue].split():
        _BY_WORD[_word] = _BY_WORD.get(_word, frozenset()) | {_place}

_ERROR = CUES.index("error")
_NONE = frozenset(("0", "no", "not", "zero", "without", "never"))
"""What stands before an error that there is none of: "3 passed, 0 failed"."""
_ERROR_CLASS = re.compile(r"\w{2,36}(?:Error|Exception|Fault)\Z")

_STOP_WORDS = (
    "a an the of to in on at for from by with as is are was were be been being it its this that these those there "
    "here and or if so than then else when while which who whom whose what where why how all any each both more "
    "most other some such only own same too very can will just has have had do does did also into out up down over "
    "under about after before between during per via not no nor but i you he she we they me him her us them my "
    "your his our their would could should may might must shall let please one s t re ve ll m d"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
"""Words that say nothing about what a sentence is about."""


def count_cues(words: Iterable[str]) -> list[int]:
    """Count how many words and pairs of words of a text hint at each of `CUES`.

    Args:
        words: Those of `tokens.find_words`, as they are written.
    """
    counts = [0] * len(CUES)
    before = ""
    for word in words:
        small, cues, is_error = _look_up(word)
        for cue in cues:
            counts[cue] += 1
        if is_error and before in _NONE:
            counts[_ERROR] -= 1
        phrase = _PHRASES.get((before, small))
        if phrase is not None:
            counts[CUES.index(phrase)] += 1
        before = small
    return counts


@lru_cache(maxsize=1 << 15)
def _look_up(word: str) -> tuple[str, tuple[int, ...], bool]:
    """Return a word in small letters, what it hints at, places of `CUES`, and whether an error is among these."""
    small = word.lower()
    cues = _BY_WORD.get(small, frozenset())
    cues = cues | {_ERROR} if _ERROR_CLASS.match(word) else cues
    return small, tuple(sorted(cues)), _ERROR in cues
