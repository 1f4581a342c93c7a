"""Code that cannot be right as it stands: it does not parse, lacks a number of the task, or has one that nobody gave.

Dims: G segments, N merged steps.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.reading import Flag

__all__ = ["CodeChecks", "find_code_checks"]

Floats = NDArray[np.float64]

_PYTHON = re.compile(r"```[ \t]*+(?:python|py|python3)[ \t]*+\n(.*?)\n[ \t]*+```", re.DOTALL | re.IGNORECASE)
_ESCAPE = re.compile(r"\\[^\n]")
_WARNED_OF = re.compile(r"\d(?:and|else|for|if|in|is|not|or)\b")
"""What the parser takes, and warns of."""

_MAX_CODE, _MAX_PIECES = 4_000, 4
"""Characters of a piece of code, and pieces of a step, that are parsed."""

_COMMON = frozenset(("0", "1", "2"))
"""Numbers that code has, or leaves out, for reasons of its own."""


@dataclass(frozen=True, slots=True)
class CodeChecks:
    """Per merged step: (N,) each.

    Attributes:
        breaks: Whether Python code in it does not parse.
        lacks_number: Whether code in it lacks a number that the task gives.
        new_number: Whether code in it has a number that nobody said before.
    """

    breaks: Floats
    lacks_number: Floats
    new_number: Floats


def find_code_checks(run: Analysis) -> CodeChecks:
    """Look at the code that each step shows."""
    reading, segments = run.reading, run.segments
    found = {name: np.zeros(len(run.steps)) for name in CodeChecks.__slots__}
    is_number = reading.has(Flag.NUMBER) & ~reading.numbers_list
    shows = np.bincount(reading.segment[reading.in_code], minlength=len(segments.owner)) > 0
    if not shows.any():
        return CodeChecks(**found)
    unsigned = [token.lstrip("-") for token in reading.tokens]
    of_task = {unsigned[token] for token in reading.token[is_number & (reading.segment == 0)].tolist()} - _COMMON
    known: set[str] = set()
    steps = segments.speaking_steps()
    bounds = np.searchsorted(reading.segment, np.arange(len(steps) + 1)).tolist()
    for segment, step in enumerate(steps):
        here = slice(bounds[segment], bounds[segment + 1])
        said = {unsigned[token] for token in reading.token[here][is_number[here]].tolist()}
        if step >= 0 and shows[segment]:
            in_code = is_number[here] & reading.in_code[here]
            numbers = {unsigned[token] for token in reading.token[here][in_code].tolist()}
            found["lacks_number"][step] = max(found["lacks_number"][step], bool(of_task - numbers))
            found["new_number"][step] = max(found["new_number"][step], bool(numbers - known - _COMMON))
            if not reading.is_cut[segment] and any(map(_breaks, _pieces(reading.texts[segment]))):
                found["breaks"][step] = 1.0
        known |= said
    return CodeChecks(**found)


def _pieces(text: str) -> Iterator[str]:
    for place, match in enumerate(_PYTHON.finditer(text)):
        if place < _MAX_PIECES and len(match[1]) <= _MAX_CODE:
            yield match[1]


def _breaks(code: str) -> bool:
    """Check whether Python does not parse *code*; what would make the parser warn is taken for sound."""
    plain = _ESCAPE.sub("xx", code)
    if _WARNED_OF.search(plain):
        return False
    try:
        ast.parse(plain)
    except SyntaxError:
        return True
    except (ValueError, RecursionError, MemoryError):  # null bytes, or nested too deep: who knows
        return False
    return False
