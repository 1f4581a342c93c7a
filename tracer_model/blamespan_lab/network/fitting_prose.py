"""Fit the second judge: to transcripts whose decisive step is labelled, and the gate to how runs read.

Every figure of it, its temperature and its step sets are cross-validated: each team's runs are judged by weights that
were fitted to transcripts of other teams.

Dims: B runs, S steps of the longest, N steps of a run, W ways to read features (see `prose_expert`), K modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from blamespan_lab.network.calibrating import Pointed, mass_for, temperature_of
from blamespan_lab.network.examples import NetworkExample
from blamespan_tracer.alternatives.network.prose_expert import (
    ProseExpert,
    contextual_features,
    expert_columns,
    gate_features,
)

__all__ = ["Apart", "fit_prose"]

_POINTER_PENALTY, _MODES_PENALTY, _GATE_PENALTY = 0.06, 0.1, 1e-3
"""L2 penalties, chosen among 0.03 to 0.4, 0.003 to 0.1 and 0.0003 to 0.003 on transcripts of teams left out."""

_FOLDS = 12
"""Teams are left out by so many parts at most."""

_ITERATIONS = 200
_NEVER = -1e9
_NOBODY = np.full(1, -1e9)
"""Stands for the slot "it did not fail", which this judge does not have."""

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _FailedProse:
    """A failed run as the judge reads it: `inputs` (N, W)."""

    example: NetworkExample
    inputs: Floats


@dataclass(frozen=True, slots=True)
class Apart:
    """What is said of a failed transcript by weights that have seen none of its team.

    Attributes:
        example: The run.
        pointed: The scores of its steps, divided by the temperature, and the decisive one.
        modes: (K,) scores of the modes, of the decisive step.
    """

    example: NetworkExample
    pointed: Pointed
    modes: Floats


def fit_prose(
    transcripts: Sequence[Sequence[NetworkExample]],
    written: Sequence[Sequence[NetworkExample]],
    simulated: Sequence[Sequence[NetworkExample]],
    features: tuple[str, ...],
    coverage: float,
) -> tuple[ProseExpert, list[list[Apart]]]:
    """Fit the judge and its gate.

    Args:
        transcripts: Labelled runs, their features scaled; the same ones in several forms, of which each counts alike.
        written: Further runs that language models wrote, by where they come from.
        simulated: Runs that the network learnt steps from, likewise.
        features: What each feature means.
        coverage: Percent of failures whose decisive step a step set is to hold.

    Returns:
        The judge, and per form what is said of the transcripts that failed, each team's by weights that have not seen
        it.
    """
    torch.set_num_threads(1)
    columns = expert_columns(features)
    forms = [_failures(form, columns) for form in transcripts]
    failures = [judged for form in forms for judged in form]
    apart = _judge_apart(failures)
    temperature = temperature_of([judged.pointed for judged in apart])
    apart = [
        replace(judged, pointed=replace(judged.pointed, scores=judged.pointed.scores / temperature)) for judged in apart
    ]
    modes, modes_bias = _modes(failures)
    gate, gate_bias = _gate((*transcripts, *written), simulated, columns)
    mass = mass_for([judged.pointed for judged in apart], 1.0, coverage)
    judge = ProseExpert(
        columns=columns,
        pointer=_pointer(failures) / np.float32(temperature),
        modes=modes,
        modes_bias=modes_bias,
        gate=gate,
        gate_bias=gate_bias,
        set_mass=np.array([mass], np.float32),
    )
    in_order = iter(apart)
    return judge, [list(islice(in_order, len(form))) for form in forms]


def _failures(runs: Sequence[NetworkExample], columns: Ints) -> list[_FailedProse]:
    return [
        _FailedProse(example, contextual_features(example.inputs, columns)) for example in runs if example.decisive >= 0
    ]


def _judge_apart(failures: Sequence[_FailedProse]) -> list[Apart]:
    """Judge each team's runs by weights fitted to those of others; of one team alone, each task's."""
    by_team = len({failure.example.origin for failure in failures}) > 1
    groups = [failure.example.origin if by_team else failure.example.group for failure in failures]
    fold = {group: index % _FOLDS for index, group in enumerate(dict.fromkeys(groups))}
    judged: dict[int, Apart] = {}
    for number in range(min(_FOLDS, len(fold))):
        rest = [failure for failure, group in zip(failures, groups, strict=True) if fold[group] != number] or failures
        pointer, (modes, bias) = _pointer(rest), _modes(rest)
        for row, (failure, group) in enumerate(zip(failures, groups, strict=True)):
            if fold[group] == number:
                example = failure.example
                scores = np.where(example.inputs.can_be_blamed, failure.inputs @ pointer, _NEVER).astype(np.float64)
                pointed = Pointed(np.concatenate([scores, _NOBODY]), example.decisive)
                judged[row] = Apart(example, pointed, failure.inputs[example.decisive] @ modes + bias)
    return [judged[row] for row in range(len(failures))]


def _pointer(failures: Sequence[_FailedProse]) -> Floats:
    """Fit what makes a step the decisive one of its run."""
    can_be_blamed = [np.flatnonzero(failure.example.inputs.can_be_blamed) for failure in failures]
    steps = torch.from_numpy(np.concatenate([failure.inputs for failure in failures])).double()
    begins = np.cumsum([0, *(len(failure.inputs) for failure in failures)])
    flat = torch.from_numpy(np.concatenate([begin + at for begin, at in zip(begins, can_be_blamed, strict=False)]))
    row = torch.from_numpy(np.repeat(np.arange(len(failures)), [len(at) for at in can_be_blamed]))
    column = torch.from_numpy(np.concatenate(can_be_blamed))
    nobody = torch.full((len(failures), int(column.max()) + 1), _NEVER, dtype=torch.float64)  # (B, S)
    gold = torch.tensor([failure.example.decisive for failure in failures])

    def loss(pointer: Tensor) -> Tensor:
        return functional.cross_entropy(nobody.index_put((row, column), (steps @ pointer)[flat]), gold)

    (pointer,) = _minimize(loss, [torch.zeros(steps.shape[1], dtype=torch.float64)], _POINTER_PENALTY)
    return pointer


def _modes(failures: Sequence[_FailedProse]) -> tuple[Floats, Floats]:
    """Fit what tells the modes of decisive steps apart; runs without a known mode teach nothing."""
    inputs = np.stack([failure.inputs[failure.example.decisive] for failure in failures])
    labels = torch.from_numpy(np.stack([failure.example.modes[failure.example.decisive] for failure in failures])) > 0
    has_mode = labels.any(dim=1)
    steps, labels = torch.from_numpy(inputs).double()[has_mode], labels[has_mode]

    def loss(weights: Tensor, bias: Tensor) -> Tensor:
        shares = torch.log_softmax(steps @ weights + bias, dim=1)
        return -torch.logsumexp(shares.masked_fill(~labels, _NEVER), dim=1).mean()

    n_modes = labels.shape[1]
    start = [torch.zeros(steps.shape[1], n_modes, dtype=torch.float64), torch.zeros(n_modes, dtype=torch.float64)]
    weights, bias = (
        _minimize(loss, start, _MODES_PENALTY) if len(steps) else [failure.float().numpy() for failure in start]
    )
    return weights, bias


def _gate(
    written: Sequence[Sequence[NetworkExample]], simulated: Sequence[Sequence[NetworkExample]], columns: Ints
) -> tuple[Floats, Floats]:
    """Fit what tells simulated runs from those that language models wrote; every source counts alike on its side."""
    manners, sides, counts = [], [], []
    for is_simulated, sources in ((0.0, written), (1.0, simulated)):
        filled = [source for source in sources if source]
        for source in filled:
            manners += [gate_features(values.inputs.features[:, columns]) for values in source]
            sides += [is_simulated] * len(source)
            counts += [0.5 / len(filled) / len(source)] * len(source)
    runs = torch.from_numpy(np.stack(manners)).double()
    side, count = (torch.tensor(values, dtype=torch.float64) for values in (sides, counts))

    def loss(weights: Tensor, bias: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(runs @ weights + bias, side, weight=count, reduction="sum")

    start = [torch.zeros(runs.shape[1], dtype=torch.float64), torch.zeros(1, dtype=torch.float64)]
    weights, bias = _minimize(loss, start, _GATE_PENALTY)
    return weights, bias


def _minimize(loss: Callable[..., Tensor], start: Sequence[Tensor], penalty: float) -> list[Floats]:
    """Minimise *loss* of some weights and *penalty* times the square of the first of them."""
    weights = [tensor.requires_grad_() for tensor in start]
    optimizer = torch.optim.LBFGS(weights, max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def evaluate() -> Tensor:
        optimizer.zero_grad()
        total = loss(*weights) + penalty * (weights[0] ** 2).sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(evaluate)  # type: ignore[no-untyped-call]
    return [tensor.detach().float().numpy() for tensor in weights]
