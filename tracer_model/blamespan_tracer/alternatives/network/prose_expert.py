"""An expert for runs in which language models wrote what agents say, and the gate that mixes it with the network.

The network learnt its signs from simulated agents, whose messages are short and to the point; in real prose these signs
are everywhere, and say little (decision 034). There a conditional logit of some thousand weights judges the steps: by
their features, by those of the steps before and after them, in the run and among their agent's, and by how a step
stands out in both. The gate reads a run as a whole and weighs the two experts.

Whether such a run failed, neither can tell.

Dims: N merged steps of a run, F features, C of them that are read, W = 9 * C features in context, K modes.

Source: conditional logit, McFadden, "Conditional logit analysis of qualitative choice behavior", 1974; gates, Jacobs et
al., "Adaptive mixtures of local experts", 1991.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.alternatives.network.inputs import RunInputs
from blamespan_tracer.numeric import softmax

__all__ = ["ProseExpert", "contextual_features", "expert_columns", "gate_features", "mix"]

_NEIGHBOUR_WEIGHT = np.float32(0.5)
"""How much the steps around a step count beside the step itself, before training."""

_N_CONTEXTS = 9

_BLOCK_STEPS = 2_048
"""Steps whose contexts are put side by side at once: bounded memory for long runs."""

_CERTAIN = 0.99
"""From this gate weight on the other expert is not computed."""

_NOT_READ = "lexicon, "
"""Prefix of features that are not read: what AEGIS's faults taught of words does not hold for other teams."""

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ProseExpert:
    """Weights of the expert for prose, and of the gate before it.

    Attributes:
        columns: (C,) int64, the features that it reads.
        pointer: (W,) of a step's features in context, see `contextual_features`.
        modes: (W, K) likewise, of each mode, and
        modes_bias: (K,) what is added.
        gate: (2 * C,) of the mean of each feature over a run, and of its spread, and
        gate_bias: (1,) what is added: above 0 simulated runs, below 0 runs that language models wrote.
        set_mass: (1,) share of the blame that a step set must hold, as `Network.set_mass`.
    """

    columns: Ints
    pointer: Floats
    modes: Floats
    modes_bias: Floats
    gate: Floats
    gate_bias: Floats
    set_mass: Floats

    def predict(self, run: RunInputs) -> tuple[Floats, Floats]:
        """Return the shares of the blame, and the probability of each mode of each step if it is to blame.

        Args:
            run: A run with somebody to blame, its features scaled.

        Returns:
            (N,) adding up to 1, and (N, K), each row adding up to 1.
        """
        logits, modes = [], []
        contexts = _contexts(run, self.columns)
        for start in range(0, len(run), _BLOCK_STEPS):
            inputs = np.concatenate([context[start : start + _BLOCK_STEPS] for context in contexts], axis=1)
            logits.append(inputs @ self.pointer)
            modes.append(softmax(inputs @ self.modes + self.modes_bias).astype(np.float32))
        pointer = np.where(run.can_be_blamed, np.concatenate(logits), -np.inf)
        return softmax(pointer).astype(np.float32), np.concatenate(modes)

    def mix(self, run: RunInputs, shares: Floats) -> Floats:
        """Mix this expert's shares of a run into the (N,) *shares* of the network, as the gate weighs them."""
        weight = self.gate_weight(run)
        return mix(shares, self.predict(run)[0], weight) if weight else shares

    def gate_weight(self, run: RunInputs) -> float:
        """Return the weight of this expert: 0 for runs like the simulated ones, 1 for others.

        It is 0, too, where nobody can be blamed.
        """
        if not run.can_be_blamed.any():
            return 0.0
        logit = float(gate_features(run.features[:, self.columns]) @ self.gate + self.gate_bias[0])
        weight = float(0.5 * (1 - np.tanh(0.5 * logit)))
        return round(weight) if abs(weight - 0.5) > _CERTAIN - 0.5 else weight

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the weights by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]], n_features: int, n_modes: int) -> ProseExpert:
        """Build an expert from what `tensors` returned.

        Raises:
            KeyError: if something is missing.
            ValueError: if sizes do not fit each other, or *n_features* or *n_modes*.
        """
        expert = cls(**{field.name: tensors[field.name] for field in fields(cls)})
        n_columns = len(expert.columns)
        sizes = {
            "columns": (n_columns,),
            "pointer": (_N_CONTEXTS * n_columns,),
            "modes": (_N_CONTEXTS * n_columns, n_modes),
            "modes_bias": (n_modes,),
            "gate": (2 * n_columns,),
            "gate_bias": (1,),
            "set_mass": (1,),
        }
        wrong = [name for name, value in expert.tensors().items() if value.shape != sizes[name]]
        if wrong or not ((expert.columns >= 0) & (expert.columns < n_features)).all():
            raise ValueError(f"weights {wrong or ['columns']!r} of another size")
        return expert


