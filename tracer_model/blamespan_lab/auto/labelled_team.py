"""Fit the pointer for labelled teams, and cross-fit it: each question is judged by weights that have not seen it.

Dims: T steps of a run, F features of a step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from blamespan.importing.recorded import RecordedRun
from blamespan_tracer.auto.experts import LabelledTeamPointer
from blamespan_tracer.numeric import softmax

__all__ = ["LabelledSteps", "cross_fit", "fit_labelled_team"]

_ITERATIONS = 60
_FOLDS = 5
_NEVER = -1e9

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class LabelledSteps:
    """A failed run whose decisive step somebody labelled.

    Attributes:
        run: The run.
        features: (T, F) of `labelled_team_features`.
        can_be_blamed: (T,) bool.
        step: The labelled step.
        is_of_agent: (T,) which steps the labelled agent took.
        opinion: (T,) scores that the pointer's are added to.
    """

    run: RecordedRun
    features: Floats
    can_be_blamed: NDArray[np.bool_]
    step: int
    is_of_agent: NDArray[np.bool_]
    opinion: Floats

    @classmethod
    def of(
        cls, run: RecordedRun, features: Floats, can_be_blamed: NDArray[np.bool_], opinion: Floats | None = None
    ) -> LabelledSteps:
        """Join a run with its label; without an opinion all steps begin alike."""
        assert run.faults
        fault = run.faults[0]
        assert fault.step is not None
        is_of_agent = np.array([_bare(step.agent) == _bare(fault.agent) for step in run.trace.steps], np.bool_)
        return cls(
            run,
            features,
            can_be_blamed,
            fault.step,
            is_of_agent,
            np.zeros(len(features)) if opinion is None else opinion,
        )

    def share(self, pointer: LabelledTeamPointer | None = None) -> Floats:
        """Return the (T,) shares of the blame by the opinion, and by what a pointer adds to it."""
        added = 0.0 if pointer is None else pointer.score(self.features)
        return softmax(np.where(self.can_be_blamed, self.opinion + added, -np.inf))


def fit_labelled_team(runs: Sequence[LabelledSteps], *, penalty: float, agent_part: float) -> LabelledTeamPointer:
    """Fit a conditional logit by L-BFGS; runs whose labelled step nobody can be blamed for teach nothing."""
    rows = np.concatenate([run.features[run.can_be_blamed] for run in runs])
    mean, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-6
    inputs = [torch.from_numpy((run.features - mean) / spread) for run in runs]
    weights = torch.zeros(rows.shape[1], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=_ITERATIONS)

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        total = penalty * (weights**2).sum()
        for run, table in zip(runs, inputs, strict=True):
            if not run.can_be_blamed[run.step]:
                continue
            of_steps = torch.from_numpy(run.opinion) + table @ weights
            scores = torch.where(torch.from_numpy(run.can_be_blamed), of_steps, torch.tensor(_NEVER))
            shares = torch.log_softmax(scores, 0)
            of_agent = torch.logsumexp(shares[torch.from_numpy(run.is_of_agent)], 0)
            total = total - (1 - agent_part) * shares[run.step] - agent_part * of_agent
        total.backward()  # type: ignore[no-untyped-call]  # torch's own
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]  # torch's own
    return LabelledTeamPointer(
        mean.astype(np.float32), spread.astype(np.float32), weights.detach().numpy().astype(np.float32)
    )


def cross_fit(
    runs: Sequence[LabelledSteps], groups: NDArray[np.int64], *, penalty: float, agent_part: float, seed: int
) -> list[LabelledTeamPointer]:
    """Return, per run, a pointer that was fitted to the runs of other groups only: five folds.

    Args:
        runs: N of them.
        groups: (N,) as `group_by_task` numbers them.
        penalty: Of the weights' squares.
        agent_part: How much the labelled agent counts beside the labelled step, 0..1.
        seed: Of the folds.
    """
    folds = (np.random.default_rng(seed).permutation(groups.max() + 1) % _FOLDS)[groups]
    pointers = {
        fold: fit_labelled_team(
            [run for run, other in zip(runs, folds, strict=True) if other != fold],
            penalty=penalty,
            agent_part=agent_part,
        )
        for fold in np.unique(folds).tolist()
    }
    return [pointers[fold] for fold in folds.tolist()]


def _bare(agent: str) -> str:
    return re.sub(r"\s+\([^()]*\)$", "", agent).casefold()
