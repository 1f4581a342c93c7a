"""What an answer earns: pure functions of an answer and the label.

Sources: AgenTracer (arXiv 2509.03312) and AEGIS (arXiv 2509.14295). AEGIS does not publish the constants of its reward:
those of `Points` are ours.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from blamespan_tracer.causal.prompts import NOBODY, PairsAnswer, StepAnswer

__all__ = ["Points", "aegis_reward", "chance_of_step", "clip_bound", "step_reward"]


def step_reward(answer: StepAnswer | None, label: StepAnswer, *, sigma: float = 1.0, step_weight: float = 0.5) -> float:
    """Reward a step and an agent: 1[format] (w exp(-(t - t*)^2 / 2 sigma^2) + (1 - w) 1[i = i*]), 0..1.

    The kind of error earns nothing, as published. One case is ours, as the paper knows no sound runs: where the label
    or the answer is nobody, only the same answer earns anything.

    Args:
        answer: None where the reply is not in the format: 0.
        label: Who decided the failure.
        sigma: Steps; distances count merged decisions.
        step_weight: Of the step against the agent.
    """
    if answer is None:
        return 0.0
    answered, right = (answer.agent, answer.step), (label.agent, label.step)
    nobody = (NOBODY.agent, NOBODY.step)
    if nobody in (answered, right):
        return float(answered == right)
    near = math.exp(-((answer.step - label.step) ** 2) / (2 * sigma**2))
    return step_weight * near + (1 - step_weight) * (answer.agent == label.agent)


def chance_of_step(
    decisions: Sequence[tuple[int, int]], label: StepAnswer, *, sigma: float = 1.0, step_weight: float = 0.5
) -> float:
    """Return the mean reward of an answer drawn evenly from *decisions*, as (agent, step)."""
    earned = [
        step_reward(StepAnswer(*decision), label, sigma=sigma, step_weight=step_weight)
        for decision in (*decisions, (0, 0))
    ]
    return sum(earned) / len(earned)


def clip_bound(step: int, steps: int, first: float, *, least: float = 0.2) -> float:
    """Tighten the clip of GRPO's ratio: max(least * first, first (1 - step / steps))."""
    return max(least * first, first * (1 - step / steps))


@dataclass(frozen=True, slots=True)
class Points:
    """What AEGIS's reward gives and takes. The order is the paper's; the numbers are ours.

    Attributes:
        bonus: For a readable answer.
        pair: For an agent with its error.
        agent: For an agent alone, and
        mode: an error alone: once each.
        wrong: For neither.
        repeated: Taken for a pair that is said again.
        excess: Taken for every answer beyond twice as many as there are labels.
        malformed: The whole reward of a reply that cannot be read.
    """

    bonus: float = 0.5
    pair: float = 2.0
    agent: float = 1.0
    mode: float = 1.0
    wrong: float = -0.5
    repeated: float = 0.5
    excess: float = 0.5
    malformed: float = -1.0


def aegis_reward(
    answer: PairsAnswer | None, labels: AbstractSet[tuple[int, str]], points: Points | None = None
) -> float:
    """Reward pairs of agents and errors: (bonus + credits - repetitions - excess) / (labels * pair + bonus), at most 1.

    A pair that is right earns `pair`; one that is half right earns `agent` or `mode` the first time for each agent and
    mode of the labels that no right pair names.

    Args:
        answer: None where the reply is not in the format.
        labels: (agent, AEGIS code); may be empty for a run without errors.
        points: What is given and taken.
    """
    worth = points or Points()
    if answer is None:
        return worth.malformed
    distinct = list(dict.fromkeys(answer.pairs))
    right = [pair for pair in distinct if pair in labels]
    agents = {agent for agent, _ in labels} - {agent for agent, _ in right}
    modes = {code for _, code in labels} - {code for _, code in right}
    total = worth.bonus + worth.pair * len(right)
    for agent, code in (pair for pair in distinct if pair not in labels):
        if agent in agents:
            agents.discard(agent)
            total += worth.agent
        elif code in modes:
            modes.discard(code)
            total += worth.mode
        else:
            total += worth.wrong
    total -= worth.repeated * (len(answer.pairs) - len(distinct))
    total -= worth.excess * max(len(answer.pairs) - 2 * len(labels), 0)
    return max(total / (len(labels) * worth.pair + worth.bonus), worth.malformed)
