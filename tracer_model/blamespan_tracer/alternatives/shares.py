"""How an agent's blame is shared over its steps: the first step that looks wrong takes most.

What goes wrong early is repeated, built on and reported later, so later suspicious steps are mostly
consequences. Each step therefore has a hazard, the chance that it is wrong given that nothing was
before, and a step's share is the chance that the fault *begins* there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]

_FLOOR = 1e-6
"""Smallest spread of suspicion that still tells steps apart."""


def suspicion(by_step: Floats, weight: Floats) -> Floats:
    """Sum up what each step's words add to the case against its agent.

    Dims: S steps, K answers (every mode, then being at fault at all).

    Args:
        by_step: (S, K) what each step adds to the log-odds.
        weight: (S, K) the `answer_weights` of who took it.

    Returns:
        (S,) the modes' contributions, each weighed by how likely the mode is, plus those to `at fault`.
    """
    case: Floats = (by_step * weight).sum(axis=1)
    return case


def answer_weights(probabilities: Floats) -> Floats:
    """Return how much each answer counts in the case against an agent.

    Args:
        probabilities: (A, K) of each of A agents, all its steps together; the last for being at fault at all.

    Returns:
        (A, K) the modes' probabilities, scaled to add up to 1, and that of being at fault as it is.
    """
    weights = probabilities.copy()
    weights[:, :-1] /= np.maximum(probabilities[:, :-1].sum(axis=1, keepdims=True), np.float32(_FLOOR))
    return weights


def begin_shares(scores: Sequence[float]) -> list[float]:
    """Share one agent's blame over its steps, in order.

    Before any evidence each of S steps has hazard 1 / S: one of them is expected to begin the fault.
    A step that looks worse than the agent's others by one standard deviation has e times the odds.

    Args:
        scores: (S,) suspicion of each step, at least one; only how they compare matters, not their scale.

    Returns:
        (S,) adding up to 1.
    """
    n_steps = len(scores)
    if n_steps == 1:
        return [1.0]
    mean = sum(scores) / n_steps
    spread = max(math.sqrt(sum((score - mean) ** 2 for score in scores) / n_steps), _FLOOR)
    begins, nothing_before = [], 1.0
    for score in scores:
        hazard = 0.5 * (1 + math.tanh(0.5 * ((score - mean) / spread - math.log(n_steps - 1))))
        begins.append(hazard * nothing_before)
        nothing_before *= 1 - hazard
    total = sum(begins)
    return [share / total for share in begins]
