"""What a run's sentences say of which subject, and where the run contradicts itself.

Two sentences are about one thing if they share half of their words, and neither has one of the task's or the tools'
words that the other has not: "the fee of Harbour Inn" and "the rent of Harbour Inn" are two things. They are found by
the set of these words ("maker, Norma, Piano"), in any order, and by pairs of neighbouring content words. What one and
the same segment gives two values is no subject (`year of A is 1947, year of B is 1953`) and is left out.

Dims: G segments, S sentences, T tokens, R records (subject, segment, value).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.claims import Segments
from blamespan_tracer.representation.reading import Flag, Ints, Mask, Reading, is_number
from blamespan_tracer.representation.statements import find_statements, refuted_numbers

__all__ = ["Conflict", "Facts", "find_facts"]

Floats = NDArray[np.float64]

_SAME_SUBJECT, _MAX_WORDS = 0.5, 60
"""Share of the content words that two sentences must have in common to be about one thing, of the first 60."""

_LEAST_WORDS = 2
"""One word of the task or a tool names nothing."""

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
    value, content = find_statements(reading, segments, refuted)
    segment_of = np.zeros(len(value), np.int64)
    segment_of[reading.sentence] = reading.segment
    answer = np.full(n_segments, -1, np.int64)
    stated = np.flatnonzero(value >= 0)
    answer[segment_of[stated]] = value[stated]  # the last one wins
    is_given = segments.is_given | segments.is_result | segments.is_call
    given = frozenset(reading.token[content & is_given[reading.segment]].tolist())
    at = np.flatnonzero(content & (value[reading.sentence] >= 0)) if len(reading.token) else np.zeros(0, np.int64)
    pairs, sets = _pairs(reading, at), _sets(reading, at, given)
    said = pairs.stated(value, segment_of), sets.stated(value, segment_of)
    conflicts = tuple(_conflicts(reading, content, said, given))
    return Facts(conflicts, _supported(said, segments), answer, value, given, refuted)


def _conflicts(reading: Reading, content: Mask, said: Sequence[_Records], given: frozenset[int]) -> Iterator[Conflict]:
    """Go through neighbouring records of one subject with different values, by the later statement."""
    sentences = _Sentences(reading, content, given)
    has_equals = set(reading.sentence[reading.has(Flag.EQUALS)].tolist())
    counted: Counter[int] = Counter()
    told: set[tuple[int, int]] = set()
    for _, of, place in sorted(
        (int(records.segment[place + 1]), of, place) for of, records in enumerate(said) for place in records.clashes()
    ):
        records = said[of]
        earlier, later = records.segment[place : place + 2].tolist()
        about = int(records.sentence[place]), int(records.sentence[place + 1])
        if counted[later] >= _MAX_CONFLICTS_OF_STEP or about in told:
            continue
        counted[later] += 1
        told.add(about)
        first, second = (reading.tokens[value] for value in records.value[place : place + 2].tolist())
        is_alike = is_number(first) == is_number(second)  # a number against a name says nothing
        if is_alike and sentences.are_about_one(*about):
            one, other = (reading.tokens[word] for word in records.words(int(records.subject[place])))
            yield Conflict(earlier, later, (one, other), (first, second), about[1] in has_equals)


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
        """Check whether two sentences are about one thing."""
        first, second = self._words(one), self._words(other)
        is_near = len(first & second) >= _SAME_SUBJECT * len(first | second)
        return is_near and not (first ^ second) & self._given

    def _words(self, sentence: int) -> set[int]:
        begin, end = np.searchsorted(self._sentence, [sentence, sentence + 1]).tolist()
        return set(self._token[begin : min(end, begin + _MAX_WORDS)].tolist())


@dataclass(frozen=True, slots=True)
class _Subjects:
    """Who a sentence may be about; a sentence may be so about several.

    Attributes:
        words: Gives two words that name a subject.
        subject: (Q,) which, and
        sentence: (Q,) in which sentence.
    """

    words: Callable[[int], tuple[int, int]]
    subject: Ints
    sentence: Ints

    def stated(self, value: Ints, segment_of: Ints) -> _Records:
        """List what each segment states of each subject, once, but for subjects that some segment gives two values.

        Args:
            value: (S,) of each sentence.
            segment_of: (S,) where each stands.
        """
        subject, sentence = self.subject, self.sentence
        segment, said = segment_of[sentence], value[sentence]
        order = np.lexsort((sentence, said, segment, subject))
        subject, segment, said, sentence = subject[order], segment[order], said[order], sentence[order]
        is_next = np.zeros(len(subject), np.bool_)
        is_next[1:] = (subject[1:] == subject[:-1]) & (segment[1:] == segment[:-1])
        differs = np.ones(len(subject), np.bool_)
        differs[1:] = said[1:] != said[:-1]
        kept = np.flatnonzero(~is_next & ~np.isin(subject, subject[is_next & differs]))
        return _Records(self.words, subject[kept], segment[kept], said[kept], sentence[kept])


@dataclass(frozen=True, slots=True)
class _Records:
    """What is stated: (R,) each, ordered by subject and segment.

    Attributes:
        words: Gives two words that name a subject.
        subject: What of.
        segment: Where it is stated.
        value: What is stated of it.
        sentence: In which sentence.
    """

    words: Callable[[int], tuple[int, int]]
    subject: Ints
    segment: Ints
    value: Ints
    sentence: Ints

    def clashes(self) -> list[int]:
        """List the places whose next record gives the same subject another value."""
        same = self.subject[1:] == self.subject[:-1]
        return np.flatnonzero(same & (self.value[1:] != self.value[:-1])).tolist()


def _pairs(reading: Reading, at: Ints) -> _Subjects:
    """Take every pair of neighbouring content words for a subject; (C,) *at* are those of sentences that state."""
    sentence, token = reading.sentence[at], reading.token[at]
    together = sentence[:-1] == sentence[1:]
    base = len(reading.tokens) + 1
    return _Subjects(
        lambda pair: divmod(pair, base), token[:-1][together] * base + token[1:][together], sentence[:-1][together]
    )


def _sets(reading: Reading, at: Ints, given: frozenset[int]) -> _Subjects:
    """Take the set of a sentence's given words for a subject, where there are two at least."""
    is_given = np.zeros(len(reading.tokens) + 1, np.bool_)
    is_given[list(given)] = True
    at = at[is_given[reading.token[at]]]
    base = len(reading.tokens) + 1
    once = np.unique(reading.sentence[at] * base + reading.token[at])
    sentences, first = np.unique(once // base, return_index=True)
    tokens, ends = (once % base).tolist(), np.append(first, len(once))[1:]
    numbers: dict[tuple[int, ...], int] = {}
    subject, sentence = [], []
    for of, begin, end in zip(sentences.tolist(), first.tolist(), ends.tolist(), strict=True):
        if end - begin >= _LEAST_WORDS:
            words = tuple(tokens[begin : min(end, begin + _MAX_WORDS)])
            subject.append(numbers.setdefault(words, len(numbers)))
            sentence.append(of)
    sets = list(numbers)
    return _Subjects(
        lambda number: (sets[number][0], sets[number][1]), np.array(subject, np.int64), np.array(sentence, np.int64)
    )


def _supported(said: Sequence[_Records], segments: Segments) -> Floats:
    """Return, per segment, which share of other speakers' statements on its subjects gives its value: (G,)."""
    n_segments = len(segments.owner)
    n_asked, n_agree = np.zeros((2, n_segments))
    for records in said:
        speaker = segments.speaker[records.segment] + 1
        n_speakers = int(speaker.max(initial=0)) + 1
        subject = np.unique(records.subject, return_inverse=True)[1]
        stated = np.unique(subject * (int(records.value.max(initial=0)) + 1) + records.value, return_inverse=True)[1]
        asked = _times(subject) - _times(subject * n_speakers + speaker)
        agree = _times(stated) - _times(stated * n_speakers + speaker)
        n_asked += np.bincount(records.segment, asked, minlength=n_segments)
        n_agree += np.bincount(records.segment, agree, minlength=n_segments)
    shares: Floats = np.where(n_asked > 0, n_agree / np.where(n_asked > 0, n_asked, 1), np.nan)
    return shares


def _times(keys: Ints) -> Ints:
    """Count how often each entry's key occurs: (R,)."""
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[which]
