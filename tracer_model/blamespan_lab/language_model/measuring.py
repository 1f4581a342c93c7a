"""How a trained model does on held-out runs, beside the embedded tracer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from blamespan.errors import BlamespanError
from blamespan.tracers import load_tracer
from blamespan_lab.language_model.examples import Example
from blamespan_lab.statistics import percent
from blamespan_tracer.causal.tracer import CausalPrediction

__all__ = ["CausalFigures", "embedded_beside", "measure_held_out"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CausalFigures:
    """Figures on held-out tasks; calibration saw the same runs, which flatters.

    Attributes:
        n: Failed runs.
        step: Percent whose decisive step is the likeliest answer; NaN for the question `pairs`.
        agent: Percent whose likeliest agent is one at fault.
        chance: Percent that an answer drawn evenly from the decisions would get of `step`, or of `agent` for `pairs`.
        embedded_step: `step` of the embedded tracer `network` on the same runs; NaN where it was not asked. Where its
            weights were trained on the same corpus it knows these tasks, which flatters it.
        embedded_agent: Likewise.
    """

    n: int
    step: float
    agent: float
    chance: float
    embedded_step: float = float("nan")
    embedded_agent: float = float("nan")


def measure_held_out(judged_runs: Sequence[tuple[Example, CausalPrediction]]) -> CausalFigures:
    """Compare what a model says of held-out runs with their labels."""
    steps, agents, chances = [], [], []
    for example, judgement in judged_runs:
        if example.is_sound:
            continue
        decisions, powers = example.decisions, np.exp(judgement.scores[:-1] - judgement.scores[:-1].max())
        by_agent: dict[int, float] = {}
        for (agent, _), power in zip(decisions, powers.tolist(), strict=True):
            by_agent[agent] = by_agent.get(agent, 0.0) + power
        worst = max(by_agent, key=lambda agent: by_agent[agent])
        own = [index for index, (agent, _) in enumerate(decisions) if agent == worst]
        if example.step is not None:
            steps.append(
                decisions[max(own, key=lambda index: powers[index])] == (example.step.agent, example.step.step)
            )
            agents.append(worst == example.step.agent)
            chances.append(1 / len(decisions))
        else:
            guilty = {agent for agent, _ in example.pairs or ()}
            agents.append(worst in guilty)
            chances.append(len(guilty) / len(by_agent))
    nan = float("nan")
    chance = 100 * sum(chances) / len(chances) if chances else nan
    return CausalFigures(len(agents), percent(steps) if steps else nan, percent(agents), chance)


def embedded_beside(figures: CausalFigures, examples: Sequence[Example]) -> CausalFigures:
    """Add what the embedded tracer says of the same *examples*; NaN stays where it cannot be loaded."""
    failed = [(example, example.step) for example in examples if example.step is not None and not example.is_sound]
    try:
        verdicts = load_tracer("network").attribute([example.trace for example, _ in failed])
    except BlamespanError as error:
        _log.warning("not compared with the embedded tracer: %s", error)
        return figures
    steps, agents = [], []
    for (example, label), verdict in zip(failed, verdicts, strict=True):
        steps.append(verdict.decisive_step in example.run.origins[label.step])
        agents.append(bool(verdict.agents) and verdict.agents[0].agent == example.run.names[label.agent - 1])
    return replace(figures, embedded_step=percent(steps), embedded_agent=percent(agents))
