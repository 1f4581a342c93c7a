"""A second judge, for runs in which language models wrote what agents say.

The network learnt its signs from simulated agents, whose messages are short and to the point; in real prose these signs
are everywhere, and say little (decision 034). There a step is judged by some thousand weights, as a conditional logit
over the steps: of its features, of those of the steps before and after it, in the run and among its agent's, and of how
the step stands out in both. How a run reads as a whole tells which of the two judges knows more of it, and how far each
is to be heard.

Whether such a run failed, neither can tell.

Dims: N merged steps of a run, F features, C of them that are read, W = 9 * C ways to read them, K modes.

Source: conditional logit, McFadden, "Conditional logit analysis of qualitative choice behavior", 1974; gates, Jacobs et
al., "Adaptive mixtures of local experts", 1991.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.network.inputs import RunInputs

__all__ = ["ProseJudge", "columns_read", "in_context", "manner_of", "mixed"]

_AROUND = np.float32(0.5)
"""What the steps around a step count beside the step itself, before training: less."""

_WAYS = 9

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
        pointer: (W,) of a step's features in context, see `in_context`.
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

    def judged(self, run: RunInputs) -> tuple[Floats, Floats]:
        """Share the blame, and tell of each step which mode it has if it is to blame.

        Args:
            run: A run with somebody to blame, its features scaled.

        Returns:
            (N,) adding up to 1, and (N, K), each row adding up to 1.
        """
        inputs = in_context(run, self.columns)
        shares = _softmax(np.where(run.can_be_blamed, inputs @ self.pointer, -np.inf))
        return shares, _softmax(inputs @ self.modes + self.modes_bias)

    def mixed(self, run: RunInputs, shares: Floats) -> Floats:
        """Mix what this judge says of a run into the (N,) *shares* of the other, as far as it is to be heard."""
        weight = self.weight(run)
        return mixed(shares, self.judged(run)[0], weight) if weight else shares

    def weight(self, run: RunInputs) -> float:
        """Tell how far this judge is to be heard: 0 for runs like the simulated ones, 1 for others.

        It is 0, too, where nobody can be blamed.
        """
        if not run.can_be_blamed.any():
            return 0.0
        logit = float(manner_of(run.features[:, self.columns]) @ self.gate + self.gate_bias[0])
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
            "pointer": (_WAYS * read,),
            "modes": (_WAYS * read, n_modes),
            "modes_bias": (n_modes,),
            "gate": (2 * read,),
            "gate_bias": (1,),
            "set_mass": (1,),
        }
        wrong = [name for name, value in judge.tensors().items() if value.shape != sizes[name]]
        if wrong or not ((judge.columns >= 0) & (judge.columns < n_features)).all():
            raise ValueError(f"weights {wrong or ['columns']!r} of another size")
        return judge


def mixed(first: Floats, second: Floats, weight: float) -> Floats:
    """Mix what two judges say, the second heard as far as *weight*, 0..1."""
    heard = np.float32(weight)
    found: Floats = (1 - heard) * first + heard * second
    return found


def columns_read(features: tuple[str, ...]) -> Ints:
    """List the columns that are read of features of these names."""
    return np.array([place for place, name in enumerate(features) if not name.startswith(_NOT_READ)], np.int64)


def in_context(run: RunInputs, columns: Ints) -> Floats:
    """Read the features of each step in nine ways: (N, W).

    As they are; those of the step after, and of the step before; those of its agent's next step, and of its last one;
    how far they lie above the mean of the run so far; whether they are higher than ever before in it, and than ever
    before in its agent's steps; and their rank among the decisions of the run, -1 to 1.

    Args:
        run: The run, its features scaled.
        columns: Which features.
    """
    features = run.features[:, columns]
    nothing = np.zeros((1, features.shape[1]), np.float32)
    after, before = np.concatenate([features[1:], nothing]), np.concatenate([nothing, features[:-1]])
    so_far = np.cumsum(features, axis=0) / np.arange(1, len(features) + 1, dtype=np.float32)[:, None]
    highest = _highest_before(features)
    own_after, own_before, own_highest = np.zeros((3, *features.shape), np.float32)
    for agent in np.unique(run.agent):
        own = np.flatnonzero(run.agent == agent)
        own_after[own[:-1]], own_before[own[1:]] = features[own[1:]], features[own[:-1]]
        own_highest[own[1:]] = features[own[1:]] > _highest_before(features[own])[1:]
    around = (after, before, own_after, own_before, features - so_far, features > highest, own_highest)
    ranks = _ranks(features, features[run.can_be_blamed])
    return np.concatenate([features, *(_AROUND * each for each in around), ranks], axis=1)


def _highest_before(features: Floats) -> Floats:
    """Give the highest value of each (N, C) column before each row."""
    nothing = np.full((1, features.shape[1]), -np.inf, np.float32)
    highest: Floats = np.maximum.accumulate(np.concatenate([nothing, features[:-1]]), axis=0)
    return highest


def manner_of(features: Floats) -> Floats:
    """Describe how a run reads: mean and spread of its steps' features, (N, C) to (2 * C,)."""
    return np.concatenate([features.mean(axis=0), features.std(axis=0)])


def _ranks(features: Floats, among: Floats) -> Floats:
    """Tell, per column, how many more of the (M, C) *among* a value is above than below: (N, C), -1 to 1 of all."""
    n_others, column = len(among), np.arange(features.shape[1])
    lane = (float(np.ptp(features)) + 1) * column  # columns one behind the other: none reaches into the next
    line = (np.sort(among, axis=0) + lane).ravel(order="F")
    before, up_to = (np.searchsorted(line, features + lane, side=side) for side in ("left", "right"))
    ranks: Floats = ((before + up_to - n_others * (2 * column + 1)) / max(n_others, 1)).astype(np.float32)
    return ranks


def _softmax(scores: Floats) -> Floats:
    powers = np.exp((scores - scores.max(axis=-1, keepdims=True)).astype(np.float64))
    shares: Floats = (powers / powers.sum(axis=-1, keepdims=True)).astype(np.float32)
    return shares
