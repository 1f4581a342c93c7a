"""Who puts whose number right: "the total is 409, not 346" refutes 346.

A wrong sum that nobody refutes and somebody uses is what a failure is made of; a right one that is refuted is, too.

Dims: N merged steps, T tokens.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import Segments
from blamespan_tracer.representation.equations import Equation
from blamespan_tracer.representation.reading import Flag, Mask, Reading, spelled

__all__ = ["Corrections", "find_corrections"]

Floats = NDArray[np.float64]

_MAX_PLACES = 64
"""Places of a number that are looked at, the first, to tell whether it is right."""


@dataclass(frozen=True, slots=True)
class Corrections:
    """Per merged step: (N,) each.

    Attributes:
        refuted: Whether a number that it was the first to say is refuted later.
        refutes_right: Whether it refutes what the task, a tool or a sum that holds gave.
        refutes_wrong: Whether it refutes what a sum that does not hold gave.
        stands: Whether a sum of it does not hold, and its result is said again later and refuted by nobody.
    """

    refuted: Floats
    refutes_right: Floats
    refutes_wrong: Floats
    stands: Floats


def find_corrections(run: Analysis) -> Corrections:
    """Follow every number that is refuted, and each sum that does not hold, to what becomes of it."""
    reading, segments, sums = run.reading, run.segments, run.equations
    found = {name: np.zeros(len(run.steps)) for name in Corrections.__slots__}
    said, refuted = _numbers(reading, segments, run.facts.refuted)
    for token, by in refuted.items():
        first = said[token][0] if said[token] else -1
        if 0 <= first < by[-1] and segments.owner[first] >= 0 and segments.is_said[first]:
            found["refuted"][segments.owner[first]] = 1.0
        for segment in by:
            holds = _verdict(float(reading.tokens[token]), segment, said[token], sums, segments)
            if holds is not None:
                found["refutes_right" if holds else "refutes_wrong"][segments.owner[segment]] = 1.0
    wrong = [(segment, each.right) for segment, each_of in sums.items() for each in each_of if not each.holds]
    for segment, value in wrong:
        token = reading.places.get(spelled(value), -1)
        if not refuted.get(token) and token in said and said[token][-1] > segment:
            found["stands"][segments.owner[segment]] = 1.0
    return Corrections(**found)


def _numbers(
    reading: Reading, segments: Segments, is_refuted: Mask
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """List where each number is said, and where an agent refutes it: segments by token, ascending."""
    is_said = (np.array(segments.speaking_steps()) >= 0)[reading.segment]
    is_number = reading.has(Flag.NUMBER) & ~reading.in_code
    return _places(reading, is_number & ~is_refuted), _places(reading, is_refuted & is_said)


def _places(reading: Reading, of: Mask) -> dict[int, list[int]]:
    places: dict[int, list[int]] = defaultdict(list)
    for token, segment in zip(reading.token[of].tolist(), reading.segment[of].tolist(), strict=True):
        places[token].append(segment)
    return places


def _verdict(
    value: float,
    segment: int,
    said_in: Sequence[int],
    sums: Mapping[int, tuple[Equation, ...]],
    segments: Segments,
) -> bool | None:
    """Check whether what stands before *segment* gives a number rightly; None where nothing tells."""
    for place in dict.fromkeys(said_in[:_MAX_PLACES]):
        if place >= segment:
            return None
        if segments.is_given[place] or segments.is_result[place]:
            return True
        for each in sums.get(place, ()):
            if each.comes_to(value):
                return each.holds
    return None
