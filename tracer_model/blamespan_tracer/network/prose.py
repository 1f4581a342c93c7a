"""A second judge, for runs in which language models wrote what agents say.

The network learnt its signs from simulated agents, whose messages are short and to the point; in real prose these signs
are everywhere, and say little (decision 034). There a step is judged by a few hundred weights: of its features and of
those of the steps before and after it, as a conditional logit over the steps. How a run reads as a whole tells which of
the two judges knows more of it, and how far each is to be heard.

Whether such a run failed, neither can tell.

Dims: N merged steps of a run, F features, C of them that are read, K modes.

Source: conditional logit, McFadden, "Conditional logit analysis of qualitative choice behavior", 1974; gates, Jacobs et
al., "Adaptive mixtures of local experts", 1991.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ProseJudge", "columns_read", "manner_of", "with_neighbours"]

_NEIGHBOUR = np.float32(0.5)
"""What the steps before and after count beside the step itself, before training: less."""

_SURE = 0.99
"""Surer than this of who knows more of a run, the other judge is not asked."""

_NOT_READ = "lexicon, "
"""Begins the features that are not read: what AEGIS's faults taught of words says nothing of other teams."""

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ProseJudge:
    """Weights of a second judge, and of the gate before it.

    Attributes:
        columns: (C,) int64, the features that it reads.
        pointer: (3 * C,) of a step's own features, of those of the step after, and of the step before.
        modes: (3 * C, K) likewise, of each mode, and
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

    def shares(self, features: Floats, can_be_blamed: NDArray[np.bool_]) -> Floats:
        """Share the blame.

        Args:
            features: (N, F), scaled.
            can_be_blamed: (N,).

        Returns:
            (N,) adding up to 1; 0 where nobody can be blamed.
        """
        scores = np.where(can_be_blamed, with_neighbours(features[:, self.columns]) @ self.pointer, -np.inf)
        return _softmax(scores)

    def mixed(self, features: Floats, can_be_blamed: NDArray[np.bool_], shares: Floats) -> tuple[Floats, float]:
        """Mix what this judge says into the (N,) *shares* of the other, as far as it is to be heard.

        Returns:
            The shares, which stay where nobody can be blamed; and how far it was heard, as `weight`.
        """
        weight = self.weight(features)
        if not can_be_blamed.any():
            return shares, weight
        heard = np.float32(weight)
        return (1 - heard) * shares + heard * self.shares(features, can_be_blamed), weight

    def mode_chances(self, features: Floats) -> Floats:
        """Tell of each step which mode it has if it is to blame: (N, K), each row adding up to 1."""
        return _softmax(with_neighbours(features[:, self.columns]) @ self.modes + self.modes_bias)

    def weight(self, features: Floats) -> float:
        """Tell how far this judge is to be heard: 0 for runs like the simulated ones, 1 for others."""
        logit = float(manner_of(features[:, self.columns]) @ self.gate + self.gate_bias[0])
        weight = float(0.5 * (1 - np.tanh(0.5 * logit)))
        return round(weight) if abs(weight - 0.5) > _SURE - 0.5 else weight

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Give what it is made of, by name."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @classmethod
    def of(cls, tensors: Mapping[str, NDArray[Any]], n_features: int, n_modes: int) -> ProseJudge:
        """Make one of what `tensors` gave.

        Raises:
            KeyError: if something is missing.
            ValueError: if sizes do not fit each other, or *n_features* or *n_modes*.
        """
        judge = cls(**{each.name: tensors[each.name] for each in fields(cls)})
        read = len(judge.columns)
        sizes = {
            "columns": (read,),
            "pointer": (3 * read,),
            "modes": (3 * read, n_modes),
            "modes_bias": (n_modes,),
            "gate": (2 * read,),
            "gate_bias": (1,),
            "set_mass": (1,),
        }
        wrong = [name for name, value in judge.tensors().items() if value.shape != sizes[name]]
        if wrong or not ((judge.columns >= 0) & (judge.columns < n_features)).all():
            raise ValueError(f"weights {wrong or ['columns']!r} of another size")
        return judge


def columns_read(features: tuple[str, ...]) -> Ints:
    """List the columns that are read of features of these names."""
    return np.array([place for place, name in enumerate(features) if not name.startswith(_NOT_READ)], np.int64)


def with_neighbours(features: Floats) -> Floats:
    """Put beside each step's features those of the step after and of the step before: (N, C) to (N, 3 * C)."""
    nothing = np.zeros((1, features.shape[1]), np.float32)
    after, before = np.concatenate([features[1:], nothing]), np.concatenate([nothing, features[:-1]])
    return np.concatenate([features, _NEIGHBOUR * after, _NEIGHBOUR * before], axis=1)


def manner_of(features: Floats) -> Floats:
    """Describe how a run reads: mean and spread of its steps' features, (N, C) to (2 * C,)."""
    return np.concatenate([features.mean(axis=0), features.std(axis=0)])


def _softmax(scores: Floats) -> Floats:
    powers = np.exp((scores - scores.max(axis=-1, keepdims=True)).astype(np.float64))
    shares: Floats = (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
    return shares
