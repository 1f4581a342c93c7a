"""The engines that run the network: NumPy on a CPU, run by run; `torch_inference` on a device, many at once.

Dims: N texts, S sentences of theirs, E width of an embedding, M activations of a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from blamespan.lazy import lazy_property
from blamespan_tracer.alternatives.network.inputs import RunInputs, SentenceTokens, lay_out_relations
from blamespan_tracer.alternatives.network.model import (
    Scores,
    StepInputs,
    Weights,
    average_scores,
    forward,
    stack_ensemble,
)
from blamespan_tracer.alternatives.network.weights import Network

__all__ = ["InferenceEngine", "NumpyEngine"]

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

BATCH_RUNS = 64
"""Runs given to a CPU at once: it computes them one by one, so this only bounds memory."""


class InferenceEngine(Protocol):
    """Computes the scores of a network for runs."""

    @property
    def device(self) -> str:
        """`cpu`, or as PyTorch calls it."""
        ...

    @property
    def batch_runs(self) -> int:
        """How many runs it takes at once."""
        ...

    def scores(self, runs: Sequence[RunInputs]) -> list[Scores]:
        """Return the scores of the ensemble for each run, none longer than a window: NumPy arrays with B = 1."""
        ...


class NumpyEngine:
    """Computes on a CPU, one run at a time: no padding, so a score is the same to the last bit in any company."""

    device = "cpu"
    batch_runs = BATCH_RUNS

    def __init__(self, network: Network) -> None:
        self._network = network

    @lazy_property
    def _embedding(self) -> Floats:
        """Put the embeddings of the ensemble side by side, (V, N * E), so that one lookup serves all."""
        return np.concatenate([weights["embedding"] for weights in self._network.ensemble], axis=1)

    @lazy_property
    def _stacked(self) -> Weights:
        """Stack the other weights: computed at once, to the same bits as one by one."""
        return stack_ensemble(self._network.ensemble)

    def scores(self, runs: Sequence[RunInputs]) -> list[Scores]:
        """Compute the scores of each run."""
        return [self._forward(run) for run in runs]

    def _forward(self, run: RunInputs) -> Scores:
        n_networks = len(self._network.ensemble)
        texts = self._embed_texts(run.tokens)
        bags, sentences = (np.stack(np.split(array[None], n_networks, axis=-1)) for array in texts)
        steps = StepInputs(
            features=self._network.scale(run.features)[None],
            bags=bags,
            relations=lay_out_relations(run)[None],
            is_real=np.ones((1, len(run)), bool),
            can_be_blamed=run.can_be_blamed[None],
            sentences=sentences,
        )
        scores = forward(self._stacked, self._network.shape, steps)
        by_network = zip(scores.pointer, scores.fault, scores.modes, scores.states, strict=True)
        return average_scores([Scores(*arrays) for arrays in by_network])

    def _embed_texts(self, tokens: SentenceTokens) -> tuple[Floats, Floats]:
        """Compute the bag of each text, and its sentence activations, for all of the ensemble at once.

        Returns:
            (N, E) and (N, M), as often as there are networks: those of the first, then those of the next.
        """
        n_tokens = np.diff(tokens.first_token[tokens.first_sentence])
        sums, activations = self._embed_sentences(tokens)
        bags = _reduce_segments(np.add, sums, tokens.first_sentence) / _roots(n_tokens)
        return bags, _reduce_segments(np.maximum, activations, tokens.first_sentence)

    def _embed_sentences(self, tokens: SentenceTokens) -> tuple[Floats, Floats]:
        """Return the sum of the embeddings of each sentence, and its activations: (S, N * E) and (S, N * M)."""
        sums = _sum_segments(self._embedding.take(tokens.rows, axis=0), tokens.first_token)
        if not self._network.shape.sentence_width:
            return sums, np.zeros((len(sums), 0), np.float32)
        bags = np.split(sums / _roots(np.diff(tokens.first_token)), len(self._network.ensemble), axis=1)
        logits = [
            bag @ weights["sentence.weight"] + weights["sentence.bias"]
            for bag, weights in zip(bags, self._network.ensemble, strict=True)
        ]
        return sums, np.maximum(np.concatenate(logits, axis=1), 0)


def _roots(counts: Ints) -> Floats:
    return np.sqrt(np.maximum(counts, 1)).astype(np.float32)[:, None]


def _sum_segments(rows: Floats, first: Ints) -> Floats:
    """Return the sums of rows[first[i]:first[i + 1]] by products with ones: faster than `np.add.reduceat`."""
    sums = np.empty((len(first) - 1, rows.shape[1]), np.float32)
    ones = np.ones(len(rows), np.float32)
    for index, (begin, end) in enumerate(pairwise(first.tolist())):
        np.dot(ones[begin:end], rows[begin:end], out=sums[index])
    return sums


def _reduce_segments(reduce: np.ufunc, rows: Floats, first: Ints) -> Floats:
    """Reduce rows[first[i]:first[i + 1]] for each i; 0 where there are none."""
    filled = np.flatnonzero(np.diff(first))
    reduced = np.zeros((len(first) - 1, rows.shape[1]), np.float32)
    if len(filled):
        reduced[filled] = reduce.reduceat(rows, first[:-1][filled], axis=0)
    return reduced
