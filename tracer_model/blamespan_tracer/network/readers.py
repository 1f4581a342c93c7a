"""Who computes the network's arithmetic: NumPy on a CPU, run by run, or PyTorch on a device, many at once.

Dims: S steps of a run, V versions of it, E width of a word bag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.network.inputs import RunInputs, relations_of
from blamespan_tracer.network.model import Scores, StepInputs, Weights, mean_scores, scores_of
from blamespan_tracer.network.weights import Network

__all__ = ["NumpyReader", "Reader", "Reworded"]

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

BATCH_RUNS = 64
"""Runs given to a CPU at once: it reads them one by one, so this only bounds memory."""


@dataclass(frozen=True, slots=True)
class Reworded:
    """A run, V times over: each time one step has other words than its own.

    Attributes:
        run: The run, no longer than a window.
        step: Which step.
        words: (W,) int64 rows of the word table, version by version, and
        first_word: (V + 1,) int64 where those of each begin.
    """

    run: RunInputs
    step: int
    words: Ints
    first_word: Ints

    def __len__(self) -> int:
        return len(self.first_word) - 1


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

    def reworded(self, asked: Sequence[Reworded]) -> list[list[float]]:
        """Give, for each version of each run, the pointer score of the step that has other words."""
        ...


class NumpyReader:
    """Reads runs on a CPU, one at a time: no padding, so a score is the same to the last bit in any company."""

    device = "cpu"
    batch_runs = BATCH_RUNS

    def __init__(self, network: Network) -> None:
        self._network = network

    def scores(self, runs: Sequence[RunInputs]) -> list[Scores]:
        """Read each run."""
        found = []
        for run in runs:
            steps = _unread(self._network, run)
            bags = (_bags(weights, run.words, run.first_word)[None] for weights in self._network.members)
            found.append(self._together(steps, bags))
        return found

    def reworded(self, asked: Sequence[Reworded]) -> list[list[float]]:
        """Read each run with all versions side by side; what they share is there once."""
        return [self._versions(each) for each in asked]

    def _versions(self, asked: Reworded) -> list[float]:
        run = asked.run
        changed = []
        for weights in self._network.members:
            bags = np.repeat(_bags(weights, run.words, run.first_word)[None], len(asked), axis=0)  # (V, S, E)
            bags[:, asked.step] = _bags(weights, asked.words, asked.first_word)
            changed.append(bags)
        scores: list[float] = self._together(_unread(self._network, run), changed).pointer[:, asked.step].tolist()
        return scores

    def _together(self, steps: StepInputs, bags: Any) -> Scores:
        found = []
        for weights, of_steps in zip(self._network.members, bags, strict=True):
            read = StepInputs(steps.features, of_steps, steps.relations, steps.is_real, steps.can_be_blamed)
            found.append(scores_of(weights, self._network.shape, read))
        return mean_scores(found)


def _unread(network: Network, run: RunInputs) -> StepInputs:
    """Lay a run out, but for its words."""
    return StepInputs(
        network.scaled(run.features)[None],
        None,
        relations_of(run)[None],
        np.ones((1, len(run)), bool),
        run.can_be_blamed[None],
    )


def _bags(weights: Weights, words: Ints, first_word: Ints) -> Floats:
    """Sum up the word vectors of each text, by the root of how many there are, as training does: (N, E)."""
    table, counts = weights["words"], np.diff(first_word)
    bags = np.zeros((len(counts), table.shape[1]), np.float32)
    some = np.flatnonzero(counts)
    if len(some):
        bags[some] = np.add.reduceat(table.take(words, axis=0), first_word[:-1][some], axis=0)
    return (bags / np.sqrt(np.maximum(counts, 1))[:, None]).astype(np.float32)
