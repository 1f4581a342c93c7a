"""What a run's sentences state of which subject, where the run contradicts itself, and who objects to whom.

The value of a sentence is its only number but for those of a calculation ("12 - 5 gives 7") and those that it says are
wrong (`not`, `than` or `instead of` stands before them), what stands behind its last `=`, or a name: "the maker is
Halden Works", "Halden Works is the maker". Calls ask, they state nothing.

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

from blamespan_tracer.alternatives.network.representation.claims import Floats, Segments
from blamespan_tracer.alternatives.network.representation.reading import Flag, Ints, Mask, Reading
from blamespan_tracer.cues import CUES
from blamespan_tracer.tokens import is_number

SAME_SUBJECT, MAX_WORDS = 0.5, 60
"""Share of the content words that two sentences must have in common to be about one thing, of the first 60."""

LEAST_WORDS = 2
"""One word of the task or a tool names nothing."""

MOST_CONFLICTS_OF_STEP = 64
"""Enough to say that a step contradicts; bounds the work on a run that contradicts itself all over."""

_SAYS_WORDS = (
    "amount amounts equal equals turn turns come comes give gives get gets got obtain obtained put note stand stands "
    "work works calculate calculated compute computed find found state stated say said yield yields make makes"
)
_SAYS = frozenset(_SAYS_WORDS.split())
"""Words by which a sentence states, whatever it is about."""

_IS = frozenset(("is", "are", "was", "were", "be", "been", "become", "becomes", "has", "have", "named", "called", "="))
"""What stands before a name that is stated, with `the` or `a` between at most; or, with `the`, behind it."""

_AS = frozenset(("as",))
_GIVEN_AS = frozenset(("given", "listed", "known", "recorded", "stated", "identified", "registered", "noted"))
"""Likewise, one behind the other: "is given as"."""

_REFUTES, _BETWEEN = frozenset(("not", "than")), frozenset(("at", "the", "a", "by", "as", "of", "to", "in", "with"))
"""What stands before a number that is said to be wrong ("not 346", "rather than at 346"), and between."""

_ARTICLES, _THE = frozenset(("the", "a", "an")), frozenset(("the",))
_MAX_NAME = 4

_OBJECT, _YOU = CUES.index("object"), CUES.index("you")


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
        subject_tokens: The tokens that the task or a tool has, or a call: those that tell subjects apart.
        refuted: (T,) which tokens are numbers that are said to be wrong.
    """

    conflicts: tuple[Conflict, ...]
    support: Floats
    answer: Ints
    stated: Ints
    subject_tokens: frozenset[int]
    refuted: Mask


def find_facts(reading: Reading, segments: Segments) -> Facts:
    """Find what is stated, and what contradicts."""
    n_segments = len(reading.texts)
    refuted = mark_refuted_numbers(reading)
    value, content = find_statements(reading, segments, refuted)
    segment_of = np.zeros(len(value), np.int64)
    segment_of[reading.sentence] = reading.segment
    answer = np.full(n_segments, -1, np.int64)
    stated = np.flatnonzero(value >= 0)
    answer[segment_of[stated]] = value[stated]  # the last one wins
    is_given = segments.is_given | segments.is_result | segments.is_call
    subject_tokens = frozenset(reading.token[content & is_given[reading.segment]].tolist())
    at = np.flatnonzero(content & (value[reading.sentence] >= 0)) if len(reading.token) else np.zeros(0, np.int64)
    pairs, sets = _pairs(reading, at), _sets(reading, at, subject_tokens)
    records = pairs.list_records(value, segment_of), sets.list_records(value, segment_of)
    conflicts = tuple(_find_conflicts(reading, content, records, subject_tokens))
    return Facts(conflicts, _share_support(records, segments), answer, value, subject_tokens, refuted)


