"""Fit the model of steps to failed runs whose decisive step is known: the prior, and how evidence counts beside it.

Dims: T steps of a run, F features of a step, N steps of all runs, R runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from blamespan.importing.recorded import RecordedRun
from blamespan_lab.agent_names import same_agent
from blamespan_tracer.auto.step_model import MOST_EVIDENCE, EvidenceModel, StepModel
from blamespan_tracer.auto.step_prior import FURTHEST, StepPrior
from blamespan_tracer.numeric import softmax

_ITERATIONS = 100
_FOLDS = 5
_NEVER = -1e9
_FIRST_SHARPNESS, _FIRST_THRESHOLD = 0.5, -2.0

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class LabelledSteps:
    """A failed run whose decisive step somebody labelled.

    Attributes:
        run: The run.
        features: (T, F) of `prior_features`.
        can_be_blamed: (T,) bool.
        step: The labelled step.
        is_of_agent: (T,) which steps the labelled agent took.
        opinion: (T,) scores that the prior's are added to.
    """

    run: RecordedRun
    features: Floats
    can_be_blamed: Bools
    step: int
    is_of_agent: Bools
    opinion: Floats

    @classmethod
    def of(
        cls, run: RecordedRun, features: Floats, can_be_blamed: Bools, opinion: Floats | None = None
    ) -> LabelledSteps:
        """Join a run with its label; without an opinion all steps begin alike."""
        assert run.faults
        fault = run.faults[0]
        assert fault.step is not None
        is_of_agent = np.array([same_agent(step.agent, fault.agent) for step in run.trace.steps], np.bool_)
        return cls(
            run,
            features,
            can_be_blamed,
            fault.step,
            is_of_agent,
            np.zeros(len(features)) if opinion is None else opinion,
        )

    def share(self, prior: StepPrior | None = None) -> Floats:
        """Return the (T,) shares of the blame by the opinion, and by what a prior adds to it."""
        added = 0.0 if prior is None else prior.score(self.features)
        return softmax(np.where(self.can_be_blamed, self.opinion + added, -np.inf))


@dataclass(frozen=True, slots=True)
class FailedSteps:
    """A failed run as the model of steps learns from it.

    Attributes:
        features: (T, F) of `prior_features`.
        can_be_blamed: (T,) bool.
        step: The decisive step, which can be blamed.
        is_of_agent: (T,) which steps its agent took.
        evidence: (T,) above "nothing is wrong", by weights that have not seen the run's source.
        weight: How much the run counts.
    """

    features: Floats
    can_be_blamed: Bools
    step: int
    is_of_agent: Bools
    evidence: Floats
    weight: float = 1.0


class _Batch:
    """Failed runs side by side: steps of all runs in one row."""

    def __init__(self, runs: Sequence[FailedSteps]) -> None:
        rows = np.concatenate([run.features[run.can_be_blamed] for run in runs])
        self.mean, self.spread = rows.mean(axis=0), rows.std(axis=0) + 1e-6
        scaled = (np.concatenate([run.features for run in runs]) - self.mean) / self.spread
        sizes = [len(run.features) for run in runs]
        self._firsts = np.cumsum([0, *sizes[:-1]])
        self.run_of = np.repeat(np.arange(len(runs)), sizes)
        self.features = np.clip(scaled, -FURTHEST, FURTHEST)
        self.can_be_blamed = np.concatenate([run.can_be_blamed for run in runs])
        self.evidence = np.concatenate([np.clip(run.evidence, -MOST_EVIDENCE, MOST_EVIDENCE) for run in runs])
        self.of_agent = np.concatenate([run.is_of_agent & run.can_be_blamed for run in runs])
        self.steps = self._firsts + [run.step for run in runs]
        self.weights = np.array([run.weight for run in runs])

    def log_sum(self, scores: Floats, among: Bools) -> Floats:
        """Return the logarithm of the sum of the exponentials of each run's scores *among* its steps: (R,)."""
        scores = np.where(among, scores, _NEVER)
        highest = np.maximum.reduceat(scores, self._firsts)
        return np.log(self.add_up(np.exp(scores - highest[self.run_of]) * among) + 1e-30) + highest

    def softmax(self, scores: Floats, among: Bools) -> Floats:
        """Return the slope of `log_sum` by the scores: (N,)."""
        total = self.log_sum(scores, among)
        return np.where(among, np.exp(np.minimum(scores - total[self.run_of], 0.0)), 0.0)

    def add_up(self, values: Floats) -> Floats:
        """Add up what is said of steps over each run: (R,)."""
        total: Floats = np.add.reduceat(values, self._firsts)
        return total

    def likelihood(self, log_shares: Floats, agent_part: float) -> tuple[float, Floats]:
        """Return how likely the decisive steps and their agents are, and its (N,) slopes by the steps' log shares."""
        of_agent = self.log_sum(log_shares, self.of_agent)
        each = (1 - agent_part) * log_shares[self.steps] + agent_part * of_agent
        slopes = agent_part * self.softmax(log_shares, self.of_agent)
        slopes[self.steps] += 1 - agent_part
        return float(self.weights @ each), slopes * self.weights[self.run_of]

    def prior(self, weights: Floats) -> StepPrior:
        """Return the prior of fitted weights."""
        return StepPrior(*(values.astype(np.float32) for values in (self.mean, self.spread, weights)))


