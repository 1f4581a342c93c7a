"""The network on a device of PyTorch's: the same function as on a CPU, over padded batches of runs of like length.

Dims: B runs, S steps of the longest, F features, R relations, W tokens.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from blamespan_tracer.alternatives.network.inference import NumpyEngine
from blamespan_tracer.alternatives.network.inputs import RELATIONS, RunInputs, SentenceTokens, lay_out_relations
from blamespan_tracer.alternatives.network.model import Scores, StepInputs, Weights, average_scores, forward
from blamespan_tracer.alternatives.network.weights import Network
from blamespan_tracer.alternatives.torch_devices import device_named

__all__ = ["MAX_CELLS", "PaddedBatch", "TorchEngine", "find_device", "pad", "split_by_size"]

BATCH_RUNS = 512

MAX_CELLS = 4_000_000
"""Most relation cells (B * S * S) read at once, some 1 GB in all; halved where memory does not suffice."""

_MAX_BATCH_CELLS = 400_000
"""Most relation cells of one batch that `split_by_size` makes."""

_log = logging.getLogger(__name__)


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
            is_kept = torch.rand(len(self.tokens), generator=generator, device=self.tokens.device) < word_keep
            dropout = is_kept.float() / word_keep
        runs, steps = self.is_real.shape
        sums = functional.embedding_bag(
            self.tokens, weights["embedding"], self.starts, mode="sum", per_sample_weights=dropout
        )
        sizes = torch.diff(self.starts, append=torch.tensor([len(self.tokens)], device=self.tokens.device))
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
            sentences if sentences is None else sentences.reshape(runs, steps, -1),
        )

    def _read_sentences(self, bags: Tensor, weights: Weights) -> Tensor | None:
        if "sentence.weight" not in weights:
            return None
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


def pad(runs: Sequence[RunInputs], device: torch.device | str = "cpu") -> PaddedBatch:
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
    return PaddedBatch(*(torch.from_numpy(array).to(device) for array in arrays))


def find_device(name: str) -> torch.device:
    """Find the device that *name* means: `auto` is the first GPU where there is one, else the CPU.

    Raises:
        TracerUnavailable: if there is no such device.
    """
    asked_by = "BLAMESPAN_DEVICE or --device as a device of this machine"
    return device_named(name, asked_by=asked_by, otherwise="Leave it out for the CPU, or say auto")


class TorchEngine:
    """Computes many runs at once. What shares a batch changes how sums are rounded and nothing else: some 1e-5.

    Where memory does not suffice, half as much is computed at once from then on, and again; a run that does not fit
    alone is computed on the CPU. The log says so the first time.

    Args:
        network: The network.
        device: Where to compute.
        max_cells: Most relation cells read at once.
    """

    batch_runs = BATCH_RUNS

    def __init__(self, network: Network, device: torch.device | str, *, max_cells: int = MAX_CELLS) -> None:
        self._network = network
        self._device = torch.device(device)
        self._max_cells = max_cells
        self._on_cpu = NumpyEngine(network)
        self._warned: set[str] = set()
        self._ensemble = [
            {name: torch.from_numpy(value).to(self._device) for name, value in weights.items()}
            for weights in network.ensemble
        ]

    @property
    def device(self) -> str:
        """As PyTorch calls it."""
        return str(self._device)

    @property
    def max_cells(self) -> int:
        """Most relation cells read at once, after what memory allowed so far."""
        return self._max_cells

    def scores(self, runs: Sequence[RunInputs]) -> list[Scores]:
        """Compute runs of like length together; the scores come back in the order of *runs*."""
        order = sorted(range(len(runs)), key=lambda index: len(runs[index]))
        scores: dict[int, Scores] = {}
        while order:
            batch = self._next_batch(runs, order)
            computed = self._try_forward([runs[index] for index in batch])
            if computed is not None:
                scores.update(zip(batch, computed, strict=True))
                order = order[len(batch) :]
        return [scores[index] for index in range(len(runs))]

    def _next_batch(self, runs: Sequence[RunInputs], order: Sequence[int]) -> Sequence[int]:
        """Return as many of the shortest as the budget allows, at least one."""
        n_runs = 1
        while n_runs < len(order) and (n_runs + 1) * len(runs[order[n_runs]]) ** 2 <= self._max_cells:
            n_runs += 1
        return order[:n_runs]

    def _try_forward(self, runs: Sequence[RunInputs]) -> list[Scores] | None:
        """Compute runs as one batch; None where memory did not suffice and fewer must be tried."""
        try:
            return self._forward(runs)
        except torch.OutOfMemoryError:
            pass  # what the failed pass held is let go of with the error
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        if len(runs) == 1:
            self._warn_once("one run alone does not fit into the memory of %s: such runs are read on the CPU")
            return self._on_cpu.scores(runs)
        self._max_cells = len(runs) * len(runs[-1]) ** 2 // 2
        self._warn_once("out of memory on %s: going on with half as many runs at once, and again where needed")
        return None

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            _log.warning(message, self._device)

    def _forward(self, runs: Sequence[RunInputs]) -> list[Scores]:
        scaled = [replace(run, features=self._network.scale(run.features)) for run in runs]
        with torch.inference_mode():
            padded = pad(scaled, self._device)
            scores = average_scores(
                [forward(weights, self._network.shape, padded.steps(weights)) for weights in self._ensemble]
            )
            parts = (scores.pointer, scores.fault, scores.modes)
            pointer, fault, modes = (part.float().cpu().numpy() for part in parts)
        return [
            Scores(
                pointer=np.concatenate([pointer[row : row + 1, : len(run)], pointer[row : row + 1, -1:]], axis=1),
                fault=fault[row : row + 1, : len(run)],
                modes=modes[row : row + 1, : len(run)],
                states=None,
            )
            for row, run in enumerate(runs)
        ]
