"""The known words of texts, sentence by sentence.

Dims: N texts, S sentences, W words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.evidence import sentences_of
from blamespan_tracer.network.vocabulary import Vocabulary
from blamespan_tracer.tokens import ranges, tokens_of

__all__ = ["Words", "words_of"]

Ints = NDArray[np.int64]

_MAX_SENTENCES = 64
"""Of a longer text the first and last half of this many are read."""


@dataclass(frozen=True, slots=True)
class Words:
    """The distinct words of each sentence of each text.

    Attributes:
        rows: (W,) int64 rows of the word table, sentence by sentence, ascending within each.
        first_word: (S + 1,) int64: sentence s has the words first_word[s] to first_word[s + 1], that one not included.
        first_sentence: (N + 1,) int64, likewise of each text.
    """

    rows: Ints
    first_word: Ints
    first_sentence: Ints

    def __len__(self) -> int:
        return len(self.first_sentence) - 1

    def of(self, texts: Ints) -> Words:
        """Give those of some of the texts, in the order of *texts*."""
        sizes = np.diff(self.first_sentence)[texts]
        sentences = ranges(self.first_sentence[texts], sizes)
        lengths = np.diff(self.first_word)[sentences]
        return Words(self.rows[ranges(self.first_word[sentences], lengths)], _places(lengths), _places(sizes))

    @classmethod
    def joined(cls, parts: Sequence[Words]) -> Words:
        """Put the texts of several one after the other."""
        return cls(
            np.concatenate([part.rows for part in parts]),
            _places(np.concatenate([np.diff(part.first_word) for part in parts])),
            _places(np.concatenate([np.diff(part.first_sentence) for part in parts])),
        )


def words_of(task: str, texts: Sequence[str], vocabulary: Vocabulary) -> Words:
    """Find the words of texts that are not the task's: these tell what a run is about, not what went wrong."""
    parts = [sentences_of(text, _MAX_SENTENCES) for text in texts]
    rows, first_word = _fresh_words(task, [sentence for part in parts for sentence in part], vocabulary)
    return Words(rows, first_word, _places(np.array([len(part) for part in parts], np.int64)))


def _fresh_words(task: str, sentences: Sequence[str], vocabulary: Vocabulary) -> tuple[Ints, Ints]:
    """List the distinct known words of each sentence that the task has not, and where those of each begin."""
    tokens = tokens_of([task, *sentences])
    first = tokens.sizes[0]
    sentence, hashes = tokens.texts[first:] - 1, tokens.hashes[first:]
    rows = vocabulary.rows(hashes)
    fresh = (rows >= 0) & ~np.isin(hashes, np.unique(tokens.hashes[:first]))
    distinct = np.unique((sentence[fresh] << 32) | rows[fresh])
    return distinct & 0xFFFFFFFF, np.searchsorted(distinct >> 32, np.arange(len(sentences) + 1))


def _places(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
