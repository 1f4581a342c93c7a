"""How a step says the task again: what it leaves out, turns round, or says in other words.

What the task gives is told by its numbers and names: a step that says most of them, and some not, leaves these out. A
rule that the task states with "the larger of" is turned round where a step states it with "the smaller of".

Dims: N merged steps.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis
from blamespan_tracer.representation.cues import STOP_WORDS
from blamespan_tracer.representation.reading import Reading
from blamespan_tracer.representation.sentences import Sentence

__all__ = ["Restating", "find_restating"]

Floats = NDArray[np.float64]

_MORE = frozenset("larger greater higher bigger maximum highest largest biggest greatest".split())  # noqa: SIM905
_LESS = frozenset("smaller lesser lower minimum lowest smallest".split())  # noqa: SIM905
_FILLING = frozenset("need needs shall must have make sure note please regarding concerning put".split())  # noqa: SIM905
"""What a sentence says in passing, whatever it is about."""

_MOST_SENTENCES, _MAX_LOOKED_AT = 64, 400
"""Sentences of the task that others are compared with, and of a step that are, the first."""

_LEAST_GIVEN, _LEAST_SHARE = 3, 0.6
"""Numbers, or names, that the task gives, at least, and share that a step says again if it leaves others out."""

_LEAST_TASK_WORDS = 6
"""Words of a task, at least, of which one can say most."""

_LEAST_WORDS, _MOST_WORDS = 2, 60
_LIKE = 0.5
"""Share of the words of two sentences that are the same if one says the other again."""

_RULE_WORDS = 4
"""Words of a rule without numbers, at most: in a longer one others words mean little."""


@dataclass(frozen=True, slots=True)
class Restating:
    """Per merged step: (N,) each.

    Attributes:
        omits: Share of the task's numbers that it leaves out, where it says most of them.
        omits_for_good: Whether one of these is not said by anybody later either.
        omits_names: Likewise, of the task's names, and
        omits_names_for_good: this.
        drops_name: Whether it says most of what the task says, but not all of the names that the task says twice.
        turns_round: Whether it states a comparison the other way round.
        rewords: Whether it says a short rule of the task with another word in it.
    """

    omits: Floats
    omits_for_good: Floats
    omits_names: Floats
    omits_names_for_good: Floats
    drops_name: Floats
    turns_round: Floats
    rewords: Floats


def find_restating(run: Analysis) -> Restating:
    """Hold what each step says against the task."""
    reading, n_steps = run.reading, len(run.steps)
    of_task = [each for each in run.sentences if each.segment == 0][:_MOST_SENTENCES]
    said: dict[int, list[Sentence]] = defaultdict(list)
    steps = run.segments.speaking_steps()
    for each in run.sentences:
        if steps[each.segment] >= 0:
            said[steps[each.segment]].append(each)
    numbers = {each.numbers[0] for each in of_task if len(each.numbers) == 1 and len(each.words) >= _LEAST_WORDS}
    names = {name for each in of_task for name in each.names}
    more, less = reading.known(_MORE), reading.known(_LESS)
    given = run.facts.given - more - less
    turns = {step: _turns(own, of_task, given, more, less) for step, own in said.items()}
    passing = reading.known(STOP_WORDS | _FILLING)
    drops = _name_drops(said, of_task, passing)
    rewords = {step: _rewords(own, of_task, passing) for step, own in said.items()}
    return Restating(
        *_omissions(reading, numbers, said, _single, n_steps),
        *_omissions(reading, names, said, lambda each: each.names, n_steps),
        _laid_out(drops, n_steps),
        _laid_out(turns, n_steps),
        _laid_out(rewords, n_steps),
    )


def _laid_out(found: Mapping[int, bool], n_steps: int) -> Floats:
    values = np.zeros(n_steps)
    values[list(found)] = list(found.values())
    return values


def _omissions(
    reading: Reading,
    given: set[int],
    said: Mapping[int, Sequence[Sentence]],
    again: Callable[[Sentence], Collection[int]],
    n_steps: int,
) -> tuple[Floats, Floats]:
    """Return which share of what is *given* each step leaves out of what it says *again*, and whether some for good."""
    omits, for_good = np.zeros((2, n_steps))
    if len(given) < _LEAST_GIVEN:
        return omits, for_good
    at = np.flatnonzero(np.isin(reading.token, list(given)))
    last = dict(zip(reading.token[at].tolist(), reading.segment[at].tolist(), strict=True))
    for step, own in said.items():
        left = given.difference(*map(again, own))
        if left and len(given) - len(left) >= _LEAST_SHARE * len(given):
            omits[step] = len(left) / len(given)
            for_good[step] = any(last[each] <= own[-1].segment for each in left)
    return omits, for_good


def _single(sentence: Sentence) -> list[int]:
    """Return the only number of a sentence: what a sentence of several does with them is no restating."""
    return sentence.numbers if len(sentence.numbers) == 1 else []


def _name_drops(
    said: Mapping[int, Sequence[Sentence]], of_task: Sequence[Sentence], passing: set[int]
) -> dict[int, bool]:
    """Return which steps have most words of the task and some of the names it says twice, but not all of these."""
    times = Counter(name for each in of_task for name in each.names - passing)
    names = {name for name, count in times.items() if count > 1}
    words = {word for each in of_task for word in each.words} - passing
    found = {}
    for step, own in said.items() if names and len(words) >= _LEAST_TASK_WORDS else ():
        own_names = {name for each in own for name in each.names}
        shared = words & {word for each in own for word in each.words}
        found[step] = bool(names & own_names) and not names <= own_names and len(shared) >= _LIKE * len(words)
    return found


def _turns(
    said: Iterable[Sentence], of_task: Iterable[Sentence], given: frozenset[int], more: set[int], less: set[int]
) -> bool:
    """Check whether a sentence has the other side of the comparison that all of the task's likest sentences have."""

    def side(sentence: Sentence) -> int:
        return bool(sentence.words & more) - bool(sentence.words & less)

    rules = [(side(each), (each.words | each.names) & given) for each in of_task if side(each)]
    for each in said if rules else ():
        words = (each.words | each.names) & given
        if side(each) and _LEAST_WORDS <= len(words) <= _MOST_WORDS:
            alike = [(len(words & rule) / len(words | rule), way) for way, rule in rules]
            most = max((likeness for likeness, _ in alike), default=0.0)
            if most >= _LIKE and all(way != side(each) for likeness, way in alike if likeness == most):
                return True
    return False


