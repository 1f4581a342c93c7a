"""Picks compared with what they were to be picked by: "the region with the lowest balance" against the balances said.

Read where the task asks for the most or the least of something: the latest value that anybody gave each name is what a
pick is held against. Names that were said not to fit are left out.

Dims: N merged steps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from blamespan_tracer.checks.check import ExaminedRun, Finding, check
from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.claims import Floats
from blamespan_tracer.representation.cues import STOP_WORDS
from blamespan_tracer.representation.reading import Reading, is_number
from blamespan_tracer.representation.sentences import Sentence

_Name: TypeAlias = frozenset[int]

_MOST = frozenset("largest greatest highest most maximum max biggest latest longest top".split())  # noqa: SIM905
_LEAST = frozenset("smallest lowest least minimum min fewest earliest shortest cheapest".split())  # noqa: SIM905
_REFUSES = frozenset(
    ("not", "unsuitable", "unfit", "ineligible", "excluded", "rejected", "fails", "violates", "exceeds")
)
_MAX_ASKED, _MAX_PICKS, _MAX_NAMES = 20, 1_000, 24
"""Sentences of the task that a pick is compared with, picks that are judged, names of a value: the first."""

_LEAST_TIMES = 2
"""Statements with a number and a name that a word must be in to be what is measured."""


@dataclass(frozen=True, slots=True)
class Picks:
    """Per merged step: (N,) each.

    Attributes:
        right: Whether it picks what has the most, or the least, as the task asks.
        wrong: Whether it picks something else that has a value,
        refused: or something that was said not to fit.
    """

    right: Floats
    wrong: Floats
    refused: Floats


@check("picks the right one", "A step picks nothing by the values.", is_evidence=True)
def picks_are_left_to_others(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that pick what has the most, or the least, as the task asks."""
    return run.findings(run.once(find_picks).right)


@check("picks a wrong one", "What is picked has the most, or the least, as the task asks.", is_evidence=True)
def picks_are_right(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that pick something else that has a value."""
    return run.findings(run.once(find_picks).wrong)


@check("picks what was refused", "What is picked was not refused.", is_evidence=True)
def picks_were_not_refused(run: ExaminedRun) -> Iterator[Finding]:
    """Look for steps that pick what was said not to fit."""
    return run.findings(run.once(find_picks).refused)


def find_picks(run: Analysis) -> Picks:
    """Hold every name that is picked against the values said until then."""
    reading, segments, sentences = run.reading, run.segments, run.sentences
    columns = {name: np.zeros(len(run.steps)) for name in Picks.__slots__}
    most, least = reading.known(_MOST), reading.known(_LEAST)
    if not most | least:
        return Picks(**columns)
    refuses, stop = reading.known(_REFUSES), reading.known(STOP_WORDS) - most - least
    asked = [sentence for sentence in sentences if sentence.segment == 0 and sentence.words & (most | least)]
    asked = asked[:_MAX_ASKED]
    measures = _list_measures(reading, sentences)
    values: dict[int, dict[_Name, float]] = defaultdict(dict)
    refused: dict[_Name, set[int]] = {}
    n_judged = 0
    for sentence in sentences:
        step, names = int(segments.owner[sentence.segment]), frozenset(sentence.names)
        if not names or step < 0 or segments.is_call[sentence.segment]:
            continue
        words = sentence.words - stop - refuses
        if sentence.value >= 0 and is_number(reading.tokens[sentence.value]):
            for word in words & measures if len(names) <= _MAX_NAMES else ():
                values[word][names] = float(reading.tokens[sentence.value])
        elif sentence.value in names and segments.is_said[sentence.segment] and n_judged < _MAX_PICKS:
            n_judged += 1
            judgement = _judge_pick(names, words, asked, most, values, refused)
            if judgement:
                columns[judgement][step] = 1.0
        elif sentence.words & refuses:
            refused[names] = words
        elif sentence.value < 0 and 2 * len(words & refused.get(names, set())) > len(words):
            del refused[names]  # it fits after all
    return Picks(**columns)


def _judge_pick(
    pick: _Name,
    words: set[int],
    asked: Sequence[Sentence],
    most: set[int],
    values: Mapping[int, Mapping[_Name, float]],
    refused: Collection[_Name],
) -> str:
    """Judge one pick, said with these *words*; empty where nothing can be said."""
    about = max(asked, key=lambda sentence: len(sentence.words & words), default=None)
    if about is None or not about.words & words:
        return ""
    if pick in refused:
        return "refused"
    for word in sorted((about.words - words) & values.keys()):
        fitting = {name: value for name, value in values[word].items() if name not in refused}
        if pick in fitting and len(values[word]) > 1:
            best = max(fitting.values()) if about.words & most else min(fitting.values())
            return "right" if fitting[pick] == best else "wrong"
    return ""


def _list_measures(reading: Reading, sentences: Sequence[Sentence]) -> set[int]:
    """List the words that several statements with a number and a name have."""
    times: Counter[int] = Counter()
    for sentence in sentences:
        if sentence.names and sentence.value >= 0 and is_number(reading.tokens[sentence.value]):
            times.update(sentence.words)
    return {word for word, count in times.items() if count >= _LEAST_TIMES}
