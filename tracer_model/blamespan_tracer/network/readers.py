"""Who computes the network's arithmetic: NumPy on a CPU, run by run, or PyTorch on a device, many at once.

Dims: N texts, S sentences of theirs, E width of a word bag, M width of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from blamespan.lazy import lazy_property
from blamespan_tracer.network.inputs import RunInputs, relations_of
from blamespan_tracer.network.model import Scores, StepInputs, Weights, mean_scores, scores_of, stacked
from blamespan_tracer.network.weights import Network
from blamespan_tracer.network.words import Words

__all__ = ["NumpyReader", "Reader"]

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

BATCH_RUNS = 64
"""Runs given to a CPU at once: it reads them one by one, so this only bounds memory."""


class Reader(Protocol):
    """Reads runs with a network."""

    @property
    def device(self) -> str:
        """`cpu`, or as PyTorch calls it."""
        ...

    @property
    def batch_runs(self) -> int:
        """How many runs it wants to be given at once."""
        ...

    def scores(self, runs: Sequence[RunInputs]) -> list[Scores]:
        """Say what all members say together of each run, none longer than a window: NumPy arrays with B = 1."""
        ...


class NumpyReader:
    """Reads runs on a CPU, one at a time: no padding, so a score is the same to the last bit in any company."""

    device = "cpu"
    batch_runs = BATCH_RUNS

    def __init__(self, network: Network) -> None:
        self._network = network

    @lazy_property
    def _table(self) -> Floats:
        """Lay the members' word tables side by side: (V, members * E). One lookup serves all."""
        return np.concatenate([weights["words"] for weights in self._network.members], axis=1)

    @lazy_property
    def _stacked(self) -> Weights:
        """Lay the rest of the members' weights side by side: all read at once, to the same bits as one by one."""
        return stacked(self._network.members)

    def scores(self, runs: Sequence[RunInputs]) -> list[Scores]:
        """Read each run."""
        return [self._read(run) for run in runs]

    def _read(self, run: RunInputs) -> Scores:
        n_members = len(self._network.members)
        bags, sentences = (np.stack(np.split(each[None], n_members, axis=-1)) for each in self._said(run.words))
        steps = StepInputs(
            features=self._network.scaled(run.features)[None],
            bags=bags,
            relations=relations_of(run)[None],
            is_real=np.ones((1, len(run)), bool),
            can_be_blamed=run.can_be_blamed[None],
            sentences=sentences,
        )
        said = scores_of(self._stacked, self._network.shape, steps)
        parts = zip(said.pointer, said.fault, said.modes, said.states, strict=True)
        return mean_scores([Scores(*member) for member in parts])

    def _said(self, words: Words) -> tuple[Floats, Floats]:
        """Sum up the word vectors of each text, and read its sentences, as training does, for all members at once.

        Returns:
            (N, members * E) and (N, members * M): those of the first member, then those of the next.
        """
        n_words = np.diff(words.first_word[words.first_sentence])
        sums, read = self._sentences(words)
        bags = _reduced(np.add, sums, words.first_sentence) / _roots(n_words)
        return bags, _reduced(np.maximum, read, words.first_sentence)

    def _sentences(self, words: Words) -> tuple[Floats, Floats]:
        """Sum up the word vectors of each sentence, and read it: (S, members * E) and (S, members * M)."""
        sums = _summed(self._table.take(words.rows, axis=0), words.first_word)
        if not self._network.shape.sentence_width:
            return sums, np.zeros((len(sums), 0), np.float32)
        heard = np.split(sums / _roots(np.diff(words.first_word)), len(self._network.members), axis=1)
        read = [
            each @ weights["sentence.in"] + weights["sentence.bias"]
            for each, weights in zip(heard, self._network.members, strict=True)
        ]
        return sums, np.maximum(np.concatenate(read, axis=1), 0)


def _roots(counts: Ints) -> Floats:
    return np.sqrt(np.maximum(counts, 1)).astype(np.float32)[:, None]


def _summed(rows: Floats, first: Ints) -> Floats:
    """Add up rows[first[i]:first[i + 1]] for each i, as products with ones: faster than `np.add.reduceat`."""
    found = np.empty((len(first) - 1, rows.shape[1]), np.float32)
    ones = np.ones(len(rows), np.float32)
    for place, (begin, end) in enumerate(pairwise(first.tolist())):
        np.dot(ones[begin:end], rows[begin:end], out=found[place])
    return found


def _reduced(reduce: np.ufunc, rows: Floats, first: Ints) -> Floats:
    """Put rows[first[i]:first[i + 1]] together for each i; 0 where there are none."""
    some = np.flatnonzero(np.diff(first))
    found = np.zeros((len(first) - 1, rows.shape[1]), np.float32)
    if len(some):
        found[some] = reduce.reduceat(rows, first[:-1][some], axis=0)
    return found
