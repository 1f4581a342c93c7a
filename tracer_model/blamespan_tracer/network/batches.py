"""Runs side by side for a GPU: padded, and sorted so that little is.

Dims: B runs, S steps of the longest, R relations, K modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from blamespan_tracer.network.inputs import RELATIONS, RunInputs, relations_of
from blamespan_tracer.network.model import StepInputs, Weights
from blamespan_tracer.network.words import Words

__all__ = ["Padded", "pad", "parted"]

_MAX_CELLS = 400_000
"""Most relation cells (B * S * S) of one batch."""


@dataclass(frozen=True, slots=True)
class Padded:
    """B runs, padded to the longest.

    Attributes:
        features: (B, S, F).
        relations: (B, R, S, S).
        agent: (B, S) int64, -1 on padding.
        is_real: (B, S) bool.
        can_be_blamed: (B, S) bool.
        words: (W,) int64 rows of the word table, sentence by sentence, and
        starts: where those of each sentence begin, and
        owner: which of the B * S steps it is of, ascending.
    """

    features: Tensor
    relations: Tensor
    agent: Tensor
    is_real: Tensor
    can_be_blamed: Tensor
    words: Tensor
    starts: Tensor
    owner: Tensor

    def steps(
        self, weights: Weights, *, word_keep: float = 1.0, generator: torch.Generator | None = None
    ) -> StepInputs:
        """Look the words up, leaving each out with probability 1 - *word_keep*, and give what the network reads."""
        weighed = None
        if word_keep < 1:
            kept = torch.rand(len(self.words), generator=generator, device=self.words.device) < word_keep
            weighed = kept.float() / word_keep
        runs, steps = self.is_real.shape
        sums = functional.embedding_bag(
            self.words, weights["words"], self.starts, mode="sum", per_sample_weights=weighed
        )
        sizes = torch.diff(self.starts, append=torch.tensor([len(self.words)], device=self.words.device))
        size = runs * steps
        n_words = sizes.new_zeros(size).index_add(0, self.owner, sizes)
        bags = sums.new_zeros(size, sums.shape[1]).index_add(0, self.owner, sums) / n_words.clamp(min=1).sqrt()[:, None]
        read = self._sentences(sums / sizes.clamp(min=1).sqrt()[:, None], weights)
        return StepInputs(
            self.features,
            bags.reshape(runs, steps, -1),
            self.relations,
            self.is_real,
            self.can_be_blamed,
            read if read is None else read.reshape(runs, steps, -1),
        )

    def _sentences(self, bags: Tensor, weights: Weights) -> Tensor | None:
        if "sentence.in" not in weights:
            return None
        read = functional.relu(bags @ weights["sentence.in"] + weights["sentence.bias"])
        most = read.new_zeros(self.is_real.numel(), read.shape[1])
        return most.scatter_reduce(0, self.owner[:, None].expand_as(read), read, "amax")


def parted(order: Sequence[int], sizes: Sequence[int], most_runs: int) -> Iterator[list[int]]:
    """Part runs that are ordered by length so that each part, padded, fits in memory.

    Args:
        order: Their numbers, the shortest first.
        sizes: How many steps each has, by its number.
        most_runs: Of a part; a run that does not fit beside another is one of its own.
    """
    part: list[int] = []
    for row in order:
        if part and (len(part) >= most_runs or (len(part) + 1) * sizes[row] ** 2 > _MAX_CELLS):
            yield part
            part = []
        part.append(row)
    if part:
        yield part


def pad(runs: Sequence[RunInputs], device: torch.device | str = "cpu") -> Padded:
    """Put runs side by side."""
    longest = max(len(run) for run in runs)
    shape = (len(runs), longest)
    features = np.zeros((*shape, runs[0].features.shape[1]), np.float32)
    relations = np.zeros((len(runs), len(RELATIONS), longest, longest), np.float32)
    agent = np.full(shape, -1, np.int64)
    blamable = np.zeros(shape, bool)
    for row, run in enumerate(runs):
        n_steps = len(run)
        features[row, :n_steps] = run.features
        relations[row, :, :n_steps, :n_steps] = relations_of(run)
        agent[row, :n_steps] = run.agent
        blamable[row, :n_steps] = run.can_be_blamed
    words = Words.joined([run.words for run in runs])
    steps = np.concatenate([row * longest + np.arange(len(run)) for row, run in enumerate(runs)])
    owner = np.repeat(steps, np.diff(words.first_sentence))
    arrays = (features, relations, agent, agent >= 0, blamable, words.rows, words.first_word[:-1], owner)
    return Padded(*(torch.from_numpy(each).to(device) for each in arrays))
