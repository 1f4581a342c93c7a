"""How an agent's blame is shared over its steps: the first step that looks wrong takes most.

What goes wrong early is repeated, built on and reported later, so later suspicious steps are mostly
consequences. Each step therefore has a hazard, the chance that it is wrong given that nothing was
before, and a step's share is the chance that the fault *begins* there.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["begin_shares", "suspicion"]

Floats: TypeAlias = NDArray[np.float32]

_FLOOR = 1e-6
"""Smallest spread of suspicion that still tells steps apart."""


def suspicion(by_step: Floats, modes: Floats, at_fault: Floats) -> Floats:
    """Sum up what each step's words add to the case against its agent.

    Dims: S steps, M modes.

    Args:
        by_step: (S, M + 1) what each step adds to the log-odds, the last column for being at fault at all.
        modes: (M,) probability of each mode for this agent, all steps together.
        at_fault: () probability that the agent is at fault at all.

    Returns:
        (S,) the modes' contributions, each weighed by how likely the mode is, plus those to `at fault`.
    """
    weight = modes / max(float(modes.sum()), _FLOOR)
    case: Floats = ((by_step[:, :-1] * weight).sum(axis=1) + at_fault * by_step[:, -1]).astype(np.float32)
    return case


def begin_shares(scores: Floats) -> Floats:
    """Share one agent's blame over its steps, in order.

    Before any evidence each of S steps has hazard 1 / S: one of them is expected to begin the fault.
    A step that looks worse than the agent's others by one standard deviation has e times the odds.

    Dims: S steps, at least one.

    Args:
        scores: (S,) suspicion of each step; only how they compare matters, not their scale.

    Returns:
        (S,) adding up to 1.
    """
    if len(scores) == 1:
        return np.ones(1, np.float32)
    centred = (scores - scores.mean()).astype(np.float64) / max(float(scores.std()), _FLOOR)
    log_odds = centred - np.log(len(scores) - 1)
    hazard = 0.5 * (1 + np.tanh(0.5 * log_odds))
    nothing_before = np.concatenate([[1.0], np.cumprod(1 - hazard)[:-1]])
    begins = hazard * nothing_before
    shares: Floats = (begins / begins.sum()).astype(np.float32)
    return shares
