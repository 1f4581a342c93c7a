"""What a model says of pairs of agents and errors, spread over the decisions of those agents."""

from __future__ import annotations

import numpy as np

from blamespan.taxonomy import AEGIS
from blamespan_tracer.causal.reading import Part
from blamespan_tracer.causal.scoring import Floats

__all__ = ["softmax", "spread"]

_NEVER = -100.0
"""Stands for the log-probability of an answer that the question does not know."""


def spread(part: Part, scores: Floats) -> tuple[Floats, dict[str, float]]:
    """Share each agent's chance evenly over its decisions.

    Args:
        part: What was asked about.
        scores: Log-probabilities of the first lines of an answer: every agent with every mode, modes fastest.

    Returns:
        Log-probabilities of its decisions and of nobody, and the chance of each pair as `agent|code`.
    """
    decisions = part.shown.decisions
    agents = list(dict.fromkeys(each.agent for each in decisions))
    chances = softmax(scores).reshape(len(agents), len(AEGIS))
    steps = {agent: sum(each.agent == agent for each in decisions) for agent in agents}
    by_agent = dict(zip(agents, chances.sum(axis=1).tolist(), strict=True))
    shares = np.array([by_agent[each.agent] / steps[each.agent] for each in decisions])
    modes = {
        f"{agent}|{code}": float(chances[row, column])
        for row, agent in enumerate(agents)
        for column, code in enumerate(AEGIS)
    }
    return np.array([*np.log(np.maximum(shares, 1e-12)).tolist(), _NEVER]), modes


def softmax(scores: Floats) -> Floats:
    """Turn log-probabilities into shares of one."""
    powers = np.exp(scores - scores.max())
    chances: Floats = powers / powers.sum()
    return chances
