"""Fit the model of steps to failed runs whose decisive step is known: the prior, and how evidence counts beside it.

Dims: T steps of a run, F features of a step, N steps of all runs, R runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

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
        self._n_runs = len(runs)
        self._run_of = torch.repeat_interleave(torch.arange(len(runs)), torch.tensor(sizes))
        self.features = torch.from_numpy(np.clip(scaled, -FURTHEST, FURTHEST))
        self.can_be_blamed = torch.from_numpy(np.concatenate([run.can_be_blamed for run in runs]))
        evidence = np.concatenate([np.clip(run.evidence, -MOST_EVIDENCE, MOST_EVIDENCE) for run in runs])
        self.evidence = torch.from_numpy(evidence)
        self.of_agent = torch.from_numpy(np.concatenate([run.is_of_agent & run.can_be_blamed for run in runs]))
        self.steps = torch.tensor(np.cumsum([0, *sizes[:-1]]) + [run.step for run in runs])
        self.weights = torch.tensor([run.weight for run in runs], dtype=torch.float64)

    def log_sum(self, scores: Tensor, among: Tensor) -> Tensor:
        """Return the logarithm of the sum of the exponentials of each run's scores *among* its steps: (R,)."""
        scores = torch.where(among, scores, torch.tensor(_NEVER, dtype=scores.dtype))
        highest = torch.full((self._n_runs,), _NEVER, dtype=scores.dtype)
        highest = highest.scatter_reduce(0, self._run_of, scores.detach(), "amax")
        powers = torch.exp(scores - highest[self._run_of]) * among
        total = torch.zeros(self._n_runs, dtype=scores.dtype).scatter_add(0, self._run_of, powers)
        return torch.log(total + 1e-30) + highest

    def log_softmax(self, scores: Tensor) -> Tensor:
        """Return the logarithm of the softmax of scores over the steps of each run that can be blamed: (N,)."""
        return scores - self.log_sum(scores, self.can_be_blamed)[self._run_of]

    def log_shares(self, prior: Tensor, evidence: Tensor, threshold: Tensor) -> Tensor:
        """Return the logarithm of the shares of all steps: (N,)."""
        total = self.log_sum(evidence, self.can_be_blamed)
        shown = functional.logsigmoid(total - threshold) - total
        unknown = functional.logsigmoid(threshold - total) - self.log_sum(prior, self.can_be_blamed)
        return torch.logaddexp(evidence + shown[self._run_of], prior + unknown[self._run_of])


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
    weights = torch.zeros(batch.features.shape[1], dtype=torch.float64, requires_grad=True)
    counting = torch.tensor([_FIRST_SHARPNESS, _FIRST_THRESHOLD], dtype=torch.float64, requires_grad=True)

    def loss() -> Tensor:
        sharpness = functional.softplus(counting[0])
        shares = batch.log_shares(batch.features @ weights, sharpness * batch.evidence, counting[1])
        of_agent = batch.log_sum(shares, batch.of_agent)
        likelihood = (1 - agent_part) * shares[batch.steps] + agent_part * of_agent
        return penalty * (weights**2).sum() - (batch.weights * likelihood).sum()

    _minimize([weights, counting], loss)
    prior = StepPrior(
        batch.mean.astype(np.float32), batch.spread.astype(np.float32), weights.detach().numpy().astype(np.float32)
    )
    sharpness, threshold = functional.softplus(counting[0]).item(), counting[1].item()
    return StepModel(evidence, prior, sharpness, threshold)


def _minimize(parameters: list[Tensor], loss: Callable[[], Tensor]) -> None:
    """Minimize a smooth loss by L-BFGS."""
    optimizer = torch.optim.LBFGS(parameters, max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        total = loss()
        total.backward()  # type: ignore[no-untyped-call]  # torch's own
        return total

    optimizer.step(closure)  # type: ignore[no-untyped-call]  # torch's own


def fit_prior(runs: Sequence[LabelledSteps], *, penalty: float, agent_part: float) -> StepPrior:
    """Fit what a prior adds to opinions; runs whose labelled step nobody can be blamed for teach nothing."""
    batch = _Batch(
        [
            FailedSteps(run.features, run.can_be_blamed, run.step, run.is_of_agent, run.opinion)
            for run in runs
            if run.can_be_blamed[run.step]
        ]
    )
    weights = torch.zeros(batch.features.shape[1], dtype=torch.float64, requires_grad=True)

    def loss() -> Tensor:
        shares = batch.log_softmax(batch.evidence + batch.features @ weights)
        of_agent = batch.log_sum(shares, batch.of_agent)
        likelihood = (1 - agent_part) * shares[batch.steps] + agent_part * of_agent
        return penalty * (weights**2).sum() - likelihood.sum()

    _minimize([weights], loss)
    return StepPrior(
        batch.mean.astype(np.float32), batch.spread.astype(np.float32), weights.detach().numpy().astype(np.float32)
    )


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
