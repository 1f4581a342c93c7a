"""Statements of the form "subject, value", and where the run contradicts itself.

A statement is a sentence with one value: its only number but for those of a calculation ("12 - 5 gives 7") and those
that it says are wrong, what stands behind its last `=`, or the name that it says something is. Calls ask, they state
nothing.
The subject is told by pairs of neighbouring content words. A pair that one and the same segment gives two values is no
subject (`year of A is 1947, year of B is 1953`) and is left out. Two sentences with a pair in common are about one
thing if they share half of their words, and neither has one of the task's or the tools' words that the other has not:
"the fee of Harbour Inn" and "the rent of Harbour Inn" are two things.

Dims: G segments, S sentences, T tokens, N merged steps, R records (pair, segment, value).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.claims import Segments
from blamespan_tracer.representation.corrections import refuted_numbers
from blamespan_tracer.representation.reading import Flag, Ints, Mask, Reading

__all__ = ["Conflict", "Facts", "find_facts"]

Floats = NDArray[np.float64]

_SAME_SUBJECT, _MAX_WORDS = 0.5, 60
"""Share of the content words that two sentences must have in common to be about one thing, of the first 60."""

_SAYS_WORDS = (
    "amount amounts equal equals turn turns come comes give gives get gets got obtain obtained put note stand stands "
    "work works calculate calculated compute computed find found state stated say said yield yields make makes"
)
_SAYS = frozenset(_SAYS_WORDS.split())
"""Words by which a sentence states, whatever it is about."""

_IS = frozenset(("is", "are", "was", "were", "be", "been", "become", "becomes", "has", "have", "named", "called", "="))
"""What stands before a name that is stated, with `the` or `a` between at most."""

_ARTICLES = frozenset(("the", "a", "an"))
_MAX_NAME = 4

_MAX_CONFLICTS_OF_STEP = 64
"""Enough to say that a step contradicts; bounds the work on a run that contradicts itself all over."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two statements about one subject that give it different values.

    Attributes:
        earlier: Segment of the value that stood, and
        later: of the one against it.
        subject: Two words that name the subject.
        values: The values, earlier first.
        is_computed: Whether the later one is written as the result of a sum.
    """

    earlier: int
    later: int
    subject: tuple[str, str]
    values: tuple[str, str]
    is_computed: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """What the segments of a run state.

    Attributes:
        conflicts: In order of the later statement.
        support: (G,) share of the other speakers' statements on the same subjects that give the same value; NaN where
            nobody else speaks of them.
        answer: (G,) the value of the segment's last statement, an index of `Reading.tokens`; -1 without any.
        stated: (S,) the value of each sentence, likewise.
        given: The tokens that the task or a tool has, or a call: those that tell subjects apart.
        refuted: (T,) which tokens are numbers that are said to be wrong.
    """

    conflicts: tuple[Conflict, ...]
    support: Floats
    answer: Ints
    stated: Ints
    given: frozenset[int]
    refuted: Mask


def find_facts(reading: Reading, segments: Segments) -> Facts:
    """Find what is stated, and what contradicts."""
    n_segments = len(reading.texts)
    refuted = refuted_numbers(reading)
    sentence_value, content = _statements(reading, segments, refuted)
    answer = np.full(n_segments, -1, np.int64)
    stated = np.flatnonzero(sentence_value >= 0)
    if len(stated):
        first_token = np.searchsorted(reading.sentence, stated)
        answer[reading.segment[first_token]] = sentence_value[stated]  # the last one wins
    said = _records(reading, sentence_value, content)
    is_given = segments.is_given | segments.is_result | segments.is_call
    given = frozenset(reading.token[content & is_given[reading.segment]].tolist())
    conflicts = tuple(_conflicts(reading, content, said, given))
    return Facts(conflicts, _supported(said, segments), answer, sentence_value, given, refuted)


def _conflicts(reading: Reading, content: Mask, said: _Records, given: frozenset[int]) -> Iterator[Conflict]:
    """Go through neighbouring records of one subject with different values, by the later statement."""
    pair, segment, value = said.pair, said.segment, said.value
    clash = np.flatnonzero((pair[1:] == pair[:-1]) & (value[1:] != value[:-1]))
    clash = clash[np.lexsort((pair[clash], segment[clash + 1]))]
    base = len(reading.tokens) + 1
    sentences = _Sentences(reading, content, given)
    has_equals = set(reading.sentence[reading.has(Flag.EQUALS)].tolist())
    counted: Counter[int] = Counter()
    told: set[tuple[int, int]] = set()
    for place in clash.tolist():
        later, about = int(segment[place + 1]), (int(said.sentence[place]), int(said.sentence[place + 1]))
        if counted[later] >= _MAX_CONFLICTS_OF_STEP or about in told:
            continue
        counted[later] += 1
        told.add(about)
        values = reading.tokens[value[place]], reading.tokens[value[place + 1]]
        is_alike = values[0][0].isdecimal() == values[1][0].isdecimal()  # a number against a name says nothing
        if is_alike and sentences.are_about_one(*about):
            first, second = divmod(int(pair[place]), base)
            yield Conflict(
                int(segment[place]),
                later,
                (reading.tokens[first], reading.tokens[second]),
                values,
                about[1] in has_equals,
            )


class _Sentences:
    """The content words of sentences.

    Args:
        reading: The run's tokens.
        content: (T,) which of them may tell a subject.
        given: The tokens that the task or a tool has, or a call: those that tell subjects apart.
    """

    def __init__(self, reading: Reading, content: Mask, given: frozenset[int]) -> None:
        at = np.flatnonzero(content)
        self._sentence, self._token = reading.sentence[at], reading.token[at]
        self._given = given

    def are_about_one(self, one: int, other: int) -> bool:
        """Tell whether two sentences are about one thing."""
        first, second = self._words(one), self._words(other)
        is_near = len(first & second) >= _SAME_SUBJECT * len(first | second)
        return is_near and not (first ^ second) & self._given

    def _words(self, sentence: int) -> set[int]:
        begin, end = np.searchsorted(self._sentence, [sentence, sentence + 1]).tolist()
        return set(self._token[begin : min(end, begin + _MAX_WORDS)].tolist())


def _statements(reading: Reading, segments: Segments, refuted: Mask) -> tuple[Ints, Mask]:
    """Find the value of every sentence, -1 where it has none, and which tokens may tell its subject."""
    n_sentences = int(reading.sentence[-1]) + 1 if len(reading.sentence) else 0
    value = np.full(n_sentences, -1, np.int64)
    readable = ~reading.in_code & ~segments.is_call[reading.segment]
    is_short = np.array([len(token) <= 2 for token in reading.tokens] or [False], np.bool_)[reading.token]
    is_number = reading.has(Flag.NUMBER) & readable & ~(reading.opens & is_short)  # `5) ...` numbers a list
    is_number &= ~refuted
    sentence = reading.sentence
    equals = np.bincount(sentence[reading.has(Flag.EQUALS) & readable], minlength=n_sentences)
    is_result = is_number & ((equals[sentence] > 0) | ~_operands(reading))
    numbers, results = (np.bincount(sentence[each], minlength=n_sentences) for each in (is_number, is_result))
    is_word = reading.has(Flag.WORD) & ~reading.has(Flag.STOP) & ~reading.in_code
    is_name = _stated_names(reading, is_word & readable)
    value[sentence[is_name]] = reading.token[is_name]  # the last name of the sentence
    value[sentence[is_result]] = reading.token[is_result]  # the last number, rather
    value[(equals == 0) & ((results > 1) | ((numbers > 0) & (results == 0)))] = -1
    is_value = (value[sentence] == reading.token) | is_name
    follows = np.zeros(len(is_number), np.bool_)
    follows[1:] = is_number[:-1]  # its unit
    return value, is_word & ~is_value & ~follows & ~reading.is_any(_SAYS)


def _stated_names(reading: Reading, is_word: Mask) -> Mask:
    """Tell which tokens end a name that something is said to be: (T,)."""
    is_name = is_word & reading.has(Flag.CAPITAL) & ~reading.opens
    article, states = reading.is_any(_ARTICLES), reading.is_any(_IS)
    before = np.zeros(len(is_name), np.bool_)
    before[1:] = states[:-1] & ~is_name[:-1]
    before[2:] |= article[1:-1] & states[:-2]
    stated = is_name & before
    for _ in range(_MAX_NAME - 1):  # the words after the first
        stated[1:] |= is_name[1:] & stated[:-1]
    return stated


def _operands(reading: Reading) -> Mask:
    """Tell which tokens stand beside a sign of calculation: (T,)."""
    is_sign = reading.has(Flag.OPERATOR)
    beside = np.zeros(len(is_sign), np.bool_)
    beside[:-1] |= is_sign[1:]
    beside[1:] |= is_sign[:-1]
    return beside


@dataclass(frozen=True, slots=True)
class _Records:
    """What is stated: (R,) each, ordered by subject and segment.

    Attributes:
        pair: The subject: two neighbouring content words.
        segment: Where it is stated.
        value: What is stated of it.
        sentence: In which sentence.
    """

    pair: Ints
    segment: Ints
    value: Ints
    sentence: Ints


def _records(reading: Reading, value: Ints, content: Mask) -> _Records:
    """List what each segment states of each subject, once, but for pairs that some segment gives two values."""
    at = np.flatnonzero(content & (value[reading.sentence] >= 0)) if len(reading.token) else np.zeros(0, np.int64)
    together = reading.sentence[at][:-1] == reading.sentence[at][1:]
    first, second = at[:-1][together], at[1:][together]
    base = len(reading.tokens) + 1
    sentence = reading.sentence[first]
    pair, segment = reading.token[first] * base + reading.token[second], reading.segment[first]
    said = value[sentence]
    order = np.lexsort((said, segment, pair))
    pair, segment, said, sentence = pair[order], segment[order], said[order], sentence[order]
    same = np.zeros(len(pair), np.bool_)
    same[1:] = (pair[1:] == pair[:-1]) & (segment[1:] == segment[:-1])
    differs = np.zeros(len(pair), np.bool_)
    differs[1:] = same[1:] & (said[1:] != said[:-1])
    kept = ~same & ~np.isin(pair, pair[differs])
    return _Records(pair[kept], segment[kept], said[kept], sentence[kept])


def _supported(said: _Records, segments: Segments) -> Floats:
    """Tell, per segment, which share of other speakers' statements on its subjects gives its value: (G,)."""
    speaker = segments.speaker[said.segment] + 1
    n_speakers = int(speaker.max(initial=0)) + 1
    subject = np.unique(said.pair, return_inverse=True)[1]
    stated = np.unique(subject * (int(said.value.max(initial=0)) + 1) + said.value, return_inverse=True)[1]
    asked = _times(subject) - _times(subject * n_speakers + speaker)
    agree = _times(stated) - _times(stated * n_speakers + speaker)
    n_segments = len(segments.owner)
    n_asked = np.bincount(said.segment, asked, minlength=n_segments)
    n_agree = np.bincount(said.segment, agree, minlength=n_segments)
    shares: Floats = np.where(n_asked > 0, n_agree / np.where(n_asked > 0, n_asked, 1), np.nan)
    return shares


def _times(keys: Ints) -> Ints:
    """Count how often each entry's key occurs: (R,)."""
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[which]
