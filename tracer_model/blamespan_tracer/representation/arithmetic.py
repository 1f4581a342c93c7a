"""Sums of digits worked out: `12 * 3 + 4`, `(1 + 2) / 4`."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

__all__ = ["NUMBER", "Side", "are_equal", "goes_on_after", "goes_on_before", "side_of", "value_of"]

NUMBER = r"\d{1,15}(?:,\d{3})*(?:\.\d{1,12})?"
"""Pattern of a number: `1,204.50`."""

_NUMBER = re.compile(NUMBER)
_SAME = str.maketrans({"\u00d7": "*", "\u00f7": "/", "\u00b7": "*", "\u2212": "-", "$": None, "\u20ac": None})
_SPEAKS_OF_SUMS = frozenset(
    ("times", "of", "by", "plus", "minus", "half", "double", "twice", "over", "divided", "multiplied", "modulo", "mod")
)
_WORD_BEFORE = re.compile(r"(\w{1,20})\s*\Z")
_BELOW_ZERO = re.compile(r"\s+[-\u2212]\d")
"""How a side begins with a number below zero, and not with a sign that takes away from what stands before it."""
_SIGNS = frozenset("+-*/^\u00d7\u00f7\u00b7\u2212")
_MAX_DEPTH, _MAX_POWER, _MAX_VALUE = 12, 64, 1e15


@dataclass(frozen=True, slots=True)
class Side:
    """One side of an equation.

    Attributes:
        value: What it comes to.
        operators: How many signs of calculation it has; none in a bare number.
        decimals: Most places behind the point of any of its numbers.
        divides: Whether it may have been rounded.
    """

    value: float
    operators: int
    decimals: int
    divides: bool


def side_of(text: str) -> Side | None:
    """Read one side of an equation; None where it cannot be worked out."""
    stripped = text.translate(_SAME).strip().rstrip(".,(").strip()
    if not stripped or not any(char.isdigit() for char in stripped):
        return None
    value = value_of(stripped)
    if value is None:
        return None
    operators = sum(stripped.count(sign) for sign in "+-*/^") - (stripped[0] == "-")
    decimals = max((len(n.partition(".")[2]) for n in _NUMBER.findall(stripped)), default=0)
    return Side(value, operators, decimals, "/" in stripped)


def are_equal(left: Side, right: Side) -> bool:
    """Compare as exactly as the less exact side is written: a quotient may be rounded to its last place."""
    if math.isclose(left.value, right.value, rel_tol=1e-9, abs_tol=1e-9):
        return True
    rounded = [side for side in (left, right) if not side.operators] or [left, right]
    is_inexact = left.divides or right.divides or left.decimals != right.decimals
    slack = max(10.0**-side.decimals for side in rounded) if is_inexact else 0.0
    return abs(left.value - right.value) <= slack * 1.001


def goes_on_before(text: str, start: int, side: str) -> bool:
    """Check whether the first side of a run may be the end of something that is not all digits."""
    before = text[max(0, start - 24) : start]
    if not before or before[-1] == "\n":
        return False
    if before[-1].isalnum() or before[-1] in "_)]}%":
        is_glued = not side[:1].isspace()
        if is_glued or (side.strip()[:1] in _SIGNS and not _BELOW_ZERO.match(side)):
            return True
    word = _WORD_BEFORE.search(before)
    if word is None:
        return before.rstrip()[-1:] in ("%", "]", "}", "|", "!", "&", "<", ">")
    return (len(word[1]) == 1 and word[1] not in "aA") or word[1].lower() in _SPEAKS_OF_SUMS


def goes_on_after(text: str, end: int) -> bool:
    """Check whether the last side of a run may go on in something that is not all digits."""
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