def _find_conflicts(
    reading: Reading, content: Mask, records: Sequence[_Records], subject_tokens: frozenset[int]
) -> Iterator[Conflict]:
    """Go through neighbouring records of one subject with different values, by the later statement."""
    sentences = _Sentences(reading, content, subject_tokens)
    has_equals = set(reading.sentence[reading.has(Flag.EQUALS)].tolist())
    n_conflicts: Counter[int] = Counter()
    compared: set[tuple[int, int]] = set()
    for _, kind, row in sorted(
        (int(own.segment[row + 1]), kind, row) for kind, own in enumerate(records) for row in own.clashes()
    ):
        own = records[kind]
        earlier, later = own.segment[row : row + 2].tolist()
        about = int(own.sentence[row]), int(own.sentence[row + 1])
        if n_conflicts[later] >= MOST_CONFLICTS_OF_STEP or about in compared:
            continue
        n_conflicts[later] += 1
        compared.add(about)
        first, second = (reading.tokens[value] for value in own.value[row : row + 2].tolist())
        is_alike = is_number(first) == is_number(second)  # a number against a name says nothing
        if is_alike and sentences.are_about_one(*about):
            words = own.words(int(own.subject[row]))
            subject = reading.tokens[words[0]], reading.tokens[words[1]]
            yield Conflict(earlier, later, subject, (first, second), about[1] in has_equals)


class _Sentences:
    """The content words of sentences.

    Args:
        reading: The run's tokens.
        content: (T,) which of them may tell a subject.
        subject_tokens: The tokens that the task or a tool has, or a call: those that tell subjects apart.
    """

    def __init__(self, reading: Reading, content: Mask, subject_tokens: frozenset[int]) -> None:
        at = np.flatnonzero(content)
        self._sentence, self._token = reading.sentence[at], reading.token[at]
        self._subject_tokens = subject_tokens

    def are_about_one(self, left: int, right: int) -> bool:
        """Check whether two sentences are about one thing."""
        first, second = self._words(left), self._words(right)
        is_near = len(first & second) >= SAME_SUBJECT * len(first | second)
        return is_near and not (first ^ second) & self._subject_tokens

    def _words(self, sentence: int) -> set[int]:
        begin, end = np.searchsorted(self._sentence, [sentence, sentence + 1]).tolist()
        return set(self._token[begin : min(end, begin + MAX_WORDS)].tolist())


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

    def list_records(self, value: Ints, segment_of: Ints) -> _Records:
        """List what each segment states of each subject, once, but for subjects that some segment gives two values.

        Args:
            value: (S,) of each sentence.
            segment_of: (S,) where each stands.
        """
        subject, sentence = self.subject, self.sentence
        segment, stated = segment_of[sentence], value[sentence]
        order = np.lexsort((sentence, stated, segment, subject))
        subject, segment, stated, sentence = subject[order], segment[order], stated[order], sentence[order]
        is_next = np.zeros(len(subject), np.bool_)
        is_next[1:] = (subject[1:] == subject[:-1]) & (segment[1:] == segment[:-1])
        differs = np.ones(len(subject), np.bool_)
        differs[1:] = stated[1:] != stated[:-1]
        rows = np.flatnonzero(~is_next & ~np.isin(subject, subject[is_next & differs]))
        return _Records(self.words, subject[rows], segment[rows], stated[rows], sentence[rows])


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


