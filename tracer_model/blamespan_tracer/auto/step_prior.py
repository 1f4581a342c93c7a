"""Where mistakes usually are: a conditional logit over place, speaker, size and a few words of the steps of a run.

It understands nothing of what a run says; evidence outweighs it.

Dims: T steps of a run, P plain features, F features of a step.

Source: McFadden, "Conditional logit analysis of qualitative choice behavior", 1974.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.auto.plain_features import PLAIN_FEATURES
from blamespan_tracer.weights_file import from_tensors, to_tensors

Floats = NDArray[np.float64]

_USUAL_LENGTH = 2.5
"""Logarithm of a run's usual number of steps: place and speaker mean other things in longer runs."""

FURTHEST = 6.0
"""Scaled features are clipped there: no odd run is further from the usual than that."""

_LEAST_SHARE = 1e-4

_COLUMN = {name: index for index, name in enumerate(PLAIN_FEATURES)}
_BY_LENGTH = (
    *("first step", "second step", "last step", "relative place", "log place"),
    *("first step of its agent", "last step of its agent"),
)
_BY_LENGTH_COLUMNS = [_COLUMN[name] for name in _BY_LENGTH]

PRIOR_FEATURES = (
    *PLAIN_FEATURES[1:],
    "steps of its agent",
    *(f"{name}, by length" for name in ("steps of its agent", *_BY_LENGTH)),
)
"""What each column means, where no tracer is heard."""


def prior_features(plain: Floats, *opinions: Floats) -> Floats:
    """Lay out what a prior reads of the steps of a run: (T, F).

    Args:
        plain: (T, P) of `plain_features`.
        opinions: (T,) shares of the blame by each tracer that the prior hears; none for the bundled one.
    """
    longer = np.log1p(len(plain)) - _USUAL_LENGTH
    shares = np.log(np.stack(opinions, axis=1) + _LEAST_SHARE) if opinions else np.zeros((len(plain), 0))
    n_steps_of_agent = np.log(np.maximum(plain[:, [_COLUMN["share of steps"]]] * len(plain), 1.0))
    by_length = np.concatenate([shares[:, :1], n_steps_of_agent, plain[:, _BY_LENGTH_COLUMNS]], axis=1) * longer
    return np.concatenate([shares, plain[:, 1:], n_steps_of_agent, by_length], axis=1)


@dataclass(frozen=True, slots=True)
class StepPrior:
    """Weights of the prior.

    Attributes:
        mean: (F,) of each feature in training, and
        spread: (F,) its standard deviation.
        weights: (F,).
    """

    mean: NDArray[np.float32]
    spread: NDArray[np.float32]
    weights: NDArray[np.float32]

    def score(self, features: Floats) -> Floats:
        """Score the steps by their (T, F) features: (T,), in nats."""
        scores: Floats = self.scale(features) @ self.weights.astype(np.float64)
        return scores

    def scale(self, features: Floats) -> Floats:
        """Return (..., F) features in standard deviations from their mean in training."""
        scaled: Floats = np.clip((features - self.mean) / self.spread, -FURTHEST, FURTHEST)
        return scaled

    def by_name(self, columns: Sequence[str], wanted: Sequence[str]) -> StepPrior:
        """Return the prior for the columns *wanted*; those that its own *columns* lack weigh nothing."""
        mean, spread, weights = (np.full(len(wanted), value, np.float32) for value in (0.0, 1.0, 0.0))
        places = [wanted.index(name) for name in columns]
        mean[places], spread[places], weights[places] = self.mean, self.spread, self.weights
        return StepPrior(mean, spread, weights)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the weights by name."""
        return to_tensors(self, "prior")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> StepPrior:
        """Build a prior from what `tensors` returned.

        Raises:
            KeyError: if something is missing.
            ValueError: if sizes do not fit.
        """
        prior = from_tensors(cls, tensors, "prior")
        if not prior.mean.shape == prior.spread.shape == prior.weights.shape:
            raise ValueError("weights of the prior of another size")
        return prior
