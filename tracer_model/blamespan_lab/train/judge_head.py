"""Fit how the embedded tracer's shares and a model's answers become one verdict, to labels of a user's own runs.

Dims: N labelled failures.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from blamespan.attribution import Attribution
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import MessageActionTrace
from blamespan_lab.recorded_runs import group_by_task
from blamespan_lab.statistics import percent
from blamespan_lab.train.step_model import draw_folds
from blamespan_tracer.alternatives.llm_judge.answers import Diagnosis
from blamespan_tracer.alternatives.llm_judge.budget import Unanswered
from blamespan_tracer.alternatives.llm_judge.combination import FEATURES, STATED, Combination, pair_features
from blamespan_tracer.alternatives.llm_judge.tracer import JudgeTracer
from blamespan_tracer.heads import list_agents

_log = logging.getLogger(__name__)

FEWEST: Final = 20
"""Labelled failures with an answer that fitting needs."""

_PENALTY: Final = 1.0
"""Of the squared distance from the stated weights: a few labels do not undo them."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AskedRun:
    """A labelled failure that was asked about.

    Attributes:
        trace: The run.
        verdict: The embedded one.
        diagnosis: The answer.
        step: Index of the labelled step.
    """

    trace: MessageActionTrace
    verdict: Attribution
    diagnosis: Diagnosis
    step: int


@dataclass(frozen=True, slots=True)
class CombinationFigures:
    """Percent of labelled steps that are named, of runs whose tasks the combination was not fitted on.

    Attributes:
        n: Labelled failures with an answer.
        embedded: By the embedded tracer.
        judge: By the first suspect of the answer.
        stated: By the stated weights.
        fitted: By the fitted ones.
        gain: How much likelier these make the labelled step than the stated ones, in nats, with two standard errors.
    """

    n: int
    embedded: float
    judge: float
    stated: float
    fitted: float
    gain: tuple[float, float]


def ask_about(runs: Sequence[RecordedRun], tracer: JudgeTracer) -> list[AskedRun]:
    """Ask about labelled failures; what gives no answer, or cannot be named, is left out, and the log says so."""
    assert tracer.first is not None
    failed = [(run, run.faults[0].step) for run in runs if run.faults and run.faults[0].step is not None]
    asked = []
    for (run, step), verdict in zip(failed, tracer.first.attribute([run.trace for run, _ in failed]), strict=True):
        assert step is not None
        if verdict.decisive_step is None or not run.trace.can_be_blamed(run.trace.steps[step]):
            continue
        try:
            asked.append(AskedRun(run.trace, verdict, tracer.examine(run.trace, verdict), step))
        except Unanswered as error:
            _log.warning("run %s is left out: %s", run.trace.trace_id, error)
    return asked


def learn_combination(asked: Sequence[AskedRun], *, seed: int = 0) -> tuple[Combination, CombinationFigures]:
    """Fit a combination to labelled failures, and measure it by cross-validation over their tasks.

    Raises:
        UnreadableInput: if there are fewer than `FEWEST`.
    """
    if len(asked) < FEWEST:
        raise UnreadableInput(
            f"expected {FEWEST} labelled failures with an answer of the judge, got {len(asked)}. Label more with: "
            "blamespan annotate"
        )
    folds = draw_folds(group_by_task([run.trace.task for run in asked]), seed)
    fitted, stated = np.zeros(len(asked)), np.zeros(len(asked))
    is_right = np.zeros(len(asked), np.bool_)
    for fold in np.unique(folds):
        combination = fit_combination([run for run, own in zip(asked, folds, strict=True) if own != fold])
        for row in np.flatnonzero(folds == fold).tolist():
            run = asked[row]
            shares = combination.share(run.trace, run.verdict, run.diagnosis)
            fitted[row], is_right[row] = np.log(shares[run.step] + 1e-9), _decide(run, combination) == run.step
            stated[row] = np.log(STATED.share(run.trace, run.verdict, run.diagnosis)[run.step] + 1e-9)
    gain = fitted - stated
    error = float(gain.std(ddof=1)) / len(gain) ** 0.5
    figures = CombinationFigures(
        n=len(asked),
        embedded=percent([run.verdict.decisive_step == run.step for run in asked]),
        judge=percent([_names(run.diagnosis) == run.step for run in asked]),
        stated=percent([_decide(run, STATED) == run.step for run in asked]),
        fitted=percent(is_right.tolist()),
        gain=(float(gain.mean()), 2 * error),
    )
    combination = fit_combination(asked)
    agents = sorted({agent for run in asked for agent in list_agents(run.trace)})
    about = {"agents": agents, "n": figures.n, "stated": figures.stated, "fitted": figures.fitted}
    is_better = figures.gain[0] > figures.gain[1] and figures.fitted >= figures.stated
    return Combination(combination.weights, combination.accuracy, is_better, about), figures


def fit_combination(asked: Sequence[AskedRun]) -> Combination:
    """Fit the weights, held back towards the stated ones for a judge as accurate as this one.

    Runs teach in which one of the two opinions is right and the other is not.
    """
    right = sum(_names(run.diagnosis) == run.step for run in asked)
    accuracy = (right + 2 * STATED.accuracy) / (len(asked) + 2)
    stated = STATED.weights + np.array([np.log(accuracy / (1 - accuracy)), *[0.0] * (len(FEATURES) - 1)])
    answered = [run for run in asked if run.diagnosis.suspects]
    told = [run for run in answered if (_names(run.diagnosis) == run.step) != (run.verdict.decisive_step == run.step)]
    if not told:
        return Combination(stated, accuracy)
    is_right = np.array([_names(run.diagnosis) == run.step for run in told], np.float64)
    features = np.array([pair_features(run.trace, run.verdict, run.diagnosis) for run in told])

    def loss(weights: Floats) -> tuple[float, Floats]:
        logits, change = features @ weights, weights - stated
        slope = features.T @ (expit(logits) - is_right) + _PENALTY * change
        return float((np.logaddexp(0, logits) - is_right * logits).sum() + _PENALTY / 2 * change @ change), slope

    return Combination(minimize(loss, stated, jac=True, method="BFGS").x, accuracy)


def _decide(run: AskedRun, combination: Combination) -> int | None:
    """Return the step that a verdict by *combination* names."""
    shares = combination.share(run.trace, run.verdict, run.diagnosis)
    return Attribution.of(run.trace, shares.tolist(), failure_score=1.0, tracer=run.verdict.tracer).decisive_step


def _names(diagnosis: Diagnosis) -> int | None:
    return diagnosis.suspects[0].step if diagnosis.suspects else None
