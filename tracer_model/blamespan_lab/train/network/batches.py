"""Runs as PyTorch trains on them: padded to the longest of a batch of like length.

Dims: B runs, S steps of the longest, F features, R relations, W tokens.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from blamespan_tracer.alternatives.network.inputs import RELATIONS, RunInputs, SentenceTokens, lay_out_relations
from blamespan_tracer.alternatives.network.model import StepInputs, Weights

__all__ = ["PaddedBatch", "pad", "split_by_size"]

_MAX_BATCH_CELLS = 400_000
"""Most relation cells of one batch that `split_by_size` makes."""


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """B runs, padded to the longest.

    Attributes:
        features: (B, S, F).
        relations: (B, R, S, S).
        agent: (B, S) int64, -1 on padding.
        is_real: (B, S) bool.
        can_be_blamed: (B, S) bool.
        tokens: (W,) int64 rows of the embedding, sentence by sentence, and
        starts: where the tokens of each sentence begin, and
        owner: which of the B * S steps a sentence belongs to, ascending.
    """

    features: Tensor
    relations: Tensor
    agent: Tensor
    is_real: Tensor
    can_be_blamed: Tensor
    tokens: Tensor
    starts: Tensor
    owner: Tensor

    def steps(
        self, weights: Weights, *, word_keep: float = 1.0, generator: torch.Generator | None = None
    ) -> StepInputs:
        """Look the embeddings up for `forward`; a token is dropped with probability 1 - *word_keep*."""
        dropout = None
        if word_keep < 1:
            dropout = (torch.rand(len(self.tokens), generator=generator) < word_keep).float() / word_keep
        runs, steps = self.is_real.shape
        sums = functional.embedding_bag(
            self.tokens, weights["embedding"], self.starts, mode="sum", per_sample_weights=dropout
        )
        sizes = torch.diff(self.starts, append=torch.tensor([len(self.tokens)]))
        size = runs * steps
        n_tokens = sizes.new_zeros(size).index_add(0, self.owner, sizes)
        bags = (
            sums.new_zeros(size, sums.shape[1]).index_add(0, self.owner, sums) / n_tokens.clamp(min=1).sqrt()[:, None]
        )
        sentences = self._read_sentences(sums / sizes.clamp(min=1).sqrt()[:, None], weights)
        return StepInputs(
            self.features,
            bags.reshape(runs, steps, -1),
            self.relations,
            self.is_real,
            self.can_be_blamed,
            sentences.reshape(runs, steps, -1),
        )

    def _read_sentences(self, bags: Tensor, weights: Weights) -> Tensor:
        activations = functional.relu(bags @ weights["sentence.weight"] + weights["sentence.bias"])
        highest = activations.new_zeros(self.is_real.numel(), activations.shape[1])
        return highest.scatter_reduce(0, self.owner[:, None].expand_as(activations), activations, "amax")


def split_by_size(order: Sequence[int], sizes: Sequence[int], most_runs: int) -> Iterator[list[int]]:
    """Split runs that are ordered by length into batches that fit in memory when padded.

    Args:
        order: Their indices, the shortest first.
        sizes: How many steps each has, by index.
        most_runs: Of a batch; a run that does not fit beside another is a batch of its own.
    """
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) >= most_runs or (len(batch) + 1) * sizes[row] ** 2 > _MAX_BATCH_CELLS):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def pad(runs: Sequence[RunInputs]) -> PaddedBatch:
    """Pad runs to the longest."""
    longest = max(len(run) for run in runs)
    shape = (len(runs), longest)
    features = np.zeros((*shape, runs[0].features.shape[1]), np.float32)
    relations = np.zeros((len(runs), len(RELATIONS), longest, longest), np.float32)
    agent = np.full(shape, -1, np.int64)
    blamable = np.zeros(shape, bool)
    for row, run in enumerate(runs):
        n_steps = len(run)
        features[row, :n_steps] = run.features
        relations[row, :, :n_steps, :n_steps] = lay_out_relations(run)
        agent[row, :n_steps] = run.agent
        blamable[row, :n_steps] = run.can_be_blamed
    tokens = SentenceTokens.concatenate([run.tokens for run in runs])
    steps = np.concatenate([row * longest + np.arange(len(run)) for row, run in enumerate(runs)])
    owner = np.repeat(steps, np.diff(tokens.first_sentence))
    arrays = (features, relations, agent, agent >= 0, blamable, tokens.rows, tokens.first_token[:-1], owner)
    return PaddedBatch(*map(torch.from_numpy, arrays))
