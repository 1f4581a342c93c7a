"""Percentages that are written out beside what they are of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from blamespan_tracer.checks.check import ExaminedRun, Finding, check

_NUMBER: Final = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_MONEY: Final = r"(?:EUR |USD |GBP |[$\u20ac\u00a3])?"
_END: Final = r"(?![\w%]|[.,]\d| ?(?:[-+*/\u00d7%]|percent))"
_SHARE: Final = re.compile(
    rf"(?<![\w.,$])(?P<part>{_NUMBER})(?: [^\W\d_]+){{0,3}} (?:of|out of|in) "
    rf"(?:the |all |a total of )?(?P<whole>{_NUMBER})"
    r"(?: [^\W\d_]+){0,3},? ?(?:\(|=|is|are|so|that is|which is|or|makes)[^\d.;%\n(]{0,30}"
    rf"(?P<percent>{_NUMBER}) ?%(?! of)"
)
"""`72 errors in 8,000 requests = 0.9 %`."""
_PART: Final = re.compile(
    rf"(?<![\w.,])(?P<percent>{_NUMBER}) ?% of {_MONEY}(?P<whole>{_NUMBER})(?: ?[^\W\d_]{{1,4}})? "
    rf"(?:=|is|are|makes|comes to) {_MONEY}(?P<part>{_NUMBER}){_END}"
)
"""`8 % of 2,450 is 196`."""
_LINE: Final = re.compile(
    rf"(?<![\w.,])(?<!= ){_MONEY}(?P<whole>{_NUMBER})(?: ?[^\W\d_]{{1,4}})?, "
    rf"(?!plus|minus|less)(?:[^\W\d_]+ ){{1,3}}(?P<percent>{_NUMBER}) ?% ?= ?"
    rf"{_MONEY}(?P<part>{_NUMBER}){_END}"
)
"""`sales 2,450, commission 8 % = 196`."""
_HEDGED: Final = re.compile(
    r"(?i)\b(?:about|around|roughly|approximately|nearly|almost|over|under|more|less|at|up|top|among)\b|[~\u2248]"
)
_MOST_BEFORE: Final = 15
"""Characters before a share in which it may be hedged."""
_YEAR: Final = re.compile(r"(?:19|20)\d\d")


@check(
    "percentage-holds", "A percentage is that of the numbers that it is written beside.", mode="mast:FM-2.6", trust=0.8
)
def percentages_hold(run: ExaminedRun) -> Iterator[Finding]:
    """Work out again which share a number is of another one, where a sentence states both and the share."""
    for step in run.decisions:
        if step.kind == "tool_call":
            continue
        for sentence in run.sentences(step):
            shares = [match for form in (_SHARE, _PART, _LINE) for match in form.finditer(sentence)]
            for match in shares:
                part, whole, percent = (float(match[name].replace(",", "")) for name in ("part", "whole", "percent"))
                if (
                    not whole
                    or _HEDGED.search(sentence[max(0, match.start() - _MOST_BEFORE) : match.end()])
                    or _YEAR.fullmatch(match["whole"])
                ):
                    continue
                if match.re is _SHARE:
                    holds = _is_rounded(match["percent"], percent, 100 * part / whole)
                else:
                    holds = _is_rounded(match["part"], part, percent * whole / 100)
                reason = f"{match['part']} of {match['whole']} is {100 * part / whole:.3g} %"
                yield Finding(step.index, "pass" if holds else "fail", sentence, "" if holds else reason)


def _is_rounded(text: str, value: float, exact: float) -> bool:
    """Check whether a number is the exact one, rounded or cut off to as many places as it is written with."""
    unit = 10.0 ** -len(text.partition(".")[2])
    return -0.501 * unit <= exact - value < unit