def _sets(reading: Reading, at: Ints, subject_tokens: frozenset[int]) -> _Subjects:
    """Take the set of a sentence's given words for a subject, where there are two at least."""
    is_given = np.zeros(len(reading.tokens) + 1, np.bool_)
    is_given[list(subject_tokens)] = True
    at = at[is_given[reading.token[at]]]
    base = len(reading.tokens) + 1
    once = np.unique(reading.sentence[at] * base + reading.token[at])
    sentences, first = np.unique(once // base, return_index=True)
    tokens, ends = (once % base).tolist(), np.append(first, len(once))[1:]
    numbers: dict[tuple[int, ...], int] = {}
    subject, sentence = [], []
    for of, begin, end in zip(sentences.tolist(), first.tolist(), ends.tolist(), strict=True):
        if end - begin >= LEAST_WORDS:
            words = tuple(tokens[begin : min(end, begin + MAX_WORDS)])
            subject.append(numbers.setdefault(words, len(numbers)))
            sentence.append(of)
    sets = list(numbers)
    return _Subjects(
        lambda number: (sets[number][0], sets[number][1]), np.array(subject, np.int64), np.array(sentence, np.int64)
    )


def _share_support(records: Sequence[_Records], segments: Segments) -> Floats:
    """Return, per segment, which share of other speakers' statements on its subjects gives its value: (G,)."""
    n_segments = len(segments.owner)
    n_asked, n_agree = np.zeros((2, n_segments))
    for own in records:
        speaker = segments.speaker[own.segment] + 1
        n_speakers = int(speaker.max(initial=0)) + 1
        subject = np.unique(own.subject, return_inverse=True)[1]
        stated = np.unique(subject * (int(own.value.max(initial=0)) + 1) + own.value, return_inverse=True)[1]
        asked = _times(subject) - _times(subject * n_speakers + speaker)
        agree = _times(stated) - _times(stated * n_speakers + speaker)
        n_asked += np.bincount(own.segment, asked, minlength=n_segments)
        n_agree += np.bincount(own.segment, agree, minlength=n_segments)
    shares: Floats = np.where(n_asked > 0, n_agree / np.where(n_asked > 0, n_asked, 1), np.nan)
    return shares


def _times(keys: Ints) -> Ints:
    """Count how often each entry's key occurs: (R,)."""
    _, which, counts = np.unique(keys, return_inverse=True, return_counts=True)
    return counts[which]


def find_statements(
    reading: Reading, segments: Segments, refuted: Mask, is_known: Mask | None = None
) -> tuple[Ints, Mask]:
    """Find the value of every sentence, and which tokens may tell its subject.

    Args:
        reading: The run's tokens.
        segments: What each segment is.
        refuted: (T,) which numbers are said to be wrong.
        is_known: (V,) which tokens are known to be names from elsewhere.

    Returns:
        (S,) an index of `Reading.tokens`, -1 where nothing is stated, and (T,).
    """
    n_sentences = int(reading.sentence[-1]) + 1 if len(reading.sentence) else 0
    value = np.full(n_sentences, -1, np.int64)
    readable = ~reading.in_code & ~segments.is_call[reading.segment]
    is_number = reading.has(Flag.NUMBER) & readable & ~reading.numbers_list & ~refuted
    sentence = reading.sentence
    equals = np.bincount(sentence[reading.has(Flag.EQUALS) & readable], minlength=n_sentences)
    is_result = is_number & ((equals[sentence] > 0) | ~_mark_operands(reading))
    numbers, results = (np.bincount(sentence[mask], minlength=n_sentences) for mask in (is_number, is_result))
    is_word = reading.has(Flag.WORD) & ~reading.has(Flag.STOP) & ~reading.in_code
    is_name = _mark_stated_names(reading, is_word & readable, is_known)
    value[sentence[is_name]] = reading.token[is_name]  # the last name of the sentence
    value[sentence[is_result]] = reading.token[is_result]  # the last number, rather
    value[(equals == 0) & ((results > 1) | ((numbers > 0) & (results == 0)))] = -1
    is_value = (value[sentence] == reading.token) | is_name
    follows = np.zeros(len(is_number), np.bool_)
    follows[1:] = is_number[:-1]  # its unit
    return value, is_word & ~is_value & ~follows & ~reading.is_any(_SAYS)


def mark_refuted_numbers(reading: Reading) -> Mask:
    """Return which tokens are numbers that are said to be wrong: (T,)."""
    refutes, between = reading.is_any(_REFUTES), reading.is_any(_BETWEEN)
    refutes[1:] |= reading.is_any(("of",))[1:] & reading.is_any(("instead",))[:-1]
    before = np.zeros(len(refutes), np.bool_)
    before[1:] = refutes[:-1]
    before[2:] |= between[1:-1] & refutes[:-2]
    same = np.zeros(len(before), np.bool_)
    same[1:] = reading.sentence[1:] == reading.sentence[:-1]
    refuted: Mask = reading.has(Flag.NUMBER) & before & same & ~reading.in_code
    return refuted


def _mark_stated_names(reading: Reading, is_word: Mask, is_known: Mask | None) -> Mask:
    """Return which tokens are of a name that something is said to be: (T,)."""
    is_large = is_word & reading.has(Flag.CAPITAL)
    is_name = is_large & ~reading.opens
    states = reading.is_any(_IS)
    before = _after(states & ~is_name) | _after(_after(states) & reading.is_any(_ARTICLES))
    before |= _after(_after(reading.is_any(_GIVEN_AS)) & reading.is_any(_AS))
    stated = is_name & before
    for _ in range(_MAX_NAME - 1):
        stated |= is_name & _after(stated)
    return stated | _mark_names_first(reading, is_large, states, is_known)


def _mark_names_first(reading: Reading, is_large: Mask, states: Mask, is_known: Mask | None) -> Mask:
    """Return which tokens open a sentence like "Halden Works is the maker", if one has the name within: (T,)."""
    is_within = np.zeros(len(reading.tokens) + 1, np.bool_)
    is_within[reading.token[is_large & ~reading.opens]] = True
    if is_known is not None:
        is_within[:-1] |= is_known
    is_name = is_large & is_within[reading.token]
    begun = is_name & reading.opens
    for _ in range(_MAX_NAME - 1):
        begun |= is_name & ~reading.opens & _after(begun)
    stated = begun & _before(states & _before(reading.is_any(_THE)))
    for _ in range(_MAX_NAME - 1):
        stated |= begun & _before(stated & ~reading.opens)
    return stated


def _mark_operands(reading: Reading) -> Mask:
    """Return which tokens stand beside a sign of calculation: (T,)."""
    is_sign = reading.has(Flag.OPERATOR)
    return _before(is_sign) | _after(is_sign)


def _after(marked: Mask) -> Mask:
    """Return which tokens stand right behind a marked one: (T,)."""
    is_after = np.zeros(len(marked), np.bool_)
    is_after[1:] = marked[:-1]
    return is_after


def _before(marked: Mask) -> Mask:
    """Return which tokens stand right before a marked one: (T,)."""
    is_before = np.zeros(len(marked), np.bool_)
    is_before[:-1] = marked[1:]
    return is_before


def name_tokens(reading: Reading, names: list[str]) -> Ints:
    """Return which agent each token names: (V,), an agent's label or -1.

    A name of several words is told by its longest, too; one that two agents share names nobody.
    """
    token_of = reading.places
    named = np.full(len(reading.tokens), -1)
    taken: set[int] = set()
    for label, name in enumerate(names):
        words = name.replace("-", " ").lower().split()
        spellings = {name.lower(), max(words, key=len)[:40]} if words else set()
        for token in sorted(token_of[spelling] for spelling in spellings if spelling in token_of):
            named[token] = -1 if token in taken else label
            taken.add(token)
    return named


def find_objections(
    reading: Reading, segments: Segments, facts: Facts, agent: Ints, decides: Mask, named: Ints
) -> tuple[Ints, Ints]:
    """Find who objects to what.

    A step that objects points at the steps whose values it contradicts, at the last step of each agent it names, or,
    where it does neither, at the decision before it if another agent took it.

    Returns:
        (O,) the objecting steps, ascending, and (O,) what each objects to; a pair at most once.
    """
    n_steps = len(agent)
    is_said = segments.is_said & (segments.owner >= 0)
    objects = np.bincount(segments.owner[is_said], reading.cue[is_said, _OBJECT], minlength=n_steps) > 0
    objects &= decides
    pairs: set[tuple[int, int]] = set()
    for conflict in facts.conflicts:
        later, earlier = int(segments.owner[conflict.later]), int(segments.owner[conflict.earlier])
        if later >= 0 and earlier >= 0 and objects[later] and decides[earlier] and agent[later] != agent[earlier]:
            pairs.add((later, earlier))
    mentions = _list_mentions(reading, segments, named, is_said)
    last_of: dict[int, int] = {}
    before = -1
    for step in np.flatnonzero(decides).tolist():
        if objects[step]:
            pointed = [last_of[label] for label in mentions.get(step, ()) if label in last_of and label != agent[step]]
            pairs.update((step, target) for target in pointed)
            if not pointed and before >= 0 and agent[before] != agent[step]:
                pairs.add((step, before))
        last_of[int(agent[step])] = before = step
    ordered = np.array(sorted(pairs), np.int64).reshape(-1, 2)
    return ordered[:, 0], ordered[:, 1]


def _list_mentions(reading: Reading, segments: Segments, named: Ints, is_said: Mask) -> dict[int, list[int]]:
    """List, by step, the agents it names, in order."""
    if not len(reading.token):
        return {}
    at = np.flatnonzero((named[reading.token] >= 0) & is_said[reading.segment])
    pairs = dict.fromkeys(
        zip(segments.owner[reading.segment[at]].tolist(), named[reading.token[at]].tolist(), strict=True)
    )
    mentions: dict[int, list[int]] = {}
    for step, label in pairs:
        mentions.setdefault(step, []).append(label)
    return mentions
