"""Where mistakes usually are: a pointer for teams like those that people labelled, and a gate that weighs it.

Dims: T steps of a run, F features of a step, K kinds of runs, G features of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.numeric import softmax
from blamespan_tracer.weights_file import from_tensors, to_tensors

__all__ = ["RUN_KINDS", "Gate", "LabelledTeamPointer", "labelled_team_features"]

Floats = NDArray[np.float32]

RUN_KINDS: Final = ("labelled team", "prose")
"""Kinds of runs that the gate knows, in the order of its weights.

- labelled team: teams like those of Who&When, of which people labelled failures.
- prose: all others.
"""

_LEAST_SHARE = 1e-4
_USUAL_LENGTH = 2.5
"""Logarithm of a run's usual number of steps: place and speaker mean other things in longer runs."""

_FURTHEST = 4.0
"""Scaled features of runs are clipped there."""


@dataclass(frozen=True, slots=True)
class Gate:
    """Weights of the gate, a multinomial logistic regression.

    Attributes:
        mean: (G,) of each feature in training, and
        spread: (G,) its standard deviation.
        weights: (G, K).
        bias: (K,).
    """

    mean: Floats
    spread: Floats
    weights: Floats
    bias: Floats

    def weigh(self, run_features: Floats) -> Floats:
        """Return the (K,) weights of the kinds by a run's (G,) features: they add up to 1, none is under 2 %."""
        scaled = np.clip((run_features - self.mean) / self.spread, -_FURTHEST, _FURTHEST)
        shares = softmax(scaled @ self.weights + self.bias)
        shares = np.where(shares < 0.02, 0.0, shares)
        return np.asarray(shares / shares.sum(), np.float32)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the weights by name."""
        return to_tensors(self, "gate")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> Gate:
        """Build a gate from what `tensors` returned.

        Raises:
            KeyError: if something is missing.
            ValueError: if sizes do not fit.
        """
        gate = from_tensors(cls, tensors, "gate")
        size = len(gate.mean)
        if (gate.spread.shape, gate.weights.shape, gate.bias.shape) != (
            (size,),
            (size, len(RUN_KINDS)),
            (len(RUN_KINDS),),
        ):
            raise ValueError("weights of the gate of another size")
        return gate


@dataclass(frozen=True, slots=True)
class LabelledTeamPointer:
    """Weights of a conditional logit over steps, fitted to runs whose decisive step people labelled.

    Attributes:
        mean: (F,) of each feature in training, and
        spread: (F,) its standard deviation.
        weights: (F,).

    Source: McFadden, "Conditional logit analysis of qualitative choice behavior", 1974.
    """

    mean: Floats
    spread: Floats
    weights: Floats

    def score(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Score the steps by their (T, F) features: (T,)."""
        scores: NDArray[np.float64] = ((features - self.mean) / self.spread) @ self.weights.astype(np.float64)
        return scores

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the weights by name."""
        return to_tensors(self, "labelled_team")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> LabelledTeamPointer:
        """Build a pointer from what `tensors` returned.

        Raises:
            KeyError: if something is missing.
            ValueError: if sizes do not fit.
        """
        pointer = from_tensors(cls, tensors, "labelled_team")
        if not pointer.mean.shape == pointer.spread.shape == pointer.weights.shape:
            raise ValueError("weights of the pointer for labelled teams of another size")
        return pointer


def labelled_team_features(plain: NDArray[np.float64], *opinions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lay out what a pointer that learns from labels reads of the steps of a run: (T, F).

    Args:
        plain: (T, P) of `plain_features`.
        opinions: (T,) shares of the blame by each tracer that is heard: `network` and `lexical` for labelled teams.
    """
    longer = np.log1p(len(plain)) - _USUAL_LENGTH
    shares = np.log(np.stack(opinions, axis=1) + _LEAST_SHARE)
    place = plain[:, 1:]
    speaker = np.log(np.maximum(plain[:, [9]] * len(plain), 1.0))
    by_length = np.concatenate([shares[:, :1], speaker, place[:, [0, 1, 4, 5, 6, 7, 8]]], axis=1) * longer
    return np.concatenate([shares, place, speaker, by_length], axis=1)
