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
    """

    run: RecordedRun
    features: Floats
    can_be_blamed: NDArray[np.bool_]
    step: int
    is_of_agent: NDArray[np.bool_]

    @classmethod
    def of(cls, run: RecordedRun, features: Floats, can_be_blamed: NDArray[np.bool_]) -> LabelledSteps:
        """Join a run with its label."""
        assert run.faults
        fault = run.faults[0]
        assert fault.step is not None
        is_of_agent = np.array([_bare(step.agent) == _bare(fault.agent) for step in run.trace.steps], np.bool_)
        return cls(run, features, can_be_blamed, fault.step, is_of_agent)


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
            scores = torch.where(torch.from_numpy(run.can_be_blamed), table @ weights, torch.tensor(_NEVER))
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
    runs: Sequence[LabelledSteps], *, penalty: float, agent_part: float, seed: int
) -> list[LabelledTeamPointer]:
    """Return, per run, a pointer that was fitted to the runs of other questions only: five folds."""
    tasks = sorted({run.run.trace.task for run in runs})
    folds = dict(zip(tasks, (np.random.default_rng(seed).permutation(len(tasks)) % _FOLDS).tolist(), strict=True))
    pointers = {
        fold: fit_labelled_team(
            [run for run in runs if folds[run.run.trace.task] != fold], penalty=penalty, agent_part=agent_part
        )
        for fold in set(folds.values())
    }
    return [pointers[folds[run.run.trace.task]] for run in runs]


def _bare(agent: str) -> str:
    return re.sub(r"\s+\([^()]*\)$", "", agent).casefold()