def mix(first: Floats, second: Floats, weight: float) -> Floats:
    """Return the mean of two experts, the second with *weight*, 0..1, the first with the rest."""
    share = np.float32(weight)
    mean: Floats = (1 - share) * first + share * second
    return mean


def expert_columns(features: tuple[str, ...]) -> Ints:
    """Return the columns that the expert reads, of features of these names."""
    return np.array([column for column, name in enumerate(features) if not name.startswith(_NOT_READ)], np.int64)


def contextual_features(run: RunInputs, columns: Ints) -> Floats:
    """Return the features of each step in nine contexts: (N, W).

    As they are; those of the step after, and of the step before; those of its agent's next step, and of its last one;
    how far they lie above the mean of the run so far; whether they are higher than ever before in it, and than ever
    before in its agent's steps; and their rank among the decisions of the run, -1 to 1.

    Args:
        run: The run, its features scaled.
        columns: Which features.
    """
    return np.concatenate(_contexts(run, columns), axis=1)


def _contexts(run: RunInputs, columns: Ints) -> tuple[NDArray[Any], ...]:
    """Return the nine contexts, (N, C) each."""
    features = run.features[:, columns]
    zeros = np.zeros((1, features.shape[1]), np.float32)
    after, before = np.concatenate([features[1:], zeros]), np.concatenate([zeros, features[:-1]])
    so_far = np.cumsum(features, axis=0) / np.arange(1, len(features) + 1, dtype=np.float32)[:, None]
    highest = _running_maximum(features)
    own_after, own_before, own_highest = np.zeros((3, *features.shape), np.float32)
    for agent in np.unique(run.agent):
        own = np.flatnonzero(run.agent == agent)
        own_after[own[:-1]], own_before[own[1:]] = features[own[1:]], features[own[:-1]]
        own_highest[own[1:]] = features[own[1:]] > _running_maximum(features[own])[1:]
    around = (after, before, own_after, own_before, features - so_far, features > highest, own_highest)
    ranks = _ranks(features, features[run.can_be_blamed])
    return (features, *(_NEIGHBOUR_WEIGHT * context for context in around), ranks)


def _running_maximum(features: Floats) -> Floats:
    """Return the highest value of each (N, C) column before each row."""
    lowest = np.full((1, features.shape[1]), -np.inf, np.float32)
    highest: Floats = np.maximum.accumulate(np.concatenate([lowest, features[:-1]]), axis=0)
    return highest


def gate_features(features: Floats) -> Floats:
    """Return what the gate reads of a run: mean and spread of its steps' features, (N, C) to (2 * C,)."""
    return np.concatenate([features.mean(axis=0), features.std(axis=0)])


def _ranks(features: Floats, among: Floats) -> Floats:
    """Return, per column, the share of the (M, C) *among* below a value less that above it: (N, C), -1 to 1."""
    n_others, n_columns = len(among), features.shape[1]
    lane = (float(np.ptp(features)) + 1) * np.arange(n_columns)
    ranks = np.zeros(features.shape, np.float32)
    for column in range(n_columns):  # one fits into the processor's cache, all of them do not
        line = np.sort(among[:, column]) + lane[column]
        values = features[:, column] + lane[column]
        before, up_to = (np.searchsorted(line, values, side=side) for side in ("left", "right"))
        ranks[:, column] = ((before + up_to - n_others) / max(n_others, 1)).astype(np.float32)
    return ranks
