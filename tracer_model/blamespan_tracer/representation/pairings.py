"""Numbers that a step says of one thing, and that were only ever said of another.

"Units of West are 412" is odd where 412 was always said of North, unless a tool said that North is in West. What a tool
answers is read together with what it was asked.

Dims: N merged steps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_tracer.representation.claims import Segments
from blamespan_tracer.representation.reading import Reading
from blamespan_tracer.representation.sentences import Sentence

__all__ = ["numbers_of_others"]

Floats = NDArray[np.float64]

_LEAST_DIGITS = 2
"""A number of one digit is said of too many things to be anybody's."""

_MAX_SOURCES, _MAX_NUMBERS, _MAX_NAMES = 12, 96, 24
"""Earlier sentences that a number is looked up in, the first; numbers of a step that are looked at; names of a sentence
up to which a tool ties them to each other."""


def numbers_of_others(
    trace: MessageActionTrace, reading: Reading, segments: Segments, sentences: Iterable[Sentence], n_steps: int
) -> Floats:
    """Give the share of each step's numbers, of those said before, that stood beside other names only: (N,)."""
    judged, strange = np.zeros((2, n_steps))
    said_of: dict[int, list[frozenset[int]]] = defaultdict(list)
    results = [step for step in trace.steps if step.kind == "tool_result" and step.inputs]
    asked_in = {step.index + 1: step.inputs[-1] + 1 for step in results}
    asked: dict[int, frozenset[int]] = defaultdict(frozenset)
    tied: dict[int, set[int]] = defaultdict(set)
    is_long = [len(token.replace(".", "")) >= _LEAST_DIGITS for token in reading.tokens]
    for sentence in sentences:
        place, owner = sentence.segment, int(segments.owner[sentence.segment])
        names = frozenset(sentence.names) | asked[asked_in.get(place, -1)]
        numbers = [number for number in sentence.numbers if is_long[number]]
        if segments.is_call[place]:
            asked[place] |= names
        elif segments.is_result[place]:
            for name in sentence.names if len(sentence.names) <= _MAX_NAMES else ():
                tied[name] |= sentence.names
        elif owner >= 0 and segments.is_said[place]:
            is_plain = not numbers or len(names) > _MAX_NAMES
            known = names if is_plain else names.union(*(tied[name] for name in names))
            for number in numbers[: _MAX_NUMBERS - int(judged[owner])]:
                if said_of[number]:
                    judged[owner] += 1
                    strange[owner] += all(names - others and not known >= others for others in said_of[number])
        for number in numbers:
            if len(said_of[number]) < _MAX_SOURCES:
                said_of[number].append(names)
    shares: Floats = strange / judged.clip(min=1)
    return shares
