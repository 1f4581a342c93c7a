"""An encoder over turns with heads for agents, errors and their pairs, and the losses they learn by.

Dims: N turns of a batch, A agents, B runs, K modes, L tokens, D features.

Source: AEGIS (arXiv 2509.14295), DCL. We differ where it ties agents to a bank of known names, which no other team has:
an agent is what it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["ContrastiveModel", "Guess", "LossWeights", "asymmetric_loss", "contrast_loss", "hierarchy_loss"]

_FEATURES = 128
_RANK = 64
_EVIDENCE = 3
"""Turns that an agent, or a run, is judged by: those attended to most."""

_NEGATIVE_FOCUS = 4.0
_MARGIN = 0.05
"""Of the asymmetric loss, as its authors give them (arXiv 2009.14119)."""

_TINY = 1e-7


@dataclass(frozen=True, slots=True)
class Guess:
    """What the model thinks.

    Attributes:
        agents: (A,) chance that each erred.
        modes: (B, K) chance of each error in each run.
        pairs: (A, K) chance that this agent made this error.
        weights: (A, most turns) how much each of its turns speaks for that; each row adds up to 1.
    """

    agents: Tensor
    modes: Tensor
    pairs: Tensor
    weights: Tensor


@dataclass(frozen=True, slots=True)
class LossWeights:
    """How the parts of the loss are weighed; the defaults are those of the paper.

    Attributes:
        contrast: Weight of the contrastive loss, and
        hierarchy: of the loss for pairs that are likelier than their agent or their error.
        temperature: Of the contrast.
    """

    contrast: float = 0.4
    hierarchy: float = 0.6
    temperature: float = 0.07


class ContrastiveModel(nn.Module):
    """Encoder, attention over turns, prototypes of the errors, and heads.

    Args:
        encoder: Of Hugging Face; its last hidden states are averaged.
        n_modes: K.
        loss: Weights of the losses.
    """

    def __init__(self, encoder: Any, n_modes: int, loss: LossWeights | None = None) -> None:
        super().__init__()
        self.encoder = encoder
        self._loss = loss or LossWeights()
        self.project = nn.Linear(encoder.config.hidden_size, _FEATURES)
        self.attend = nn.Linear(_FEATURES, 1)
        self.erred = nn.Linear(_FEATURES, 1)
        self.prototypes = nn.Parameter(torch.randn(n_modes, _FEATURES) / _FEATURES**0.5)
        self.scale = nn.Parameter(torch.tensor(10.0))
        self.bias = nn.Parameter(torch.full((n_modes,), -2.0))
        self.left = nn.Linear(_FEATURES, _RANK, bias=False)
        self.right = nn.Linear(_FEATURES, _RANK, bias=False)

    def encode(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Encode turns as unit vectors, (N, D)."""
        states = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask[..., None].to(states.dtype)
        mean = (states * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)
        return nn.functional.normalize(self.project(mean), dim=-1)

    @torch.no_grad()
    def begin_at(self, input_ids: Tensor, attention_mask: Tensor) -> None:
        """Set the prototypes to what the encoder makes of the (K) definitions of the errors."""
        self.prototypes.copy_(self.encode(input_ids, attention_mask))

    def guess(self, turns: Tensor, of_agent: Tensor, of_run: Tensor, run_of_agent: Tensor) -> Guess:
        """Judge agents, runs and pairs by the (N, D) encoded turns."""
        by_agent, weights = self._pooled(turns, of_agent)
        by_run, _ = self._pooled(turns, of_run)
        prototypes = nn.functional.normalize(self.prototypes, dim=-1)
        agents = self.erred(by_agent)[:, 0].sigmoid()
        modes = (self.scale * by_run @ prototypes.T + self.bias).sigmoid()
        match = (self.scale * by_agent @ prototypes.T + self.bias).sigmoid()
        gated = match * agents[:, None] * modes[run_of_agent]
        bilinear = (self.left(by_agent) @ self.right(prototypes).T + self.bias).sigmoid()
        return Guess(agents, modes, (gated + bilinear) / 2, weights)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor,
        of_agent: Tensor,
        of_run: Tensor,
        run_of_agent: Tensor,
        agents: Tensor,
        modes: Tensor,
        pairs: Tensor,
        anchors: Tensor,
        twins: Tensor,
        **_: Any,
    ) -> dict[str, Tensor]:
        """Give the loss of a batch; see `blamespan_tracer.causal.contrastive.turns.collate`."""
        turns = self.encode(input_ids, attention_mask)
        found = self.guess(turns, of_agent, of_run, run_of_agent)
        classes = (
            asymmetric_loss(found.agents, agents)
            + asymmetric_loss(found.modes, modes)
            + asymmetric_loss(found.pairs, pairs)
        )
        prototypes = nn.functional.normalize(self.prototypes, dim=-1)
        chosen = found.weights.masked_fill(~anchors, -1.0).argmax(dim=1)  # (A,) the turn that speaks most
        guilty = anchors.any(dim=1)
        places = of_agent.gather(1, chosen[:, None])[guilty, 0]
        contrast = contrast_loss(turns, prototypes, places, pairs[guilty], twins, self._loss.temperature)
        hierarchy = hierarchy_loss(found.pairs, found.agents, found.modes[run_of_agent])
        return {"loss": classes + self._loss.contrast * contrast + self._loss.hierarchy * hierarchy}

    def _pooled(self, turns: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Average each row's turns by the attention they get, the best of them only."""
        each = turns[places.clamp(min=0)]  # (R, T, D)
        logits = self.attend(each)[..., 0].masked_fill(places < 0, -torch.inf)
        least = logits.topk(min(_EVIDENCE, logits.shape[1]), dim=1).values.amin(dim=1, keepdim=True)
        weights = logits.masked_fill(logits < least, -torch.inf).softmax(dim=1)
        return (weights[..., None] * each).sum(dim=1), weights


def asymmetric_loss(chances: Tensor, labels: Tensor) -> Tensor:
    """Weigh easy negatives down: the mean of -y log p - (1 - y) q^4 log(1 - q), with q = max(p - 0.05, 0)."""
    shifted = (chances - _MARGIN).clamp(min=0)
    right = labels * chances.clamp(min=_TINY).log()
    wrong = (1 - labels) * shifted**_NEGATIVE_FOCUS * (1 - shifted).clamp(min=_TINY).log()
    return -(right + wrong).mean()


def contrast_loss(
    turns: Tensor, prototypes: Tensor, anchors: Tensor, modes: Tensor, twins: Tensor, temperature: float
) -> Tensor:
    """Pull wrong turns to the prototypes of their errors and to the same turn of the clean twin, away from all others.

    Args:
        turns: (N, D) unit vectors.
        prototypes: (K, D) unit vectors.
        anchors: (M,) places of wrong turns.
        modes: (M, K) their errors, 0 or 1.
        twins: (N,) place of each turn's twin, -1 for none.
        temperature: Of the softmax.

    Source: supervised contrastive learning (arXiv 2004.11362), the sum over positives outside the logarithm.
    """
    if not len(anchors):
        return turns.sum() * 0.0
    others = torch.cat([turns, prototypes])  # (N + K, D)
    logits = turns[anchors] @ others.T / temperature
    itself = torch.zeros_like(logits, dtype=torch.bool).scatter_(1, anchors[:, None], value=True)
    chances = logits.masked_fill(itself, -torch.inf).log_softmax(dim=1).masked_fill(itself, 0.0)
    places = torch.arange(len(turns), device=turns.device)
    is_twin = (places == twins[anchors][:, None]).to(chances.dtype)
    positive = torch.cat([is_twin, modes.to(chances.dtype)], dim=1)
    return -((chances * positive).sum(dim=1) / positive.sum(dim=1).clamp(min=1)).mean()


def hierarchy_loss(pairs: Tensor, agents: Tensor, modes: Tensor) -> Tensor:
    """Punish pairs that are likelier than their agent or their error: the mean square of what is too much.

    Args:
        pairs: (A, K).
        agents: (A,).
        modes: (A, K) those of each agent's run.
    """
    return (pairs - torch.minimum(agents[:, None], modes)).clamp(min=0).square().mean()
