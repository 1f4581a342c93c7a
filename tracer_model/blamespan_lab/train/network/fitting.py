"""Train the weights of a network, by labels and against clean twins.

Dims: F features, R relations, D width, V words, M width of a meaning, E width of a word bag.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from blamespan_lab.train.network.batches import pad, split_by_size
from blamespan_lab.train.network.examples import NetworkExample
from blamespan_lab.train.network.objectives import batches, contrastive_loss, supervised_losses, targets_of
from blamespan_lab.train.network.recipe import Schedule
from blamespan_tracer.alternatives.network.model import Scores, Shape, forward

__all__ = ["fit_network", "initial_weights", "predict"]

_log = logging.getLogger(__name__)

_WORD = "word."
"""Begins the names of the weights that make the word table, and are gone when it is made."""

_MEANING_WIDTH = 128
"""Width of the layer between a word's meaning and its row of the word table."""


def initial_weights(shape: Shape, seed: int) -> dict[str, Tensor]:
    """Draw weights: matrices as wide as keeps the variance, outputs of layers small, norms 1, biases 0."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, size in shape.parameters().items():
        last = name.rpartition(".")[2]
        if last in ("bias", "shift") or last.endswith("_bias"):
            value = torch.zeros(size)
        elif last == "scale":
            value = torch.ones(size)
        else:
            spread = 0.05 if name == "embedding" else 1 / math.sqrt(size[0])
            if name.endswith((".attention.output", ".mlp.down")):
                spread /= math.sqrt(2 * shape.n_layers)
            value = torch.randn(size, generator=generator) * spread
        weights[name] = value.requires_grad_()
    return weights


def fit_network(
    examples: Sequence[NetworkExample], shape: Shape, schedule: Schedule, *, meanings: NDArray[np.float32], seed: int
) -> dict[str, Tensor]:
    """Train on runs whose features are scaled already, in one thread: the same bits each time, and faster.

    Args:
        examples: The runs.
        shape: The network's.
        schedule: How to train.
        meanings: (V, M) what each word means: the word table is what two layers make of it.
        seed: Chooses the first weights and every draw.
    """
    torch.set_num_threads(1)
    word_meanings = torch.from_numpy(meanings)
    weights = initial_weights(shape, seed)
    del weights["embedding"]
    weights |= _initial_words(meanings.shape[1], shape.bag_width, seed)
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    optimizer = _optimizer(weights, schedule)
    planned = [list(batches(examples, rng, schedule.most_runs)) for _ in range(schedule.epochs)]
    total, done = sum(map(len, planned)), 0
    for epoch, parts in enumerate(planned):
        sums: dict[str, float] = {}
        for part in parts:
            done += 1
            for group in optimizer.param_groups:
                group["lr"] = schedule.rate * _warm_cosine(done / total)
            losses = _losses_of_batch(part, weights, word_meanings, shape, schedule, generator)
            optimizer.zero_grad()
            sum(losses.values(), torch.zeros(())).backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
            optimizer.step()
            for name, loss in losses.items():
                sums[name] = sums.get(name, 0.0) + float(loss.detach()) / len(parts)
        shown = ", ".join(f"{name} {value:.3f}" for name, value in sums.items() if value)
        _log.info("pass %d of %d: %s", epoch + 1, schedule.epochs, shown)
    table = _word_table(weights, word_meanings)
    return {"embedding": table.detach()} | {
        name: value.detach() for name, value in weights.items() if not name.startswith(_WORD)
    }


def _initial_words(meaning: int, width: int, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed + 1)
    first = torch.randn((meaning, _MEANING_WIDTH), generator=generator) / math.sqrt(meaning)
    second = torch.randn((_MEANING_WIDTH, width), generator=generator) * (0.15 / math.sqrt(_MEANING_WIDTH))
    weights = {f"{_WORD}in": first, f"{_WORD}bias": torch.zeros(_MEANING_WIDTH), f"{_WORD}out": second}
    return {name: value.requires_grad_() for name, value in weights.items()}


def _word_table(weights: Mapping[str, Tensor], meanings: Tensor) -> Tensor:
    """Make the rows of the word table for words of these (V, M) meanings: (V, E)."""
    inner = functional.relu(meanings @ weights[f"{_WORD}in"] + weights[f"{_WORD}bias"])
    return inner @ weights[f"{_WORD}out"]


@torch.no_grad()
def predict(examples: Sequence[NetworkExample], weights: Mapping[str, Tensor], shape: Shape) -> list[Scores]:
    """Score runs; one entry per example, cut to its own steps."""
    predictions: dict[int, Scores] = {}
    sizes = [len(example.inputs) for example in examples]
    for rows in split_by_size(sorted(range(len(examples)), key=sizes.__getitem__), sizes, 32):
        scores = forward(weights, shape, pad([examples[row].inputs for row in rows]).steps(weights))
        for at, row in enumerate(rows):
            size = sizes[row]
            pointer = torch.cat([scores.pointer[at, :size], scores.pointer[at, -1:]])
            predictions[row] = Scores(pointer, scores.fault[at, :size], scores.modes[at, :size])
    return [predictions[row] for row in range(len(examples))]


def _losses_of_batch(
    part: Sequence[NetworkExample],
    weights: Mapping[str, Tensor],
    meanings: Tensor,
    shape: Shape,
    schedule: Schedule,
    generator: torch.Generator,
) -> dict[str, Tensor]:
    padded, targets = pad([example.inputs for example in part]), targets_of(part)
    runs, steps = padded.is_real.shape

    def draw_kept(share: float, *size: int) -> Tensor:
        return (torch.rand(size, generator=generator) < share).float()

    padded.features.mul_(draw_kept(1 - schedule.feature_dropout, runs, 1, padded.features.shape[2]))
    used, rows = torch.unique(padded.tokens, return_inverse=True)
    meant = meanings[used]
    meant = meant + schedule.meaning_noise * torch.randn(meant.shape, generator=generator)
    inputs = replace(padded, tokens=rows).steps(
        {**weights, "embedding": _word_table(weights, meant)}, word_keep=schedule.word_keep, generator=generator
    )
    drop = draw_kept(1 - schedule.dropout, runs, steps, shape.width) / (1 - schedule.dropout)
    scores = forward(weights, shape, inputs, keep=drop)
    losses = supervised_losses(scores, targets, padded, sigma=schedule.sigma)
    losses |= {"contrast": contrastive_loss(scores, part, schedule.margin)}
    return {name: loss * (1.0 if name == "pointer" else getattr(schedule, name)) for name, loss in losses.items()}


def _optimizer(weights: Mapping[str, Tensor], schedule: Schedule) -> torch.optim.Optimizer:
    matrices = [value for value in weights.values() if value.dim() > 1]
    others = [value for value in weights.values() if value.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": schedule.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=schedule.rate)


def _warm_cosine(done: float) -> float:
    return min(done / 0.1, 0.5 * (1 + math.cos(math.pi * max(0.0, done - 0.1) / 0.9)))
