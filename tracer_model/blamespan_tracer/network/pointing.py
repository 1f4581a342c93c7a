"""From a pointer's scores over the steps of a run to shares of the blame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["shares_of"]

Floats = NDArray[np.float64]


def shares_of(scores: Floats, temperature: float) -> tuple[Floats, float]:
    """Turn pointer scores into shares of the steps, adding up to 1, and the chance that the run failed."""
    powers = np.exp((scores - scores.max()) / temperature)
    mass = powers[:-1].sum()
    return powers[:-1] / max(mass, 1e-300), float(mass / (mass + powers[-1]))
