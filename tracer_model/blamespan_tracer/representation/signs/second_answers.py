"""Steps that end on another answer than the one they came to: "it is 89.4, so we get 98.4".

Dims: N merged steps.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.reading import Reading, is_number
from blamespan_tracer.representation.sentences import Sentence

__all__ = ["second_answers"]

Floats = NDArray[np.float64]


def second_answers(run: Analysis) -> Floats:
    """Return which steps state, last and of nothing in particular, what neither they nor anybody said before: (N,)."""
    found = np.zeros(len(run.steps))
    known: set[int] = set()
    steps = run.segments.speaking_steps()
    for segment, group in groupby(run.sentences, lambda each: each.segment):
        own = list(group)
        step = steps[segment]
        if step >= 0:
            found[step] = max(found[step], _is_second(run.reading, own, run.facts.given, known))
        known.update(number for each in own for number in each.numbers)
    return found


def _is_second(reading: Reading, own: Sequence[Sentence], given: Set[int], known: Set[int]) -> bool:
    stated = [each for each in own if each.value >= 0]
    if not stated:
        return False
    last, before = stated[-1], {number for each in own if each is not stated[-1] for number in each.numbers}
    if is_number(reading.tokens[last.value]):
        is_bare = len(last.numbers) == 1 and not (last.words | last.names) & given
        return is_bare and last.value not in known | before
    other = stated[-2].value if len(stated) > 1 else last.value
    is_name = other != last.value and not is_number(reading.tokens[other])
    return is_name and not last.words & given and not any(last.value in each.names for each in own if each is not last)
