"""Numbers that a step says of one thing, and that were only ever said of another.

"Units of West are 412" is odd where 412 was always said of North, unless a tool said that North is in West. What a tool
answers is read together with what it was asked. Things without a name are told by the task's and the tools' words: "684
pages a week" is odd where 684 were the pages of the reports.

Dims: N merged steps.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.reading import is_long

__all__ = ["numbers_of_others", "values_of_others"]

Floats = NDArray[np.float64]

_MAX_SOURCES, _MAX_NUMBERS, _MAX_NAMES = 12, 96, 24
"""Earlier sentences that a number is looked up in, the first; numbers of a step that are looked at; names of a sentence
up to which a tool ties them to each other."""


def numbers_of_others(run: Analysis) -> Floats:
    """Return the share of each step's numbers, of those said before, that stood beside other names only: (N,)."""
    reading, segments = run.reading, run.segments
    judged, strange = np.zeros((2, len(run.steps)))
    said_of: dict[int, list[frozenset[int]]] = defaultdict(list)
    results = [step for step in run.trace.steps if step.kind == "tool_result" and step.inputs]
    asked_in = {step.index + 1: step.inputs[-1] + 1 for step in results}
    asked: dict[int, frozenset[int]] = defaultdict(frozenset)
    tied: dict[int, set[int]] = defaultdict(set)
    steps, is_call, is_result = segments.speaking_steps(), segments.is_call.tolist(), segments.is_result.tolist()
    for sentence in run.sentences:
        place, owner = sentence.segment, steps[sentence.segment]
        names = frozenset(sentence.names) | asked[asked_in.get(place, -1)]
        numbers = [number for number in sentence.numbers if is_long(reading.tokens[number])]
        if is_call[place]:
            asked[place] |= names
        elif is_result[place]:
            for name in sentence.names if len(sentence.names) <= _MAX_NAMES else ():
                tied[name] |= sentence.names
        elif owner >= 0:
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


def values_of_others(run: Analysis) -> Floats:
    """Return which steps state a number of one thing, without a sum, that was only ever said of others: (N,)."""
    found = np.zeros(len(run.steps))
    said_of: dict[int, list[frozenset[int]]] = defaultdict(list)
    steps, tokens = run.segments.speaking_steps(), run.reading.tokens
    for sentence in run.sentences:
        if not sentence.numbers:
            continue
        words = frozenset((sentence.words | sentence.names) & run.facts.given)
        step = steps[sentence.segment]
        number = sentence.numbers[0] if len(sentence.numbers) == 1 else -1
        if step >= 0 and number >= 0 and words and is_long(tokens[number]) and said_of[number]:
            found[step] = max(found[step], all(words - others and others - words for others in said_of[number]))
        for number in sentence.numbers:
            if len(said_of[number]) < _MAX_SOURCES:
                said_of[number].append(words)
    return found