def _rewords(said: Sequence[Sentence], of_task: Iterable[Sentence], passing: set[int]) -> bool:
    """Check whether a sentence without numbers has the words of one rule of the task but for one or two others.

    One of those that it has is said by that rule alone: what several say or ask about is worked out, not ruled.
    """
    of_task = list(of_task)
    rules = [words for each in of_task if (words := _rule(each, passing)) and len(words) <= _RULE_WORDS]
    if not rules:
        return False
    said_by = Counter(word for each in of_task for word in each.words | each.names)
    mine = [
        words for each in said[:_MAX_LOOKED_AT] if (words := _rule(each, passing)) and len(words) <= _RULE_WORDS + 1
    ]
    kept = {place for words in mine for place, rule in enumerate(rules) if rule <= words}
    for words in mine:
        shared = [len(words & rule) / len(rule) for rule in rules]
        most = max(shared, default=0.0)
        if _LIKE <= most < 1 and shared.count(most) == 1:
            place = shared.index(most)
            new, gone, same = words - rules[place], rules[place] - words, words & rules[place]
            is_its_own = any(said_by[word] == 1 for word in same)
            if new and gone and len(new) <= _LEAST_WORDS <= len(same) and is_its_own and place not in kept:
                return True
    return False


def _rule(sentence: Sentence, passing: set[int]) -> set[int]:
    """Return the words of a sentence that states a rule: neither a number nor a name; empty for any other."""
    if sentence.value >= 0 or sentence.numbers:
        return set()
    words = (sentence.words | sentence.names) - passing
    return words if len(words) >= _LEAST_WORDS else set()
