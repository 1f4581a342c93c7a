"""What each sentence states: its only number or what a sum comes to, or the name that it says something is.

The value of a sentence is its only number but for those of a calculation ("12 - 5 gives 7") and those that it says are
wrong (`not`, `than` or `instead of` stands before them), what stands behind its last `=`, or a name: "the maker is
Halden Works", "Halden Works is the maker". Calls ask, they state nothing.

Dims: S sentences, T tokens.
"""

from __future__ import annotations

import numpy as np

from blamespan_tracer.representation.claims import Segments
from blamespan_tracer.representation.reading import Flag, Ints, Mask, Reading

__all__ = ["find_statements", "refuted_numbers"]

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


def find_statements(reading: Reading, segments: Segments, refuted: Mask) -> tuple[Ints, Mask]:
    """Find the value of every sentence, and which tokens may tell its subject.

    Args:
        reading: The run's tokens.
        segments: What each segment is.
        refuted: (T,) which numbers are said to be wrong.

    Returns:
        (S,) an index of `Reading.tokens`, -1 where nothing is stated, and (T,).
    """
    n_sentences = int(reading.sentence[-1]) + 1 if len(reading.sentence) else 0
    value = np.full(n_sentences, -1, np.int64)
    readable = ~reading.in_code & ~segments.is_call[reading.segment]
    is_number = reading.has(Flag.NUMBER) & readable & ~reading.numbers_list & ~refuted
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


def refuted_numbers(reading: Reading) -> Mask:
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


def _stated_names(reading: Reading, is_word: Mask) -> Mask:
    """Return which tokens are of a name that something is said to be: (T,)."""
    is_large = is_word & reading.has(Flag.CAPITAL)
    is_name = is_large & ~reading.opens
    states = reading.is_any(_IS)
    before = _after(states & ~is_name) | _after(_after(states) & reading.is_any(_ARTICLES))
    before |= _after(_after(reading.is_any(_GIVEN_AS)) & reading.is_any(_AS))
    stated = is_name & before
    for _ in range(_MAX_NAME - 1):
        stated |= is_name & _after(stated)
    return stated | _names_first(reading, is_large, states)


def _names_first(reading: Reading, is_large: Mask, states: Mask) -> Mask:
    """Return which tokens open a sentence like "Halden Works is the maker", if one has the name within: (T,)."""
    is_name = is_large & np.isin(reading.token, reading.token[is_large & ~reading.opens])
    begun = is_name & reading.opens
    for _ in range(_MAX_NAME - 1):
        begun |= is_name & ~reading.opens & _after(begun)
    stated = begun & _before(states & _before(reading.is_any(_THE)))
    for _ in range(_MAX_NAME - 1):
        stated |= begun & _before(stated & ~reading.opens)
    return stated


def _operands(reading: Reading) -> Mask:
    """Return which tokens stand beside a sign of calculation: (T,)."""
    is_sign = reading.has(Flag.OPERATOR)
    return _before(is_sign) | _after(is_sign)


def _after(marked: Mask) -> Mask:
    """Return which tokens stand right behind a marked one: (T,)."""
    found = np.zeros(len(marked), np.bool_)
    found[1:] = marked[:-1]
    return found


def _before(marked: Mask) -> Mask:
    """Return which tokens stand right before a marked one: (T,)."""
    found = np.zeros(len(marked), np.bool_)
    found[:-1] = marked[1:]
    return found
