"""Fit the second judge: to transcripts whose decisive step is labelled, and the gate to how runs read.

Every figure of it, its temperature and its step sets are cross-validated: each team's runs are judged by weights that
were fitted to the transcripts of the other teams.

Dims: B runs, S steps of the longest, N steps of a run, C features that are read, K modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from blamespan_tracer.network.calibrating import Pointed, mass_for, temperature_of
from blamespan_tracer.network.examples import Example
from blamespan_tracer.network.prose import ProseJudge, columns_read, manner_of, with_neighbours

__all__ = ["Apart", "fit_prose", "tuned_prose"]

_POINTER_PENALTY, _MODES_PENALTY, _GATE_PENALTY = 0.2, 0.1, 1e-3
"""L2 penalties, chosen among 0.1 to 1, 0.003 to 0.1 and 0.0003 to 0.003 on transcripts of teams left out."""

_ITERATIONS = 200
_NEVER = -1e9
_NOBODY = np.full(1, -1e9)
"""Stands for the slot "it did not fail", which this judge does not have."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Apart:
    """What is said of a failed transcript by weights that have seen none of its team.

    Attributes:
        example: The run.
        pointed: The scores of its steps, divided by the temperature, and the decisive one.
        modes: (K,) scores of the modes, of the decisive step.
    """

    example: Example
    pointed: Pointed
    modes: Floats


def fit_prose(
    transcripts: Sequence[Example],
    written: Sequence[Sequence[Example]],
    simulated: Sequence[Sequence[Example]],
    features: tuple[str, ...],
    coverage: float,
) -> tuple[ProseJudge, list[Apart]]:
    """Fit the judge and its gate.

    Args:
        transcripts: Labelled runs, their features scaled.
        written: Further runs that language models wrote, by where they come from.
        simulated: Runs that the network learnt steps from, likewise.
        features: What each feature means.
        coverage: Percent of failures whose decisive step a step set is to hold.

    Returns:
        The judge, and what is said of the transcripts that failed, each team's by weights that have not seen it.
    """
    torch.set_num_threads(1)
    columns = columns_read(features)
    failed = [each for each in transcripts if each.decisive >= 0]
    apart = _judged_apart(failed, columns)
    temperature = temperature_of([each.pointed for each in apart])
    apart = [replace(each, pointed=replace(each.pointed, scores=each.pointed.scores / temperature)) for each in apart]
    pointer, (modes, bias) = _pointer(failed, columns), _modes(failed, columns)
    gate, gate_bias = _gate((transcripts, *written), simulated, columns)
    mass = mass_for([each.pointed for each in apart], 1.0, coverage)
    return (
        ProseJudge(
            columns,
            pointer / np.float32(temperature),
            modes,
            bias,
            gate,
            gate_bias,
            np.array([mass], np.float32),
        ),
        apart,
    )


def _judged_apart(failed: Sequence[Example], columns: NDArray[np.int64]) -> list[Apart]:
    """Judge each team's runs by weights fitted to those of the others; of one team alone, each task's."""
    by_team = len({each.origin for each in failed}) > 1
    groups = [each.origin if by_team else each.group for each in failed]
    found: dict[int, Apart] = {}
    for group in dict.fromkeys(groups):
        rest = [each for each, other in zip(failed, groups, strict=True) if other != group] or failed
        pointer, (modes, bias) = _pointer(rest, columns), _modes(rest, columns)
        for place, (each, own) in enumerate(zip(failed, groups, strict=True)):
            if own == group:
                inputs = with_neighbours(each.inputs.features[:, columns])
                scores = np.where(each.inputs.can_be_blamed, inputs @ pointer, _NEVER).astype(np.float64)
                pointed = Pointed(np.concatenate([scores, _NOBODY]), each.decisive)
                found[place] = Apart(each, pointed, inputs[each.decisive] @ modes + bias)
    return [found[place] for place in range(len(failed))]


