"""Sums whose result is said in words: "12 × 3 gives 36", "the total is 36, which is 12 × 3".

A clause is judged where it has one calculation, one other number, and words that make that number its result. All
else is left alone: ranges and dates (`3-5`, `24/7`), guesses ("about 40"), factorials, LaTeX, and clauses that deny or
compare.
"""  # noqa: RUF002  # the sign is what people write

from __future__ import annotations

import re
from collections.abc import Iterator

from blamespan_tracer.representation.arithmetic import NUMBER, are_equal, goes_on_before, side_of

__all__ = ["stated_sums"]

_SIGN = "(?: ?[\u00d7\u00f7\u00b7] ?| [-+*/\u2212] )"
_OPERAND = rf"\(?[$\u20ac]?{NUMBER}\)?"
_FIRST = rf"(?:(?<![\d)] )[-\u2212](?=\d))?{_OPERAND}"
"""Where nothing stands before it to take away from, it may be below zero."""
_SUM = re.compile(rf"(?<![\w.,/^%$\u20ac-]){_FIRST}(?:{_SIGN}{_OPERAND}){{1,40}}(?![\w^%(!]|\)!|[.,]\d| ?%)")
_HAS_SIGN = re.compile(rf"\d\)?{_SIGN}[($\u20ac\d]")
_OTHER = re.compile(rf"(?<![\w.,/-])-?[$\u20ac]?{NUMBER}(?![\w%/]|[.,]\d| ?%)")
_FOLLOWS_SIGN = re.compile(r"(?:[-+/^\u00d7\u00f7\u00b7\u2212]|(?<!\*)\*)\s*\Z")
_LIST_MARK = re.compile(r"\s*(?:[-*+]|\d{1,2}[.)])\s+")
_CLAUSE_END = re.compile(r"[.!?;](?=\s|\Z)|\n")
_REACH = 240
"""How far a clause goes to both sides of its calculation, in characters."""

_MAX_SUMS = 200
_RESULT_VERBS = (
    r"is|are|was|were|gives?|giving|makes?|making|yields?|equals?|totals?|comes?|amounts?|results?|leads?|leaves?"
    r"|leaving|becomes?|gets?|have|has|obtain|arrive|produces?|returns?|means|works?|turns?|find|reach|be"
)
_IS = rf"(?:\b(?:{_RESULT_VERBS})\b|[\u2192\u21d2\u2248:]|->|=>)"
_GIVES = re.compile(_IS, re.IGNORECASE)
_GIVES_AT_ONCE = re.compile(rf"[\s)*]{{0,4}}{_IS}(?:[\s*]+[a-z]+){{0,5}}[\s*$\u20ac-]{{0,4}}\Z", re.IGNORECASE)
_COMES_FROM = re.compile(
    r"\b(?:which is|that is|this is|namely|i\.e\.|from|since|because|as|being|via|by)\b", re.IGNORECASE
)
_BESIDE = re.compile(r"[\s*]*(?:[^\W\d]+[\s*]*){0,2}\Z")
_LEADS_IN = re.compile(
    r"(?:\A|[,:]\s*)(?:so |then |and |now )?(?:working |computing |starting |going )?"
    r"(?:with|since|from|given|using|taking|computing|calculating|by|as|adding|out|of)\s*\Z",
    re.IGNORECASE,
)
_DENIES = re.compile(
    r"n't\b|\b(?:not|never|rather|instead|about|approximately|roughly|around|almost|nearly|least|most|than|would|should"
    r"|if|unless|wrong|incorrect|mistaken|mod|modulo|between|versus|vs)\b|~",
    re.IGNORECASE,
)


def stated_sums(text: str) -> Iterator[tuple[int, int, float, float, bool]]:
    """Find sums without `=` that can be worked out again; of the first 200 calculations.

    Yields:
        Where it begins and ends in *text*, what the calculation comes to, the result that is said, and whether the two
        are equal as far as they are rounded.
    """
    if not _HAS_SIGN.search(text):
        return
    for count, found in enumerate(_SUM.finditer(text)):
        if count >= _MAX_SUMS:
            return
        begin, end = _clause(text, found.start(), found.end())
        if goes_on_before(text, found.start(), found[0]) or _FOLLOWS_SIGN.search(text[begin : found.start()]):
            continue
        result = _result(text, begin, found.start(), found.end(), end)
        if result is None:
            continue
        left, right = side_of(_unwrapped(found[0])), side_of(result[0])
        if left is not None and right is not None:
            first, last = min(found.start(), result.start()), max(found.end(), result.end())
            yield first, last, left.value, right.value, are_equal(left, right)


def _clause(text: str, start: int, end: int) -> tuple[int, int]:
    """Find the clause around a place, without the mark of a list."""
    before = [m.end() for m in _CLAUSE_END.finditer(text, max(0, start - _REACH), start)]
    after = _CLAUSE_END.search(text, end, end + _REACH)
    begin = before[-1] if before else max(0, start - _REACH)
    mark = _LIST_MARK.match(text, begin, start)
    return (mark.end() if mark else begin), (after.start() if after else min(len(text), end + _REACH))


def _result(text: str, begin: int, start: int, end: int, stop: int) -> re.Match[str] | None:
    """Find the number that a clause says its calculation comes to; None where that is not plain."""
    around = text[begin:start] + " " + text[end:stop]
    if "=" in around or "\\" in around or _DENIES.search(around) or _HAS_SIGN.search(around):
        return None
    others = [*_OTHER.finditer(text, begin, start), *_OTHER.finditer(text, end, stop)]
    if len(others) != 1 or len(re.findall(r"\d+", around)) != len(re.findall(r"\d+", others[0][0])):
        return None
    result = others[0]
    if result.start() < start:
        between = text[result.end() : start]
        is_beside = text[start] == "(" and _BESIDE.match(between)
        return result if is_beside or _COMES_FROM.search(between) else None
    if _GIVES_AT_ONCE.match(text[end : result.start()]):
        return result
    is_led_in = text[end : end + 1] == "," and _LEADS_IN.search(text[begin:start])
    return result if is_led_in and _GIVES.search(text, end, result.start()) else None


def _unwrapped(text: str) -> str:
    """Drop a bracket that belongs to the text around."""
    surplus = text.count("(") - text.count(")")
    return text.removeprefix("(") if surplus > 0 else text.removesuffix(")") if surplus < 0 else text
