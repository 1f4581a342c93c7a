"""Written sums, worked out again: `12 * 3 = 35` does not hold.

Only what is wholly written in digits is judged. A side that may be part of something longer (`2x + 3 = 7`,
`sqrt(9 + 16) = 5`) is left alone: silence is better than a wrong objection.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

__all__ = ["Equation", "equations", "value_of"]

_MADE_OF = "0123456789.,()+-*/^\u00d7\u00f7\u00b7\u2212=$\u20ac \t"
_MAX_RUN_CHARS = 300
"""What a written sum is made of, and how far it is looked for to both sides of its first `=`."""

_CALCULATES = re.compile(r"[\d)][ \t]{0,4}[-+*/^\u00d7\u00f7\u00b7\u2212]")
_NUMBER = re.compile(r"\d{1,15}(?:,\d{3})*(?:\.\d{1,12})?")
_LATEX = (("\\times", "*"), ("\\cdot", "*"), ("\\div", "/"), ("\\,", ""), ("\\$", ""))
_SAME = str.maketrans({"\u00d7": "*", "\u00f7": "/", "\u00b7": "*", "\u2212": "-", "$": None, "\u20ac": None})
_SPEAKS_OF_SUMS = frozenset(
    ("times", "of", "by", "plus", "minus", "half", "double", "twice", "over", "divided", "multiplied", "modulo", "mod")
)
_WORD_BEFORE = re.compile(r"(\w{1,20})\s*\Z")
_BULLET = re.compile(r"[ \t]{0,20}(?:[-*+]|\d{1,2}[.)])[ \t]+(?=[\d(-])")
_MAX_DEPTH, _MAX_POWER, _MAX_VALUE = 12, 64, 1e15
_MAX_EQUATIONS = 200


@dataclass(frozen=True, slots=True)
class Equation:
    """Two sides that are said to be equal, at least one of them a calculation.

    Attributes:
        start: Where it begins in the text, and
        end: where it ends.
        left: What the left side comes to.
        right: What the right side comes to.
        holds: Whether they are equal, as far as they are rounded.
    """

    start: int
    end: int
    left: float
    right: float
    holds: bool


@lru_cache(maxsize=256)
def equations(text: str) -> tuple[Equation, ...]:
    """Find the sums of *text* that can be worked out again; the first 200.

    Kept for a while: features and several contracts ask for those of the same texts.
    """
    if "=" not in text:
        return ()
    for latex, plain in _LATEX if "\\" in text else ():
        text = text.replace(latex, plain.ljust(len(latex)))  # same length: places stay
    found: list[Equation] = []
    at = text.find("=")
    while at >= 0 and len(found) < _MAX_EQUATIONS:
        before, after = text[max(0, at - _MAX_RUN_CHARS) : at], text[at : at + _MAX_RUN_CHARS]
        start = at - (len(before) - len(before.rstrip(_MADE_OF)))
        end = at + len(after) - len(after.lstrip(_MADE_OF))
        if _CALCULATES.search(text, start, end) and "==" not in text[at:end]:
            found += _in_run(text, start, end)
        at = text.find("=", end)
    return tuple(found)


def _in_run(text: str, start: int, end: int) -> Iterator[Equation]:
    bullet = _BULLET.match(text, start, end) if start == 0 or text[start - 1] == "\n" else None
    start = bullet.end() if bullet else start
    places = [start - 1, *(start + m.start() for m in re.finditer("=", text[start:end])), end]
    sides = [(places[i] + 1, places[i + 1]) for i in range(len(places) - 1)]
    read: list[_Side | None] = []
    for number, (begin, stop) in enumerate(sides):
        side = text[begin:stop].translate(_SAME)
        cut = (number == 0 and _may_go_further_left(text, start, side)) or (
            number == len(sides) - 1 and _may_go_further_right(text, end)
        )
        read.append(None if cut else _side(side))
    for (left, right), ((begin, _), (_, stop)) in zip(pairwise(read), pairwise(sides), strict=True):
        if left is not None and right is not None and (left.operators or right.operators):
            lead = len(text[begin:stop]) - len(text[begin:stop].lstrip(" \t,.)"))
            shown = text[begin:stop].rstrip(" \t,.(")
            yield Equation(begin + lead, begin + len(shown), left.value, right.value, _equal(left, right))


@dataclass(frozen=True, slots=True)
class _Side:
    value: float
    operators: int
    decimals: int
    divides: bool


def _side(text: str) -> _Side | None:
    stripped = text.strip().rstrip(".,(").strip()
    if not stripped or not any(char.isdigit() for char in stripped):
        return None
    value = value_of(stripped)
    if value is None:
        return None
    operators = sum(stripped.count(sign) for sign in "+-*/^") - (stripped[0] == "-")
    decimals = max((len(n.partition(".")[2]) for n in _NUMBER.findall(stripped)), default=0)
    return _Side(value, operators, decimals, "/" in stripped)


def _equal(left: _Side, right: _Side) -> bool:
    """Compare as exactly as the less exact side is written: a quotient may be rounded to its last place."""
    if math.isclose(left.value, right.value, rel_tol=1e-9, abs_tol=1e-9):
        return True
    rounded = [side for side in (left, right) if not side.operators] or [left, right]
    is_inexact = left.divides or right.divides or left.decimals != right.decimals
    slack = max(10.0**-side.decimals for side in rounded) if is_inexact else 0.0
    return abs(left.value - right.value) <= slack * 1.001


def _may_go_further_left(text: str, start: int, side: str) -> bool:
    """Tell whether the first side of a run may be the end of something that is not all digits."""
    before = text[max(0, start - 24) : start]
    if not before or before[-1] == "\n":
        return False
    if before[-1].isalnum() or before[-1] in "_)]}%":
        is_glued = not side[:1].isspace()
        if is_glued or side.strip()[:1] in ("+", "*", "/", "^", "-"):
            return True
    word = _WORD_BEFORE.search(before)
    if word is None:
        return before.rstrip()[-1:] in ("%", "]", "}", "|", "!", "&", "<", ">")
    return (len(word[1]) == 1 and word[1] not in "aA") or word[1].lower() in _SPEAKS_OF_SUMS


def _may_go_further_right(text: str, end: int) -> bool:
    """Tell whether the last side of a run may go on in something that is not all digits."""
    after = text[end : end + 12]
    if not after:
        return False
    if text[end - 1].isspace():
        word = re.match(r"\w+", after)
        return after[0] in "%\\!|" or (word is not None and (len(word[0]) == 1 or word[0].lower() in _SPEAKS_OF_SUMS))
    return after[0].isalnum() or after[0] in "_%\\!([{|"


def value_of(text: str) -> float | None:
    """Work out a sum of numbers, `+ - * / ^ **` and brackets; None where it is none, or too large."""
    parser = _Parser(text.replace("**", "^"))
    try:
        value = parser.sum(0)
    except (_NoSum, ZeroDivisionError, OverflowError):
        return None
    return value if parser.is_at_end() and abs(value) <= _MAX_VALUE else None


class _NoSum(Exception):
    """The text is no sum."""


class _Parser:
    """Reads a sum from left to right, one character ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def is_at_end(self) -> bool:
        return not self._next()

    def sum(self, depth: int) -> float:
        value = self._product(depth)
        while (sign := self._next()) in ("+", "-") and sign:
            self._at += 1
            term = self._product(depth)
            value = value + term if sign == "+" else value - term
        return value

    def _product(self, depth: int) -> float:
        value = self._power(depth)
        while (sign := self._next()) in ("*", "/") and sign:
            self._at += 1
            factor = self._power(depth)
            value = value * factor if sign == "*" else value / factor
        return value

    def _power(self, depth: int) -> float:
        base = self._factor(depth)
        if self._next() != "^":
            return base
        self._at += 1
        exponent = self._factor(depth)
        if abs(exponent) > _MAX_POWER or (base < 0 and exponent != int(exponent)):
            raise _NoSum
        return float(base**exponent)

    def _factor(self, depth: int) -> float:
        if depth > _MAX_DEPTH:
            raise _NoSum
        sign = self._next()
        if sign == "-":
            self._at += 1
            return -self._power(depth + 1)
        if sign == "(":
            self._at += 1
            value = self.sum(depth + 1)
            if self._next() != ")":
                raise _NoSum
            self._at += 1
            return value
        number = _NUMBER.match(self._text, self._at)
        if number is None:
            raise _NoSum
        self._at = number.end()
        return float(number[0].replace(",", ""))

    def _next(self) -> str:
        while self._at < len(self._text) and self._text[self._at] in " \t":
            self._at += 1
        return self._text[self._at : self._at + 1]