def fit_step_model(
    evidence: EvidenceModel, runs: Sequence[FailedSteps], *, penalty: float, agent_part: float
) -> StepModel:
    """Fit the prior, and how evidence counts beside it, by the likelihood of the decisive steps and their agents.

    Args:
        evidence: Of the model.
        runs: What to learn from.
        penalty: Of the squares of the prior's weights.
        agent_part: How much the decisive agent counts beside the decisive step, 0..1.
    """
    batch = _Batch(runs)
    run_of, may = batch.run_of, batch.can_be_blamed

    def loss(parameters: Floats) -> tuple[float, Floats]:
        weights, (raw_sharpness, threshold) = parameters[:-2], parameters[-2:]
        prior, shown = batch.features @ weights, np.logaddexp(0.0, raw_sharpness) * batch.evidence
        total, mass = batch.log_sum(shown, may), batch.log_sum(prior, may)
        above = expit(total - threshold)  # that the evidence shows who failed
        by_evidence = shown + (log_expit(total - threshold) - total)[run_of]
        by_prior = prior + (log_expit(threshold - total) - mass)[run_of]
        likelihood, slopes = batch.likelihood(np.logaddexp(by_evidence, by_prior), agent_part)
        to_evidence = slopes * expit(by_evidence - by_prior)
        to_prior = slopes - to_evidence
        slope_evidence, slope_prior = batch.add_up(to_evidence), batch.add_up(to_prior)
        of_shown = to_evidence - (batch.add_up(slopes) * above)[run_of] * batch.softmax(shown, may)
        of_prior = to_prior - slope_prior[run_of] * batch.softmax(prior, may)
        of_sharpness = (of_shown @ batch.evidence) * expit(raw_sharpness)
        of_threshold = (slope_prior * above - slope_evidence * (1 - above)).sum()
        gradient = np.array([*(2 * penalty * weights - batch.features.T @ of_prior), -of_sharpness, -of_threshold])
        return float(penalty * (weights @ weights)) - likelihood, gradient

    first = np.array([*np.zeros(batch.features.shape[1]), _FIRST_SHARPNESS, _FIRST_THRESHOLD])
    *weights, raw_sharpness, threshold = _minimize(loss, first)
    sharpness = float(np.logaddexp(0.0, raw_sharpness))
    return StepModel(evidence, batch.prior(np.array(weights)), sharpness, float(threshold))


def _minimize(loss: Callable[[Floats], tuple[float, Floats]], first: Floats) -> Floats:
    """Minimize a smooth loss, given with its gradient, by L-BFGS."""
    best: Floats = minimize(loss, first, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS}).x
    return best


def fit_prior(runs: Sequence[LabelledSteps], *, penalty: float, agent_part: float) -> StepPrior:
    """Fit what a prior adds to opinions; runs whose labelled step nobody can be blamed for teach nothing."""
    batch = _Batch(
        [
            FailedSteps(run.features, run.can_be_blamed, run.step, run.is_of_agent, run.opinion)
            for run in runs
            if run.can_be_blamed[run.step]
        ]
    )

    def loss(weights: Floats) -> tuple[float, Floats]:
        scores = batch.evidence + batch.features @ weights
        log_shares = scores - batch.log_sum(scores, batch.can_be_blamed)[batch.run_of]
        likelihood, slopes = batch.likelihood(log_shares, agent_part)
        slopes -= batch.add_up(slopes)[batch.run_of] * batch.softmax(scores, batch.can_be_blamed)
        return float(penalty * (weights @ weights)) - likelihood, 2 * penalty * weights - batch.features.T @ slopes

    return batch.prior(_minimize(loss, np.zeros(batch.features.shape[1])))


def cross_fit(
    runs: Sequence[LabelledSteps], groups: NDArray[np.int64], *, penalty: float, agent_part: float, seed: int
) -> list[StepPrior]:
    """Return, per run, a prior that was fitted to the runs of other groups only: five folds.

    Args:
        runs: N of them.
        groups: (N,) as `group_by_task` numbers them.
        penalty: Of the weights' squares.
        agent_part: How much the labelled agent counts beside the labelled step, 0..1.
        seed: Of the folds.
    """
    folds = draw_folds(groups, seed)
    priors = {
        fold: fit_prior(
            [run for run, other in zip(runs, folds, strict=True) if other != fold],
            penalty=penalty,
            agent_part=agent_part,
        )
        for fold in np.unique(folds).tolist()
    }
    return [priors[fold] for fold in folds.tolist()]


def draw_folds(groups: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Return the fold, one of five, of each run by its group."""
    folds: NDArray[np.int64] = (np.random.default_rng(seed).permutation(groups.max() + 1) % _FOLDS)[groups]
    return folds
