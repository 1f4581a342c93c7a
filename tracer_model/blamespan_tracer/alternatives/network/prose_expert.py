"""How a run reads as a whole: what tells runs that language models wrote from simulated ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["gate_features"]

Floats = NDArray[np.float32]


def gate_features(features: Floats) -> Floats:
    """Return mean and spread of the features of a run's steps, (N, C) to (2 * C,)."""
    return np.concatenate([features.mean(axis=0), features.std(axis=0)])
