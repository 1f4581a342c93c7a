"""The sentences of a run, each with the names, the numbers and the words in it.

Dims: T tokens, S sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from blamespan_tracer.alternatives.network.representation.claims import Claims
from blamespan_tracer.alternatives.network.representation.reading import Flag, Ints, Mask, Reading


@dataclass(slots=True)
class Sentence:
    """One sentence; all in it are indices of `Reading.tokens`.

    Attributes:
        segment: Where it stands.
        value: What it states, -1 where it states nothing.
        names: Distinct names.
        numbers: Every number but that of a list's item, in order.
        words: Distinct other words, stop words too.
    """

    segment: int
    value: int
    names: set[int] = field(default_factory=set)
    numbers: list[int] = field(default_factory=list)
    words: set[int] = field(default_factory=set)


def read_sentences(reading: Reading, claims: Claims, stated: Ints) -> list[Sentence]:
    """Take the run apart into sentences, in order; code is left out.

    Args:
        reading: The run's tokens.
        claims: Says which words are names.
        stated: (S,) the value that each sentence states, see `facts.Facts`.
    """
    is_number = reading.has(Flag.NUMBER) & ~reading.numbers_list
    kind = is_number + 2 * _names(reading, claims)
    at = np.flatnonzero((is_number | reading.has(Flag.WORD)) & ~reading.in_code)
    return list(_gathered(reading, at, kind[at], stated))


def _gathered(reading: Reading, at: Ints, kinds: Ints, stated: Ints) -> Iterator[Sentence]:
    """Go through the tokens in order: words (0), numbers (1) and names (2)."""
    numbered = reading.sentence[at]
    first = np.flatnonzero(np.diff(numbered, prepend=-1))
    tokens, kind_of = reading.token[at].tolist(), kinds.tolist()
    segments, values = reading.segment[at[first]].tolist(), stated[numbered[first]].tolist()
    begins, ends = first.tolist(), np.append(first, len(tokens))[1:].tolist()
    for begin, end, segment, value in zip(begins, ends, segments, values, strict=True):
        said, kinds_said = tokens[begin:end], kind_of[begin:end]
        if not any(kinds_said):
            yield Sentence(segment, value, words=set(said))
            continue
        sentence = Sentence(segment, value)
        for token, kind in zip(said, kinds_said, strict=True):
            if kind == 0:
                sentence.words.add(token)
            elif kind == 1:
                sentence.numbers.append(token)
            else:
                sentence.names.add(token)
        yield sentence


def _names(reading: Reading, claims: Claims) -> Mask:
    """Return which tokens are names: written large here and somewhere within a sentence, and claimed: (T,)."""
    is_claimed, is_capital = np.zeros((2, len(reading.tokens) + 1), np.bool_)
    is_claimed[claims.token[claims.claim[~claims.is_number]]] = True
    is_capital[reading.token[reading.has(Flag.CAPITAL) & ~reading.opens]] = True
    names: Mask = (is_claimed & is_capital)[reading.token] & reading.has(Flag.CAPITAL)
    return names
