"""What the evidence pointer is asked for while it is fitted: three paradigms on one base.

- supervised: the edited run points at its edit, its untouched and decoy runs at "nothing is wrong" (cross entropy).
- contrastive: the edited step stands above every step of the same pair: the run's other steps, all steps of its
  untouched twin and of its decoy, and "nothing is wrong" (InfoNCE).
- reward: AgenTracer's reward, half for the distance to the step and half for the agent, as a policy gradient without a
  KL term and with a clip that tightens. The first half of training is supervised: a policy that never points at the
  right step earns nothing there and learns nothing.

Dims: T steps of a run; the last of T + 1 options is "nothing is wrong".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

__all__ = ["OBJECTIVES", "UPDATES_PER_BATCH", "Options", "Paradigm", "expected_reward"]

Paradigm: TypeAlias = Literal["supervised", "contrastive", "reward"]
"""What a pointer is asked for."""

_FIRST_CLIP = 0.2
"""How far probabilities may move in one update at first."""

_LEAST_CLIP = 0.2
"""Share of the first clip that stays until the end."""


_SUPERVISED_PART = 0.5
"""Part of training by reward that is supervised, as AgenTracer begins with a model that answers already."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a pointer may point at in one run.

    Attributes:
        scores: (T + 1,) of the steps, and of "nothing is wrong".
        step: The edited step; None for a sound run.
        is_of_agent: (T,) which steps the agent of the edited step took.
        policy_before: (T + 1,) probabilities before the first update by this batch; None at the first.
    """

    scores: Tensor
    step: int | None
    is_of_agent: Tensor
    policy_before: Tensor | None = None


Objective: TypeAlias = Callable[[Sequence[Sequence[Options]], float], Tensor]
"""Takes the runs of some pairs, the edited one first, and how much of training is over, 0..1; returns the loss."""


def _supervised_loss(pairs: Sequence[Sequence[Options]], progress: float) -> Tensor:
    del progress
    return torch.stack(
        [-torch.log_softmax(run.scores, 0)[-1 if run.step is None else run.step] for pair in pairs for run in pair]
    ).mean()


def _contrastive_loss(pairs: Sequence[Sequence[Options]], progress: float) -> Tensor:
    """Return InfoNCE over the steps of a pair, each score counted from its own run's "nothing is wrong".

    Source: van den Oord et al., arXiv 1807.03748, equation 4. We differ: the negatives are the twin's steps, which
    stand in the same places and say the same but for the edit.
    """
    del progress
    losses = []
    for pair in pairs:
        edited = pair[0]
        assert edited.step is not None, "the edited run comes first"
        above_nothing = [run.scores - run.scores[-1] for run in pair]
        candidates = torch.cat([*(scores[:-1] for scores in above_nothing), above_nothing[0][-1:]])
        losses.append(torch.logsumexp(candidates, 0) - above_nothing[0][edited.step])
    return torch.stack(losses).mean()


def _reward_loss(pairs: Sequence[Sequence[Options]], progress: float) -> Tensor:
    """Return the clipped policy-gradient loss, its expectation taken over every option in place of samples.

    Source: AgenTracer, arXiv 2509.03312: GRPO without a KL term, the clip at update s of S is
    max(0.2 B, B (1 - s/S)). We differ: a pointer has few options, so that nothing is sampled and the mean reward of the
    policy is the baseline.
    """
    if progress < _SUPERVISED_PART:
        return _supervised_loss(pairs, progress)
    tightening = (1.0 - progress) / (1.0 - _SUPERVISED_PART)
    clip = _FIRST_CLIP * max(_LEAST_CLIP, tightening)
    losses = []
    for run in (run for pair in pairs for run in pair):
        policy = torch.softmax(run.scores, 0)
        before = policy.detach() if run.policy_before is None else run.policy_before
        reward = _rewards(run)
        advantage = reward - (before * reward).sum()
        ratio = policy / before.clamp_min(1e-8)
        gain = torch.minimum(ratio * advantage, ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)
        losses.append(-(before * gain).sum())
    return torch.stack(losses).mean()


def expected_reward(run: Options) -> float:
    """Return the reward that a pointer earns in one run on average, 0..1."""
    return float((torch.softmax(run.scores.detach(), 0) * _rewards(run)).sum())


def _rewards(run: Options) -> Tensor:
    """Return the (T + 1,) rewards of the options: 0.5 exp(-d^2 / 2) for the distance d, and 0.5 for the agent."""
    rewards = torch.zeros_like(run.scores)
    if run.step is None:
        rewards[-1] = 1.0
        return rewards
    distance = torch.arange(len(run.scores) - 1) - run.step
    rewards[:-1] = 0.5 * torch.exp(-0.5 * distance.float() ** 2) + 0.5 * run.is_of_agent.float()
    return rewards


OBJECTIVES: Mapping[Paradigm, Objective] = {
    "supervised": _supervised_loss,
    "contrastive": _contrastive_loss,
    "reward": _reward_loss,
}
"""The loss of each paradigm."""

UPDATES_PER_BATCH: Mapping[Paradigm, int] = {"supervised": 1, "contrastive": 1, "reward": 2}
"""How often each batch is learnt from in a row: a clip holds a policy against the one before, so it needs a second."""
