"""Code that cannot be right as it stands, and code of others that is changed.

It does not parse, lacks a number of the task, or has one that nobody gave.

Dims: G segments, N merged steps.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats
from blamespan_tracer.alternatives.network.representation.reading import Flag, Reading

_PYTHON = re.compile(r"```[ \t]*+(?:python|py|python3)[ \t]*+\n(.*?)\n[ \t]*+```", re.DOTALL | re.IGNORECASE)
_ESCAPE = re.compile(r"\\[^\n]")
_WARNED_OF = re.compile(r"\d(?:and|else|for|if|in|is|not|or)\b")
"""What the parser takes, and warns of."""

_MAX_CODE, _MAX_PIECES = 4_000, 4
"""Characters of a piece of code, and pieces of a step, that are parsed."""

_COMMON = frozenset(("0", "1", "2"))
"""Numbers that code has, or leaves out, for reasons of its own."""

_LEAST_TOKENS, _MOST_SHARED = 2, 0.5
"""Tokens of a line that can be told from others; share of the lines of two pieces of code that makes them one."""


def agents_keep_code_of_others(run: Analysis) -> Floats:
    """Look for steps that show another agent's latest code with some of its lines changed, left out or added."""
    alters = np.zeros(len(run.steps))
    latest: tuple[int, frozenset[tuple[int, ...]]] = (-1, frozenset())
    steps = run.segments.speaking_steps
    for segment, lines in _list_code_lines(run.reading).items():
        row, speaker = steps[segment], int(run.segments.speaker[segment])
        if row < 0:
            continue
        author, before = latest
        shared = len(lines & before)
        if author != speaker and before != lines and shared >= _MOST_SHARED * max(len(lines), len(before)):
            alters[row] = 1.0
        latest = (author if before == lines else speaker, lines)
    return alters


AGENTS_KEEP_CODE_OF_OTHERS = Evidence(lambda run: (agents_keep_code_of_others(run),), ("alters another's code",))


def find_code_faults(run: Analysis) -> tuple[Floats, ...]:
    """Look at the code that each step shows."""
    reading, segments = run.reading, run.segments
    breaks, lacks_number, new_number = np.zeros((3, len(run.steps)))
    is_number = reading.has(Flag.NUMBER) & ~reading.numbers_list
    shows = np.bincount(reading.segment[reading.in_code], minlength=len(segments.owner)) > 0
    if not shows.any():
        return breaks, lacks_number, new_number
    unsigned = [token.lstrip("-") for token in reading.tokens]
    of_task = {unsigned[token] for token in reading.token[is_number & (reading.segment == 0)].tolist()} - _COMMON
    stated: set[str] = set()
    steps = segments.speaking_steps
    bounds = np.searchsorted(reading.segment, np.arange(len(steps) + 1)).tolist()
    for segment, row in enumerate(steps):
        here = slice(bounds[segment], bounds[segment + 1])
        own = {unsigned[token] for token in reading.token[here][is_number[here]].tolist()}
        if row >= 0 and shows[segment]:
            in_code = is_number[here] & reading.in_code[here]
            numbers = {unsigned[token] for token in reading.token[here][in_code].tolist()}
            lacks_number[row] = max(lacks_number[row], bool(of_task - numbers))
            new_number[row] = max(new_number[row], bool(numbers - stated - _COMMON))
            if not reading.is_cut[segment] and any(map(_breaks, _pieces(reading.texts[segment]))):
                breaks[row] = 1.0
        stated |= own
    return breaks, lacks_number, new_number


CODE_FAULTS = Evidence(find_code_faults, ("its code breaks", "its code lacks a number", "its code has a new number"))


def _pieces(text: str) -> Iterator[str]:
    for index, match in enumerate(_PYTHON.finditer(text)):
        if index < _MAX_PIECES and len(match[1]) <= _MAX_CODE:
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


def _list_code_lines(reading: Reading) -> dict[int, frozenset[tuple[int, ...]]]:
    """Return the distinct lines of code in each segment that has some, as tokens."""
    lines: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    at = np.flatnonzero(reading.in_code)
    for segment, sentence, token in zip(
        reading.segment[at].tolist(), reading.sentence[at].tolist(), reading.token[at].tolist(), strict=True
    ):
        lines[segment][sentence].append(token)
    return {
        segment: frozenset(tuple(line) for line in of_segment.values() if len(line) >= _LEAST_TOKENS)
        for segment, of_segment in lines.items()
    }
