"""Sums that are written out, and what becomes of wrong ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats, Segments
from blamespan_tracer.alternatives.network.representation.reading import Flag, Mask, Reading
from blamespan_tracer.ledger.equations import Equation, spell_number

_MAX_SEGMENTS = 64
"""Segments with a number that are looked at, the first, to tell whether it is right."""


ALL_SUMS_HOLD = Evidence(lambda run: (run.wrong_sums > 0,), ("sum is wrong",))
MOST_SUMS_HOLD = Evidence(
    lambda run: (run.wrong_sums / run.sums.clip(min=1),), ("sums wrong",), shares=frozenset(("sums wrong",))
)


def follow_corrections(run: Analysis) -> tuple[Floats, ...]:
    """Follow every number that is refuted ("409, not 346"), and each sum that does not hold, to what becomes of it.

    A wrong sum that nobody refutes and somebody uses is what a failure is made of; a right one that is refuted is, too.
    """
    reading, segments, sums = run.reading, run.segments, run.equations
    refuted, refutes_right, refutes_wrong, stands = np.zeros((4, len(run.steps)))
    stated_in, refuted_in = _list_numbers(reading, segments, run.facts.refuted)
    for token, by in refuted_in.items():
        first = stated_in[token][0] if stated_in[token] else -1
        if 0 <= first < by[-1] and segments.owner[first] >= 0 and segments.is_said[first]:
            refuted[segments.owner[first]] = 1.0
        for segment in by:
            is_right = _is_right(float(reading.tokens[token]), segment, stated_in[token], sums, segments)
            if is_right is not None:
                (refutes_right if is_right else refutes_wrong)[segments.owner[segment]] = 1.0
    for segment, equation in ((segment, equation) for segment, own in sums.items() for equation in own):
        if equation.holds:
            continue
        token = reading.places.get(spell_number(equation.right), -1)
        if not refuted_in.get(token) and token in stated_in and stated_in[token][-1] > segment:
            stands[segments.owner[segment]] = 1.0
    return refuted, refutes_right, refutes_wrong, stands


CORRECTIONS = Evidence(
    follow_corrections, ("is refuted", "refutes what is right", "refutes what is wrong", "a wrong sum stands")
)


def _list_numbers(
    reading: Reading, segments: Segments, is_refuted: Mask
) -> tuple[dict[int, list[int]], dict[int, list[int]]]:
    """List where each number is stated, and where an agent refutes it: segments by token, ascending."""
    is_spoken = (np.array(segments.speaking_steps) >= 0)[reading.segment]
    is_number = reading.has(Flag.NUMBER) & ~reading.in_code
    return _by_token(reading, is_number & ~is_refuted), _by_token(reading, is_refuted & is_spoken)


def _by_token(reading: Reading, of: Mask) -> dict[int, list[int]]:
    segments: dict[int, list[int]] = defaultdict(list)
    for token, segment in zip(reading.token[of].tolist(), reading.segment[of].tolist(), strict=True):
        segments[token].append(segment)
    return segments


def _is_right(
    value: float, segment: int, stated_in: Sequence[int], sums: Mapping[int, tuple[Equation, ...]], segments: Segments
) -> bool | None:
    """Check whether what stands before *segment* gives a number rightly; None where nothing tells."""
    for earlier in dict.fromkeys(stated_in[:_MAX_SEGMENTS]):
        if earlier >= segment:
            return None
        if segments.is_given[earlier] or segments.is_result[earlier]:
            return True
        for equation in sums.get(earlier, ()):
            if equation.comes_to(value):
                return equation.holds
    return None
