"""Sums with their results, worked out again: `12 * 3 = 35` does not hold, nor does "12 * 3 gives 35".

Only what is wholly written in digits is judged. A side that may be part of something longer (`2x + 3 = 7`,
`sqrt(9 + 16) = 5`) is left alone: silence is better than a wrong objection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from blamespan_tracer.representation.arithmetic import Side, are_equal, goes_on_after, goes_on_before, side_of
from blamespan_tracer.representation.stated_sums import stated_sums

__all__ = ["Equation", "equations"]

_MADE_OF = "0123456789.,()+-*/^\u00d7\u00f7\u00b7\u2212=$\u20ac \t"
_MAX_RUN_CHARS = 300
"""What a written sum is made of, and how far it is looked for to both sides of its first `=`."""

_CALCULATES = re.compile(r"[\d)][ \t]{0,4}[-+*/^\u00d7\u00f7\u00b7\u2212]")
_LATEX = (("\\times", "*"), ("\\cdot", "*"), ("\\div", "/"), ("\\,", ""), ("\\$", ""))
_BULLET = re.compile(r"[ \t]{0,20}(?:[-*+]|\d{1,2}[.)])[ \t]+(?=[\d(-])")
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

    def comes_to(self, value: float) -> bool:
        """Check whether its right side is *value*, but for rounding."""
        return abs(self.right - value) < 1e-6 * max(1.0, abs(value))


@lru_cache(maxsize=256)
def equations(text: str) -> tuple[Equation, ...]:
    """Find the sums of *text* that can be worked out again, in order; of those with `=`, and in words, the first 200.

    Kept for a while: features and several contracts ask for those of the same texts.
    """
    written = _written(text) if "=" in text else []
    stated = [Equation(*each) for each in stated_sums(text)]
    return tuple(sorted([*written, *stated], key=lambda each: each.start))


def _written(text: str) -> list[Equation]:
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
    return found


def _in_run(text: str, start: int, end: int) -> Iterator[Equation]:
    bullet = _BULLET.match(text, start, end) if start == 0 or text[start - 1] == "\n" else None
    start = bullet.end() if bullet else start
    places = [start - 1, *(start + m.start() for m in re.finditer("=", text[start:end])), end]
    sides = [(places[i] + 1, places[i + 1]) for i in range(len(places) - 1)]
    read: list[Side | None] = []
    for number, (begin, stop) in enumerate(sides):
        side = text[begin:stop]
        cut = (number == 0 and goes_on_before(text, start, side)) or (
            number == len(sides) - 1 and goes_on_after(text, end)
        )
        read.append(None if cut else side_of(side))
    for (left, right), ((begin, _), (_, stop)) in zip(pairwise(read), pairwise(sides), strict=True):
        if left is not None and right is not None and (left.operators or right.operators):
            lead = len(text[begin:stop]) - len(text[begin:stop].lstrip(" \t,.)"))
            shown = text[begin:stop].rstrip(" \t,.(")
            yield Equation(begin + lead, begin + len(shown), left.value, right.value, are_equal(left, right))
