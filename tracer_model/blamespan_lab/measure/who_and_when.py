"""Measure a tracer on labelled steps, Who&When's or any others, beside baselines that read little or nothing.

`blamespan lab evaluate who-and-when` and `steps` print these figures.

One baseline is a step model that understands nothing, a logistic regression on plain features of steps. Any tracer must
beat it: trained and tested on the same corpus by cross-validation, it scores what position, role and surface give away.

Dims: T steps of a run, N steps of all runs, P plain features.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypedDict

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from blamespan.attribution import Attribution
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import MessageActionTrace
from blamespan_lab.agent_names import bare_name, same_agent
from blamespan_lab.statistics import interval, percent
from blamespan_tracer.auto.plain_features import plain_features


class StepAndAgent(TypedDict):
    """Percent of runs."""

    step: float
    agent: float


class SubsetFigures(StepAndAgent):
    """What `evaluate who-and-when` prints per subset, all but `n` and `abstained` in percent; see `evaluate_subset`."""

    n: int
    top3: float
    within1: float
    within3: float
    step_ci: list[float]
    agent_ci: list[float]
    abstained: int
    baselines: dict[str, StepAndAgent]


@dataclass(frozen=True, slots=True)
class _StepGuess:
    """A step and an agent, either of which may be missing."""

    step: int | None
    agent: str | None


def evaluate_subset(runs: Sequence[RecordedRun], verdicts: Sequence[Attribution]) -> SubsetFigures:
    """Score *verdicts* by the field's protocol, without the right answer to the task given.

    A step is right if it is exactly the labelled index. Agents are compared without case and without a
    ` (...)` suffix. An abstention is wrong. `top3` asks whether the labelled step is among the three most
    blamed, `within1` and `within3` whether the decisive step is so near.
    """
    steps = [_gold_step(run) for run in runs]
    guesses = [
        _StepGuess(verdict.decisive_step, verdict.agents[0].agent if verdict.agents else None) for verdict in verdicts
    ]
    is_step, is_agent = _right(runs, guesses)
    return {
        "n": len(runs),
        "step": percent(is_step),
        "agent": percent(is_agent),
        "top3": percent([step in _top(verdict, 3) for step, verdict in zip(steps, verdicts, strict=True)]),
        "within1": percent(_near(steps, guesses, 1)),
        "within3": percent(_near(steps, guesses, 3)),
        "step_ci": list(interval(is_step)),
        "agent_ci": list(interval(is_agent)),
        "abstained": sum(verdict.abstained is not None for verdict in verdicts),
        "baselines": _baselines(runs),
    }


def _baselines(runs: Sequence[RecordedRun]) -> dict[str, StepAndAgent]:
    """Score what needs no tracer. Where a name says `best`, the choice was made on these labels: an upper bound."""
    traces = [run.trace for run in runs]
    plain = cross_validated_steps(traces, [_gold_step(run) for run in runs])
    return {
        "random": _expect_by_chance(runs, only_blamable=False),
        "random_blamable": _expect_by_chance(runs, only_blamable=True),
        "best_constant_step": _best_constant(runs),
        "busiest_agent": _score_guesses(runs, [_busiest(trace) for trace in traces]),
        "best_fixed_agent": _score_guesses(runs, _fixed_agent(runs)),
        "first_code_fence_else_step_1": _score_guesses(
            runs, [_guess_at(trace, _first_fence(trace)) for trace in traces]
        ),
        "plain_features_5_fold": _score_guesses(
            runs, [_guess_at(trace, step) for trace, step in zip(traces, plain, strict=True)]
        ),
    }


def _expect_by_chance(runs: Sequence[RecordedRun], *, only_blamable: bool) -> StepAndAgent:
    """Compute what uniform guesses score on average: over steps, and over the agents that take them."""
    step_chances, agent_chances = [], []
    for run in runs:
        open_steps = [step for step in run.trace.steps if not only_blamable or run.trace.can_be_blamed(step)]
        agents = {step.agent for step in open_steps}
        step_chances.append(sum(step.index == _gold_step(run) for step in open_steps) / max(len(open_steps), 1))
        agent_chances.append(sum(_is_gold_agent(run, agent) for agent in agents) / max(len(agents), 1))
    return {"step": 100 * sum(step_chances) / len(runs), "agent": 100 * sum(agent_chances) / len(runs)}


def _best_constant(runs: Sequence[RecordedRun]) -> StepAndAgent:
    constant = Counter(_gold_step(run) for run in runs).most_common(1)[0][0]
    return _score_guesses(runs, [_guess_at(run.trace, constant) for run in runs])


def _fixed_agent(runs: Sequence[RecordedRun]) -> list[_StepGuess]:
    name = Counter(bare_name(_gold_agent(run)) for run in runs).most_common(1)[0][0]
    return [_StepGuess(None, name) for _ in runs]


def _busiest(trace: MessageActionTrace) -> _StepGuess:
    spoken = Counter(step.agent for step in trace.steps if trace.can_be_blamed(step))
    agent = spoken.most_common(1)[0][0] if spoken else None
    return _StepGuess(next((step.index for step in trace.steps if step.agent == agent), None), agent)


def _first_fence(trace: MessageActionTrace) -> int:
    return next((step.index for step in trace.steps if "```" in step.content), min(1, len(trace.steps) - 1))


def _guess_at(trace: MessageActionTrace, step: int) -> _StepGuess:
    return _StepGuess(step, trace.steps[step].agent if step < len(trace.steps) else None)


def _score_guesses(runs: Sequence[RecordedRun], guesses: Sequence[_StepGuess]) -> StepAndAgent:
    is_step, is_agent = _right(runs, guesses)
    return {"step": percent(is_step), "agent": percent(is_agent)}


def _right(runs: Sequence[RecordedRun], guesses: Sequence[_StepGuess]) -> tuple[list[bool], list[bool]]:
    pairs = list(zip(runs, guesses, strict=True))
    return (
        [guess.step == _gold_step(run) for run, guess in pairs],
        [guess.agent is not None and _is_gold_agent(run, guess.agent) for run, guess in pairs],
    )


def _near(steps: Sequence[int], guesses: Sequence[_StepGuess], distance: int) -> list[bool]:
    return [
        guess.step is not None and abs(guess.step - step) <= distance
        for step, guess in zip(steps, guesses, strict=True)
    ]


def _top(verdict: Attribution, count: int) -> list[int]:
    ranked = sorted(verdict.steps, key=lambda step: (-step.score, step.index))
    return [step.index for step in ranked[:count] if step.score > 0]


def _gold_step(run: RecordedRun) -> int:
    assert run.faults is not None
    step = run.faults[0].step
    assert step is not None
    return step


def _gold_agent(run: RecordedRun) -> str:
    assert run.faults is not None
    return run.faults[0].agent


def _is_gold_agent(run: RecordedRun, agent: str) -> bool:
    return same_agent(agent, _gold_agent(run))


Floats: TypeAlias = NDArray[np.float64]

_PENALTY, _STEPS, _FOLDS = 1.0, 50, 5


def cross_validated_steps(traces: Sequence[MessageActionTrace], decisive: Sequence[int | None]) -> list[int]:
    """Predict the decisive step of every run by models that never saw the run's task.

    Args:
        traces: The runs.
        decisive: The labelled step of each; None where there is no label, and nothing to learn.

    Returns:
        The step with the highest score, per run.
    """
    features = [plain_features(trace) for trace in traces]
    tasks = {task: number for number, task in enumerate(dict.fromkeys(trace.task for trace in traces))}
    shuffled = np.random.default_rng(0).permutation(len(tasks))
    fold = [int(shuffled[tasks[trace.task]]) % _FOLDS for trace in traces]
    answers = [0] * len(traces)
    for number in range(_FOLDS):
        taught = [row for row in range(len(traces)) if fold[row] != number and decisive[row] is not None]
        asked = [row for row in range(len(traces)) if fold[row] == number]
        if not taught or not asked:
            continue
        model = make_pipeline(
            StandardScaler(), LogisticRegression(C=1 / _PENALTY, solver="newton-cholesky", tol=1e-8, max_iter=_STEPS)
        )
        model.fit(np.concatenate([features[row] for row in taught]), _stack_targets(features, decisive, taught))
        for row in asked:
            answers[row] = int(model.decision_function(features[row]).argmax())
    return answers


def _stack_targets(features: Sequence[Floats], decisive: Sequence[int | None], rows: Sequence[int]) -> Floats:
    return np.concatenate([np.arange(len(features[row])) == decisive[row] for row in rows]).astype(np.float64)
