"""Probabilities from scores: sigmoid, softmax, and the shares of a pointer."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Float32s: TypeAlias = NDArray[np.float32]
Float64s: TypeAlias = NDArray[np.float64]


def sigmoid(logits: Float32s) -> Float32s:
    """Turn log-odds into probabilities, without overflow."""
    probabilities: Float32s = (0.5 * (1 + np.tanh(0.5 * logits))).astype(np.float32)
    return probabilities


def softmax(scores: Float32s | Float64s) -> Float64s:
    """Turn scores into probabilities that add up to 1 over the last axis."""
    powers = np.exp((scores - scores.max(axis=-1, keepdims=True)).astype(np.float64))
    probabilities: Float64s = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


def pointer_shares(scores: Float64s, temperature: float) -> tuple[Float64s, float]:
    """Turn pointer scores into the steps' shares of the blame and the probability that the run failed.

    Args:
        scores: One for each step, and a last one for "it did not fail".
        temperature: The scores are divided by it.

    Returns:
        The shares, adding up to 1, and the probability.
    """
    powers = np.exp((scores - scores.max()) / temperature)
    mass = powers[:-1].sum()
    return powers[:-1] / max(mass, 1e-300), float(mass / (mass + powers[-1]))
