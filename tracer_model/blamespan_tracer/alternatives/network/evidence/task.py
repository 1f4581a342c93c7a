"""What steps make of the task: what they leave out, turn round, or say in other words, and what they pick.

What the task gives is told by its numbers and names: a step that says most of them, and some not, leaves these out. A
rule that the task states with "the larger of" is turned round where a step states it with "the smaller of".

Where the task asks for the most or the least of something ("the region with the lowest balance"), the latest value that
anybody gave each name is what a pick is held against. Names that were said not to fit are left out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats
from blamespan_tracer.alternatives.network.representation.reading import Reading
from blamespan_tracer.alternatives.network.representation.sentences import Sentence
from blamespan_tracer.cues import STOP_WORDS
from blamespan_tracer.tokens import is_number

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

_LEAST_RULE_WORDS, _MOST_RULE_WORDS = 2, 60
_LIKE = 0.5
"""Share of the words of two sentences that are the same if one says the other again."""

_RULE_WORDS = 4
"""Words of a rule without numbers, at most: in a longer one other words mean little."""

_Name: TypeAlias = frozenset[int]

_MOST_WORDS = frozenset("largest greatest highest most maximum max biggest latest longest top".split())  # noqa: SIM905
_LEAST_WORDS = frozenset("smallest lowest least minimum min fewest earliest shortest cheapest".split())  # noqa: SIM905
_REFUSES = frozenset(
    ("not", "unsuitable", "unfit", "ineligible", "excluded", "rejected", "fails", "violates", "exceeds")
)
_MAX_QUESTIONS, _MAX_PICKS, _MAX_NAMES = 20, 1_000, 24
"""Sentences of the task that a pick is compared with, picks that are judged, names of a value: the first."""

_LEAST_TIMES = 2
"""Statements with a number and a name that a word must be in to be what is measured."""


def compare_with_task(run: Analysis) -> tuple[Floats, ...]:
    """Hold what each step says against the task."""
    reading, n_steps = run.reading, len(run.steps)
    of_task = [sentence for sentence in run.sentences if sentence.segment == 0][:_MOST_SENTENCES]
    of_step: dict[int, list[Sentence]] = defaultdict(list)
    steps = run.segments.speaking_steps
    for sentence in run.sentences:
        if steps[sentence.segment] >= 0:
            of_step[steps[sentence.segment]].append(sentence)
    numbers = {
        sentence.numbers[0]
        for sentence in of_task
        if len(sentence.numbers) == 1 and len(sentence.words) >= _LEAST_RULE_WORDS
    }
    names = {name for sentence in of_task for name in sentence.names}
    more, less = reading.known(_MORE), reading.known(_LESS)
    subjects = run.facts.subject_tokens - more - less
    turns = {step: _turns_round(own, of_task, subjects, more, less) for step, own in of_step.items()}
    passing = reading.known(STOP_WORDS | _FILLING)
    drops = _drop_names(of_step, of_task, passing)
    rewords = {step: _rewords(own, of_task, passing) for step, own in of_step.items()}
    return (
        *_list_omissions(reading, numbers, of_step, _single_number, n_steps),
        *_list_omissions(reading, names, of_step, lambda sentence: sentence.names, n_steps),
        _lay_out(drops, n_steps),
        _lay_out(turns, n_steps),
        _lay_out(rewords, n_steps),
    )


RESTATEMENTS = Evidence(
    compare_with_task,
    (
        "leaves out what the task gives",
        "leaves out for good",
        "leaves out names of the task",
        "leaves out a name for good",
        "says the task without a name",
        "turns a comparison round",
        "rewords a rule",
    ),
    shares=frozenset(("leaves out what the task gives", "leaves out names of the task")),
)


def _lay_out(flags: Mapping[int, bool], n_steps: int) -> Floats:
    values = np.zeros(n_steps)
    values[list(flags)] = list(flags.values())
    return values


def _list_omissions(
    reading: Reading,
    of_task: set[int],
    of_step: Mapping[int, Sequence[Sentence]],
    read: Callable[[Sentence], Collection[int]],
    n_steps: int,
) -> tuple[Floats, Floats]:
    """Return which share of the tokens *of_task* each step leaves out, and whether some for good.

    Args:
        reading: The run's tokens.
        of_task: Numbers, or names, that the task gives.
        of_step: The sentences of each step.
        read: Lists the numbers, or names, of a sentence.
        n_steps: How many steps there are.
    """
    omits, for_good = np.zeros((2, n_steps))
    if len(of_task) < _LEAST_GIVEN:
        return omits, for_good
    at = np.flatnonzero(np.isin(reading.token, list(of_task)))
    last = dict(zip(reading.token[at].tolist(), reading.segment[at].tolist(), strict=True))
    for step, own in of_step.items():
        missing = of_task.difference(*map(read, own))
        if missing and len(of_task) - len(missing) >= _LEAST_SHARE * len(of_task):
            omits[step] = len(missing) / len(of_task)
            for_good[step] = any(last[token] <= own[-1].segment for token in missing)
    return omits, for_good


def _single_number(sentence: Sentence) -> list[int]:
    """Return the only number of a sentence: what a sentence of several does with them is no restating."""
    return sentence.numbers if len(sentence.numbers) == 1 else []


def _drop_names(
    of_step: Mapping[int, Sequence[Sentence]], of_task: Sequence[Sentence], passing: set[int]
) -> dict[int, bool]:
    """Return which steps have most words of the task and some of the names it says twice, but not all of these."""
    times = Counter(name for sentence in of_task for name in sentence.names - passing)
    names = {name for name, count in times.items() if count > 1}
    words = {word for sentence in of_task for word in sentence.words} - passing
    drops = {}
    for step, own in of_step.items() if names and len(words) >= _LEAST_TASK_WORDS else ():
        own_names = {name for sentence in own for name in sentence.names}
        shared = words & {word for sentence in own for word in sentence.words}
        drops[step] = bool(names & own_names) and not names <= own_names and len(shared) >= _LIKE * len(words)
    return drops


def _turns_round(
    own: Iterable[Sentence], of_task: Iterable[Sentence], subjects: frozenset[int], more: set[int], less: set[int]
) -> bool:
    """Check whether a sentence has the other side of the comparison that all of the task's likest sentences have."""

    def side(sentence: Sentence) -> int:
        return bool(sentence.words & more) - bool(sentence.words & less)

    rules = [(side(sentence), (sentence.words | sentence.names) & subjects) for sentence in of_task if side(sentence)]
    for sentence in own if rules else ():
        words = (sentence.words | sentence.names) & subjects
        if side(sentence) and _LEAST_RULE_WORDS <= len(words) <= _MOST_RULE_WORDS:
            alike = [(len(words & rule) / len(words | rule), way) for way, rule in rules]
            most = max((likeness for likeness, _ in alike), default=0.0)
            if most >= _LIKE and all(way != side(sentence) for likeness, way in alike if likeness == most):
                return True
    return False