def tuned_prose(judge: ProseJudge, failed: Sequence[Example]) -> ProseJudge:
    """Fit what makes a step decisive to further runs, near to what it was; the rest stays."""
    return replace(judge, pointer=_pointer(failed, judge.columns, judge.pointer)) if failed else judge


def _pointer(failed: Sequence[Example], columns: NDArray[np.int64], near: Floats | None = None) -> Floats:
    """Fit what makes a step the decisive one of its run, near to some weights or to none at all."""
    inputs = [with_neighbours(each.inputs.features[:, columns]) for each in failed]
    longest = max(map(len, inputs))
    steps = torch.zeros(len(failed), longest, inputs[0].shape[1], dtype=torch.float64)
    allowed = torch.full((len(failed), longest), _NEVER, dtype=torch.float64)
    for row, (each, values) in enumerate(zip(failed, inputs, strict=True)):
        steps[row, : len(values)] = torch.from_numpy(values)
        allowed[row, : len(values)][torch.from_numpy(each.inputs.can_be_blamed)] = 0.0
    gold = torch.tensor([each.decisive for each in failed])
    base = torch.zeros(steps.shape[2]).double() if near is None else torch.from_numpy(near).double()
    (moved,) = _minimum(
        lambda moved: functional.cross_entropy(steps @ (base + moved) + allowed, gold),
        [torch.zeros(steps.shape[2], dtype=torch.float64)],
        _POINTER_PENALTY,
    )
    return base.float().numpy() + moved


def _modes(failed: Sequence[Example], columns: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Fit what tells the modes of decisive steps apart; runs without a known mode teach nothing."""
    inputs = np.stack([with_neighbours(each.inputs.features[:, columns])[each.decisive] for each in failed])
    labels = torch.from_numpy(np.stack([each.modes[each.decisive] for each in failed])) > 0
    known = labels.any(dim=1)
    steps, labels = torch.from_numpy(inputs).double()[known], labels[known]

    def loss(weights: Tensor, bias: Tensor) -> Tensor:
        shares = torch.log_softmax(steps @ weights + bias, dim=1)
        return -torch.logsumexp(shares.masked_fill(~labels, _NEVER), dim=1).mean()

    n_modes = labels.shape[1]
    start = [torch.zeros(steps.shape[1], n_modes, dtype=torch.float64), torch.zeros(n_modes, dtype=torch.float64)]
    weights, bias = _minimum(loss, start, _MODES_PENALTY) if len(steps) else [each.float().numpy() for each in start]
    return weights, bias


def _gate(
    written: Sequence[Sequence[Example]], simulated: Sequence[Sequence[Example]], columns: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Fit what tells simulated runs from those that language models wrote; every source counts alike on its side."""
    manners, sides, counts = [], [], []
    for is_simulated, sources in ((0.0, written), (1.0, simulated)):
        known = [source for source in sources if source]
        for source in known:
            manners += [manner_of(each.inputs.features[:, columns]) for each in source]
            sides += [is_simulated] * len(source)
            counts += [0.5 / len(known) / len(source)] * len(source)
    runs = torch.from_numpy(np.stack(manners)).double()
    side, count = (torch.tensor(each, dtype=torch.float64) for each in (sides, counts))

    def loss(weights: Tensor, bias: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(runs @ weights + bias, side, weight=count, reduction="sum")

    start = [torch.zeros(runs.shape[1], dtype=torch.float64), torch.zeros(1, dtype=torch.float64)]
    weights, bias = _minimum(loss, start, _GATE_PENALTY)
    return weights, bias


def _minimum(loss: Callable[..., Tensor], start: Sequence[Tensor], penalty: float) -> list[Floats]:
    """Minimise *loss* of some weights and *penalty* times the square of the first of them."""
    weights = [each.requires_grad_() for each in start]
    optimizer = torch.optim.LBFGS(weights, max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def evaluated() -> Tensor:
        optimizer.zero_grad()
        total = loss(*weights) + penalty * (weights[0] ** 2).sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(evaluated)  # type: ignore[no-untyped-call]
    return [each.detach().float().numpy() for each in weights]
