"""The network on one run, in NumPy: no padding, so a score is the same to the last bit in any company.

Dims: N texts, S sentences of theirs, E width of an embedding, M activations of a sentence.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.alternatives.network.inputs import RunInputs, SentenceTokens, lay_out_relations
from blamespan_tracer.alternatives.network.model import Scores, StepInputs, forward
from blamespan_tracer.alternatives.network.weights import Network

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


def score_run(network: Network, run: RunInputs) -> Scores:
    """Compute the scores of a run no longer than a window: arrays with B = 1."""
    bags, sentences = _embed_texts(network, run.tokens)
    steps = StepInputs(
        features=network.scale(run.features)[None],
        bags=bags[None],
        relations=lay_out_relations(run)[None],
        is_real=np.ones((1, len(run)), bool),
        can_be_blamed=run.can_be_blamed[None],
        sentences=sentences[None],
    )
    return forward(network.weights, network.shape, steps)


def _embed_texts(network: Network, tokens: SentenceTokens) -> tuple[Floats, Floats]:
    """Return the bag of each text, (N, E), and the maximum of its sentences' activations, (N, M)."""
    weights = network.weights
    sums = _sum_segments(weights["embedding"].take(tokens.rows, axis=0), tokens.first_token)
    logits = sums / _roots(np.diff(tokens.first_token)) @ weights["sentence.weight"] + weights["sentence.bias"]
    n_tokens = np.diff(tokens.first_token[tokens.first_sentence])
    bags = _reduce_segments(np.add, sums, tokens.first_sentence) / _roots(n_tokens)
    return bags, _reduce_segments(np.maximum, np.maximum(logits, 0), tokens.first_sentence)


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
