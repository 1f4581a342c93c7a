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

from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats
from blamespan_tracer.alternatives.network.representation.facts import Facts
from blamespan_tracer.alternatives.network.representation.reading import Flag
from blamespan_tracer.ledger.equations import is_common, spell_number
from blamespan_tracer.tokens import NUMBER_PATTERN, is_number

_MOST_VALUES, _MOST_SEGMENTS = 200, 64
"""Values that are followed, and segments with each that are looked at, the latest."""

_NUMBER = re.compile(NUMBER_PATTERN)


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
    return _LineageSearch(run).follow()


class _LineageSearch:
    def __init__(self, run: Analysis) -> None:
        self._reading, self._segments, self._decides = run.reading, run.segments, run.decides
        self._segments_of = _list_segments(run)
        self._sentences, self._subjects, self._sums = run.sentences, run.facts.subject_tokens, run.equations
        self._start = self._find_answer(run.facts)
        self._carries, self._works_out, self._begins = np.zeros((3, len(run.decides)))

    def follow(self) -> Lineage:
        """Follow value by value, each once."""
        waiting = [self._start] if self._start else []
        followed: set[int] = set()
        while waiting and len(followed) < _MOST_VALUES:
            token, segment = waiting.pop()
            if token not in followed:
                followed.add(token)
                waiting += self._follow_value(token, segment)
        self._follow_code()
        return Lineage(self._carries, self._works_out, self._begins)

    def _find_answer(self, facts: Facts) -> tuple[int, int] | None:
        """Return the last value that somebody who decides states, and its segment."""
        owner = self._segments.owner
        stating = np.flatnonzero(self._segments.is_said & (facts.answer >= 0) & (owner >= 0))
        stating = stating[self._decides[owner[stating]]]
        return (int(facts.answer[stating[-1]]), int(stating[-1])) if len(stating) else None

    def _follow_value(self, token: int, segment: int) -> list[tuple[int, int]]:
        """Mark who said a value up to *segment*, the latest first; return the values that it was worked out from.

        Who says what the task or a tool gives says it rightly: only the call is marked.
        """
        segments = self._segments_of[token]
        speakers: list[int] = []
        for earlier in reversed(segments[: bisect_right(segments, segment)][-_MOST_SEGMENTS:]):
            if self._segments.is_given[earlier]:
                return []
            step = int(self._segments.owner[earlier])
            if self._segments.is_result[earlier]:
                self._carries[step] = 1.0
                return self._list_arguments(step)
            speakers.append(step)
            operands = self._list_operands(token, earlier)
            if operands:
                self._carries[speakers] = 1.0
                self._works_out[step] = 1.0
                return operands
        name = self._reading.tokens[token]
        if not speakers or (is_number(name) and is_common(float(name))):
            return []
        self._carries[speakers] = 1.0
        self._begins[speakers[-1]] = 1.0
        return [] if is_number(name) else self._list_comparisons(segments[0])

    def _list_comparisons(self, segment: int) -> list[tuple[int, int]]:
        """List the numbers that names are said to have up to *segment*, the last of each: one was picked by them."""
        latest: dict[tuple[frozenset[int], frozenset[int]], tuple[int, int]] = {}
        for sentence in self._sentences:
            if sentence.segment > segment:
                break
            if sentence.names and sentence.value >= 0 and is_number(self._reading.tokens[sentence.value]):
                subject = frozenset(sentence.names), frozenset(sentence.words & self._subjects)
                latest[subject] = (sentence.value, sentence.segment)
        return list(latest.values())[-_MOST_VALUES:]

    def _follow_code(self) -> None:
        """Mark who shows the last piece of code, word for word; it begins with the first of them."""
        reading, steps = self._reading, self._segments.speaking_steps
        at = np.flatnonzero(reading.in_code)
        codes: dict[int, list[int]] = defaultdict(list)
        for segment, token in zip(reading.segment[at].tolist(), reading.token[at].tolist(), strict=True):
            if steps[segment] >= 0:
                codes[segment].append(token)
        last = next(reversed(codes.values()), None)
        same = [steps[segment] for segment, code in codes.items() if code == last]
        self._carries[same] = 1.0
        self._begins[same[:1]] = 1.0

    def _list_operands(self, token: int, segment: int) -> list[tuple[int, int]]:
        """List the numbers of the last sum of *segment* that comes to this value."""
        name = self._reading.tokens[token]
        if not is_number(name):
            return []
        sums = [equation for equation in self._sums[segment] if equation.comes_to(float(name))]
        text = self._reading.texts[segment]
        return self._read_numbers(text[sums[-1].start : sums[-1].end], segment, but=token) if sums else []

    def _list_arguments(self, step: int) -> list[tuple[int, int]]:
        """List the numbers that a tool was called with."""
        calls = np.flatnonzero(self._segments.is_call & (self._segments.owner == step))
        return [
            number for call in calls.tolist() for number in self._read_numbers(self._reading.texts[call], call, but=-1)
        ]

    def _read_numbers(self, text: str, segment: int, *, but: int) -> list[tuple[int, int]]:
        """List the tokens of the numbers in *text*; `-40` may be a number below zero, or 40 taken away."""
        values = [float(number.replace(",", "")) for number in _NUMBER.findall(text)]
        tokens = [self._reading.places.get(spell_number(sign * value), but) for value in values for sign in (1, -1)]
        return [(token, segment) for token in dict.fromkeys(tokens) if token != but]


def _list_segments(run: Analysis) -> dict[int, list[int]]:
    """List the segments that say each number, or state each name, ascending."""
    reading, is_call = run.reading, run.segments.is_call
    segments: dict[int, list[int]] = defaultdict(list)
    at = np.flatnonzero(reading.has(Flag.NUMBER) & ~run.facts.refuted & ~reading.in_code & ~is_call[reading.segment])
    pairs = dict.fromkeys(zip(reading.token[at].tolist(), reading.segment[at].tolist(), strict=True))
    for token, segment in pairs:
        segments[token].append(segment)
    for sentence in run.sentences:
        value, segment = sentence.value, sentence.segment
        if value >= 0 and not is_number(reading.tokens[value]) and segments[value][-1:] != [segment]:
            segments[value].append(segment)
    return segments
