"""Who changes code that somebody else wrote: most of its lines are there again, but not all.

Dims: N merged steps.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.reading import Reading

__all__ = ["altered_code"]

Floats = NDArray[np.float64]

_LEAST_TOKENS, _MOST_SHARED = 2, 0.5
"""Tokens of a line that can be told from others; share of the lines of two pieces of code that makes them one."""


def altered_code(run: Analysis) -> Floats:
    """Return which steps show another agent's latest code with some of its lines changed, left out or added: (N,)."""
    found = np.zeros(len(run.steps))
    latest: tuple[int, frozenset[tuple[int, ...]]] = (-1, frozenset())
    steps = run.segments.speaking_steps()
    for segment, lines in _code(run.reading).items():
        step, speaker = steps[segment], int(run.segments.speaker[segment])
        if step < 0:
            continue
        author, before = latest
        shared = len(lines & before)
        if author != speaker and before != lines and shared >= _MOST_SHARED * max(len(lines), len(before)):
            found[step] = 1.0
        latest = (author if before == lines else speaker, lines)
    return found


def _code(reading: Reading) -> dict[int, frozenset[tuple[int, ...]]]:
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
