"""What the network is taught: targets of a batch, and losses, supervised and contrastive.

Dims: B runs, S steps of the longest, K modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from blamespan_lab.train.network.batches import PaddedBatch, split_by_size
from blamespan_lab.train.network.examples import SOMEWHERE, SOUND, UNKNOWN, NetworkExample
from blamespan_tracer.alternatives.network.model import Scores

__all__ = ["Targets", "batches", "contrastive_loss", "supervised_losses", "targets_of"]


@dataclass(frozen=True, slots=True)
class Targets:
    """What B runs teach.

    Attributes:
        pointer: (B,) int64 the decisive step, S for a sound run, -100 where unknown.
        fault: (B, S) 0, 1 or NaN.
        modes: (B, S, K).
        culprit: (B, S) 1 on the steps of agents labelled at fault, 0 on other agents', NaN where no agent is labelled.
        agent_modes: (B, S, K) on these steps the modes of their agent.
        somewhere: (B,) bool, where a run failed and nobody knows by whom.
    """

    pointer: Tensor
    fault: Tensor
    modes: Tensor
    culprit: Tensor
    agent_modes: Tensor
    somewhere: Tensor


def batches(
    examples: Sequence[NetworkExample], rng: np.random.Generator, most_runs: int
) -> Iterator[list[NetworkExample]]:
    """Put runs of like length together, twins side by side, in random order."""
    order = sorted(
        range(len(examples)),
        key=lambda row: (len(examples[row].inputs) + rng.random() * 3, examples[row].twin or examples[row].trace_id),
    )
    parts = list(split_by_size(order, [len(example.inputs) for example in examples], most_runs))
    for number in rng.permutation(len(parts)):
        yield [examples[row] for row in parts[number]]


def targets_of(examples: Sequence[NetworkExample]) -> Targets:
    """Put what the runs teach side by side, as `pad` does."""
    longest = max(len(example.inputs) for example in examples)
    n_modes = examples[0].modes.shape[1]
    pointer = np.full(len(examples), -100, np.int64)
    fault = np.full((len(examples), longest), np.nan, np.float32)
    modes = np.zeros((*fault.shape, n_modes), np.float32)
    culprit = np.full_like(fault, np.nan)
    agent_modes = np.zeros_like(modes)
    for row, example in enumerate(examples):
        n_steps = len(example.inputs)
        if example.decisive not in (UNKNOWN, SOMEWHERE):
            pointer[row] = longest if example.decisive == SOUND else example.decisive
        fault[row, :n_steps] = np.where(example.inputs.can_be_blamed, example.fault, np.nan)
        modes[row, :n_steps] = example.modes
        if example.culprits:
            _mark(example, culprit[row], agent_modes[row])
    somewhere = np.array([example.decisive == SOMEWHERE for example in examples])
    arrays = (pointer, fault, modes, culprit, agent_modes, somewhere)
    return Targets(*map(torch.from_numpy, arrays))


def _mark(example: NetworkExample, culprit: NDArray[np.float32], modes: NDArray[np.float32]) -> None:
    for step, agent in enumerate(example.inputs.agent.tolist()):
        if example.inputs.can_be_blamed[step]:
            culprit[step] = agent in example.culprits
            modes[step, list(example.culprits.get(agent, ()))] = 1


_UNKNOWN = -100
"""Pointer target of runs whose decisive step nobody knows."""


def supervised_losses(scores: Scores, targets: Targets, padded: PaddedBatch, *, sigma: float) -> dict[str, Tensor]:
    """Compute each loss, averaged over what it applies to; 0 where it applies to nothing.

    - pointer: cross-entropy to the decisive step, smeared over its neighbours by a Gaussian of *sigma* steps.
    - agent: that of the pointer's mass on the decisive step's agent; where only agents
      are labelled, on any of these; where only the failure is known, on any step.
    - fault, modes: binary cross-entropy per step, for modes on faulty steps alone.
    - mode: on faulty steps, cross-entropy to any of the labelled modes, of which one is said.
    - culprit: where only agents are labelled, that of the chance that any of an agent's steps is wrong.
    """
    log_shares = torch.log_softmax(scores.pointer, dim=1)  # (B, S + 1)
    is_known = targets.pointer != _UNKNOWN
    return {
        "pointer": _pointer(log_shares, targets.pointer, padded, is_known, sigma),
        "agent": _agent(log_shares, targets, padded),
        "fault": _fault(scores.fault, targets.fault),
        "modes": _modes(scores.modes, targets),
        "mode": _mode(scores.modes, targets),
        "culprit": _culprit(scores, targets, padded),
    }


def contrastive_loss(scores: Scores, examples: Sequence[NetworkExample], margin: float) -> Tensor:
    """Hold a faulty step above the same step of its clean twin, where both are in the batch.

    Up to the fault both runs are the same, so the steps correspond by place.
    """
    rows = {example.trace_id: row for row, example in enumerate(examples)}
    pairs = [
        (row, rows[example.twin], example.decisive)
        for row, example in enumerate(examples)
        if example.decisive >= 0
        and example.twin in rows
        and example.decisive < len(examples[rows[example.twin]].inputs)
    ]
    if not pairs:
        return torch.zeros((), device=scores.fault.device)
    faulty, clean, step = torch.tensor(pairs, device=scores.fault.device).T
    return functional.softplus(margin - (scores.fault[faulty, step] - scores.fault[clean, step])).mean()


def _pointer(log_shares: Tensor, gold: Tensor, padded: PaddedBatch, is_known: Tensor, sigma: float) -> Tensor:
    steps = log_shares.shape[1] - 1
    indices = torch.arange(steps + 1, device=gold.device)
    kernel = torch.exp(-((indices[None, :] - gold[:, None]).float() ** 2) / (2 * max(sigma, 1e-3) ** 2))
    allowed = functional.pad(padded.can_be_blamed, (0, 1), value=False)
    kernel = torch.where(allowed, kernel, 0.0)
    sharp = (indices[None, :] == gold[:, None]).float()
    smeared = torch.where((gold == steps)[:, None], sharp, kernel)
    smeared = torch.where(smeared.sum(dim=1, keepdim=True) > 0, smeared, sharp)
    smeared = smeared / smeared.sum(dim=1, keepdim=True).clamp(min=1e-9)
    losses = -(smeared * log_shares.clamp(min=-1e4)).sum(dim=1)
    return (losses * is_known).sum() / is_known.sum().clamp(min=1)


def _agent(log_shares: Tensor, targets: Targets, padded: PaddedBatch) -> Tensor:
    steps = padded.agent.shape[1]
    gold = targets.pointer
    points_at_step = (gold != _UNKNOWN) & (gold < steps)
    owner = padded.agent.gather(1, gold.clamp(0, steps - 1)[:, None])
    may_be = (targets.culprit == 1) | targets.somewhere[:, None]
    right = torch.where(points_at_step[:, None], padded.agent == owner, may_be) & padded.can_be_blamed
    is_failure = right.any(dim=1)
    mass = torch.logsumexp(log_shares[:, :-1].masked_fill(~right, -1e4), dim=1)
    return -(mass * is_failure).sum() / is_failure.sum().clamp(min=1)


def _fault(logits: Tensor, fault: Tensor) -> Tensor:
    is_known = ~fault.isnan()
    losses = functional.binary_cross_entropy_with_logits(logits, fault.nan_to_num(), reduction="none")
    return (losses * is_known).sum() / is_known.sum().clamp(min=1)


def _modes(logits: Tensor, targets: Targets) -> Tensor:
    is_wrong = (targets.modes.sum(dim=-1) > 0).float()
    losses = functional.binary_cross_entropy_with_logits(logits, targets.modes, reduction="none").sum(dim=-1)
    return (losses * is_wrong).sum() / is_wrong.sum().clamp(min=1)


def _mode(logits: Tensor, targets: Targets) -> Tensor:
    is_labelled = targets.modes > 0
    log_shares = torch.log_softmax(logits, dim=-1)
    right = torch.logsumexp(log_shares.masked_fill(~is_labelled, -1e4), dim=-1)
    is_wrong = is_labelled.any(dim=-1)
    return -(right * is_wrong).sum() / is_wrong.sum().clamp(min=1)


def _culprit(scores: Scores, targets: Targets, padded: PaddedBatch) -> Tensor:
    """Learn from agents' labels: an agent is at fault if any of its steps is, with a mode if any is with that mode."""
    is_known = ~targets.culprit.isnan()
    if not is_known.any():
        return torch.zeros((), device=scores.fault.device)
    chance = torch.sigmoid(scores.fault) * is_known  # (B, S)
    with_mode = chance[..., None] * torch.sigmoid(scores.modes)
    n_agents = int(padded.agent.max()) + 1
    losses = []
    for agent in range(n_agents):
        own = (padded.agent == agent) & is_known
        is_there = own.any(dim=1)
        if not is_there.any():
            continue
        label = torch.where(own, targets.culprit, 0.0).amax(dim=1)
        modes = torch.where(own[..., None], targets.agent_modes, 0.0).amax(dim=1)
        at_fault = 1 - torch.prod(torch.where(own, 1 - chance, 1.0), dim=1)
        with_modes = 1 - torch.prod(torch.where(own[..., None], 1 - with_mode, 1.0), dim=1)
        loss = functional.binary_cross_entropy(at_fault.clamp(1e-5, 1 - 1e-5), label, reduction="none")
        loss = loss + functional.binary_cross_entropy(with_modes.clamp(1e-5, 1 - 1e-5), modes, reduction="none").sum(
            dim=-1
        )
        losses.append(loss[is_there])
    return torch.cat(losses).mean()
