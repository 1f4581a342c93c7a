"""The words that a network knows, by their hashes.

Dims: V words.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.tokens import tokens_of

__all__ = ["Vocabulary"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Words in the order of their hashes.

    Attributes:
        hashes: (V,) uint32, ascending, each once.

    Raises:
        ValueError: if they do not ascend.
    """

    hashes: NDArray[np.uint32]

    def __post_init__(self) -> None:
        if self.hashes.ndim != 1 or (np.diff(self.hashes.astype(np.int64)) <= 0).any():
            raise ValueError("hashes of words that do not ascend")

    def __len__(self) -> int:
        return len(self.hashes)

    def rows(self, hashes: NDArray[Any]) -> Ints:
        """Give the row of each word, -1 for words not known."""
        if not len(self):
            return np.full(len(hashes), -1, np.int64)
        rows = np.minimum(np.searchsorted(self.hashes, hashes), len(self) - 1)
        return np.where(self.hashes[rows] == hashes, rows, -1)

    @classmethod
    def of(cls, words: Iterable[str]) -> Vocabulary:
        """Make one of words as they are written; of several with one hash it holds one row."""
        return cls(np.unique(tokens_of(list(words)).hashes))