def _rewords(own: Sequence[Sentence], of_task: Iterable[Sentence], passing: set[int]) -> bool:
    """Check whether a sentence without numbers has the words of one rule of the task but for one or two others.

    One of those that it has is said by that rule alone: what several say or ask about is worked out, not ruled.
    """
    of_task = list(of_task)
    rules = [words for sentence in of_task if (words := _rule_words(sentence, passing)) and len(words) <= _RULE_WORDS]
    if not rules:
        return False
    times = Counter(word for sentence in of_task for word in sentence.words | sentence.names)
    own_rules = [
        words
        for sentence in own[:_MAX_LOOKED_AT]
        if (words := _rule_words(sentence, passing)) and len(words) <= _RULE_WORDS + 1
    ]
    kept_rules = {index for words in own_rules for index, rule in enumerate(rules) if rule <= words}
    for words in own_rules:
        shared = [len(words & rule) / len(rule) for rule in rules]
        most = max(shared, default=0.0)
        if _LIKE <= most < 1 and shared.count(most) == 1:
            index = shared.index(most)
            new, missing, same = words - rules[index], rules[index] - words, words & rules[index]
            is_its_own = any(times[word] == 1 for word in same)
            is_other = new and missing and len(new) <= _LEAST_RULE_WORDS <= len(same)
            if is_other and is_its_own and index not in kept_rules:
                return True
    return False


def _rule_words(sentence: Sentence, passing: set[int]) -> set[int]:
    """Return the words of a sentence that states a rule: neither a number nor a name; empty for any other."""
    if sentence.value >= 0 or sentence.numbers:
        return set()
    words = (sentence.words | sentence.names) - passing
    return words if len(words) >= _LEAST_RULE_WORDS else set()


def find_picks(run: Analysis) -> tuple[Floats, ...]:
    """Hold every name that is picked against the values said until then."""
    reading, segments, sentences = run.reading, run.segments, run.sentences
    columns = {name: np.zeros(len(run.steps)) for name in ("right", "wrong", "refused")}
    most, least = reading.known(_MOST_WORDS), reading.known(_LEAST_WORDS)
    if not most | least:
        return tuple(columns.values())
    refuses, stop = reading.known(_REFUSES), reading.known(STOP_WORDS) - most - least
    asked = [sentence for sentence in sentences if sentence.segment == 0 and sentence.words & (most | least)]
    asked = asked[:_MAX_QUESTIONS]
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
    return tuple(columns.values())


PICKS = Evidence(find_picks, ("picks the right one", "picks a wrong one", "picks what was refused"))


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
