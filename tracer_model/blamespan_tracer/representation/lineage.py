"""What the last answer rests on: its value, followed back through what was said and worked out.

What was wrong and put right in time, or led nowhere, decided nothing. So a value is followed to the latest who said it:
if that step worked it out, to the values that it took; if not, to whoever said it before. A value ends at the task, at
a tool, or at a step that gives it without either: there it begins. A name that was picked is followed to the numbers
that names were said to have, and code as a whole.

Dims: N merged steps.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import is_common
from blamespan_tracer.representation.facts import Facts
from blamespan_tracer.representation.reading import Flag, is_number, spelled

__all__ = ["Lineage", "find_lineage"]

Floats = NDArray[np.float64]

_MOST_VALUES, _MOST_PLACES = 200, 64
"""Values that are followed, and places of each that are looked at, the latest."""

_NUMBER = re.compile(r"\d{1,15}(?:,\d{3}){0,4}(?:\.\d{1,12})?")


@dataclass(frozen=True, slots=True)
class Lineage:
    """Per merged step: (N,) each.

    Attributes:
        carries: Whether the last answer rests on a value that it asks a tool for, or that it says and neither the task
            nor a tool gave.
        works_out: Whether it works one out.
        begins: Whether it is the first to give one that nobody works out.
    """

    carries: Floats
    works_out: Floats
    begins: Floats


def find_lineage(run: Analysis) -> Lineage:
    """Follow the value that the last answer of a run states."""
    return _Followed(run).lineage()


class _Followed:
    def __init__(self, run: Analysis) -> None:
        self._reading, self._segments, self._decides = run.reading, run.segments, run.decides
        self._places = _places(run)
        self._sentences, self._given, self._sums = run.sentences, run.facts.given, run.equations
        self._start = self._answer(run.facts)
        self._carries, self._works_out, self._begins = np.zeros((3, len(run.decides)))

    def lineage(self) -> Lineage:
        """Follow value by value, each once."""
        waiting = [self._start] if self._start else []
        seen: set[int] = set()
        while waiting and len(seen) < _MOST_VALUES:
            token, segment = waiting.pop()
            if token not in seen:
                seen.add(token)
                waiting += self._sources(token, segment)
        self._follow_code()
        return Lineage(self._carries, self._works_out, self._begins)

    def _answer(self, facts: Facts) -> tuple[int, int] | None:
        """Return the last value that somebody who decides states, and its segment."""
        owner = self._segments.owner
        told = np.flatnonzero(self._segments.is_said & (facts.answer >= 0) & (owner >= 0))
        told = told[self._decides[owner[told]]]
        return (int(facts.answer[told[-1]]), int(told[-1])) if len(told) else None

    def _sources(self, token: int, segment: int) -> list[tuple[int, int]]:
        """Mark who said a value up to *segment*, the latest first; give the values that it was worked out from.

        Who says what the task or a tool gives says it rightly: only the call is marked.
        """
        said = self._places[token]
        speakers: list[int] = []
        for place in reversed(said[: bisect_right(said, segment)][-_MOST_PLACES:]):
            if self._segments.is_given[place]:
                return []
            step = int(self._segments.owner[place])
            if self._segments.is_result[place]:
                self._carries[step] = 1.0
                return self._asked(step)
            speakers.append(step)
            taken = self._operands(token, place)
            if taken:
                self._carries[speakers] = 1.0
                self._works_out[step] = 1.0
                return taken
        name = self._reading.tokens[token]
        if not speakers or (is_number(name) and is_common(float(name))):
            return []
        self._carries[speakers] = 1.0
        self._begins[speakers[-1]] = 1.0
        return [] if is_number(name) else self._compared(said[0])

    def _compared(self, segment: int) -> list[tuple[int, int]]:
        """List the numbers that names are said to have up to *segment*, the last of each: one was picked by them."""
        latest: dict[tuple[frozenset[int], frozenset[int]], tuple[int, int]] = {}
        for each in self._sentences:
            if each.segment > segment:
                break
            if each.names and each.value >= 0 and is_number(self._reading.tokens[each.value]):
                latest[frozenset(each.names), frozenset(each.words & self._given)] = (each.value, each.segment)
        return list(latest.values())[-_MOST_VALUES:]

    def _follow_code(self) -> None:
        """Mark who shows the last piece of code, word for word; it begins with the first of them."""
        reading, steps = self._reading, self._segments.speaking_steps()
        at = np.flatnonzero(reading.in_code)
        codes: dict[int, list[int]] = defaultdict(list)
        for segment, token in zip(reading.segment[at].tolist(), reading.token[at].tolist(), strict=True):
            if steps[segment] >= 0:
                codes[segment].append(token)
        last = next(reversed(codes.values()), None)
        same = [steps[segment] for segment, code in codes.items() if code == last]
        self._carries[same] = 1.0
        self._begins[same[:1]] = 1.0

    def _operands(self, token: int, segment: int) -> list[tuple[int, int]]:
        """List the numbers of the last sum of *segment* that comes to this value."""
        name = self._reading.tokens[token]
        if not is_number(name):
            return []
        sums = [each for each in self._sums[segment] if each.comes_to(float(name))]
        text = self._reading.texts[segment]
        return self._numbers(text[sums[-1].start : sums[-1].end], segment, but=token) if sums else []

    def _asked(self, step: int) -> list[tuple[int, int]]:
        """List the numbers that a tool was called with."""
        calls = np.flatnonzero(self._segments.is_call & (self._segments.owner == step))
        return [found for call in calls.tolist() for found in self._numbers(self._reading.texts[call], call, but=-1)]

    def _numbers(self, text: str, segment: int, *, but: int) -> list[tuple[int, int]]:
        """List the tokens of the numbers in *text*; `-40` may be a number below zero, or 40 taken away."""
        values = [float(each.replace(",", "")) for each in _NUMBER.findall(text)]
        known = [self._reading.places.get(spelled(sign * value), but) for value in values for sign in (1, -1)]
        return [(token, segment) for token in dict.fromkeys(known) if token != but]


def _places(run: Analysis) -> dict[int, list[int]]:
    """List the segments that say each number, or state each name, ascending."""
    reading, is_call = run.reading, run.segments.is_call
    found: dict[int, list[int]] = defaultdict(list)
    at = np.flatnonzero(reading.has(Flag.NUMBER) & ~run.facts.refuted & ~reading.in_code & ~is_call[reading.segment])
    pairs = dict.fromkeys(zip(reading.token[at].tolist(), reading.segment[at].tolist(), strict=True))
    for token, segment in pairs:
        found[token].append(segment)
    for each in run.sentences:
        if each.value >= 0 and not is_number(reading.tokens[each.value]) and found[each.value][-1:] != [each.segment]:
            found[each.value].append(each.segment)
    return found
