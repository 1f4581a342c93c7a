"""Train the weights of a network, by labels, against clean twins, and by reward; and of several, as an ensemble.

The networks of an ensemble are trained apart, as many at once as there are cores: the same bits however many work.

Dims: F features, R relations, D width, V words, M width of a meaning, E width of a word bag.
"""

from __future__ import annotations

import logging
import math
import multiprocessing
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from logging.handlers import QueueHandler, QueueListener
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, from_numpy
from torch.nn import functional

from blamespan.cores import cores
from blamespan.worker_processes import end_with_parent
from blamespan_lab.network.examples import NetworkExample
from blamespan_lab.network.objectives import batches, contrastive_loss, expected_reward, supervised_losses, targets_of
from blamespan_lab.network.recipe import Schedule
from blamespan_tracer.alternatives.network.model import Scores, Shape, average_scores, forward
from blamespan_tracer.alternatives.network.torch_inference import pad, split_by_size

__all__ = ["fit_members", "fit_network", "initial_weights", "predict", "predict_together"]

_log = logging.getLogger(__name__)

_WORD = "word."
"""Begins the names of the weights that make the word table, and are gone when it is made."""

_MEANING_WIDTH = 128
"""Width of the layer between a word's meaning and its row of the word table."""


def initial_weights(shape: Shape, seed: int, device: torch.device | str = "cpu") -> dict[str, Tensor]:
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
        weights[name] = value.to(device).requires_grad_()
    return weights


def fit_network(
    examples: Sequence[NetworkExample],
    shape: Shape,
    schedule: Schedule,
    *,
    meanings: NDArray[np.float32],
    seed: int,
    device: torch.device | str = "cpu",
) -> dict[str, Tensor]:
    """Train on runs whose features are scaled already; on a CPU in one thread: the same bits each time, and faster.

    Args:
        examples: The runs.
        shape: The network's.
        schedule: How to train.
        meanings: (V, M) what each word means: the word table is what two layers make of it.
        seed: Chooses the first weights and every draw.
        device: Where to compute.
    """
    if str(device) == "cpu":
        torch.set_num_threads(1)
    word_meanings = torch.from_numpy(meanings).to(device)
    weights = initial_weights(shape, seed, device)
    del weights["embedding"]
    weights |= _initial_words(meanings.shape[1], shape.bag_width, seed, device)
    rng = np.random.default_rng(seed)
    generator = torch.Generator(device=device).manual_seed(seed)
    for phase, epochs, rate in (
        ("labels", schedule.epochs, schedule.rate),
        ("reward", schedule.reward_epochs, schedule.reward_rate),
    ):
        optimizer = _optimizer(weights, rate, schedule.decay)
        planned = [list(batches(examples, rng, schedule.most_runs)) for _ in range(epochs)]
        total, done = sum(map(len, planned)), 0
        for epoch, parts in enumerate(planned):
            sums: dict[str, float] = {}
            for part in parts:
                done += 1
                for group in optimizer.param_groups:
                    group["lr"] = rate * _warm_cosine(done / total)
                losses = _losses_of_batch(part, weights, word_meanings, shape, schedule, phase, generator, device)
                loss = sum(losses.values(), torch.zeros((), device=device))
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                torch.nn.utils.clip_grad_norm_(weights.values(), 1.0)
                optimizer.step()
                for name, loss_part in losses.items():
                    sums[name] = sums.get(name, 0.0) + float(loss_part.detach()) / len(parts)
            _log.info("network %d, %s, pass %d of %d: %s", seed, phase, epoch + 1, epochs, _format_losses(sums))
    table = _word_table(weights, word_meanings)
    return {"embedding": table.detach()} | {
        name: value.detach() for name, value in weights.items() if not name.startswith(_WORD)
    }


def _initial_words(meaning: int, width: int, seed: int, device: torch.device | str) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed + 1)
    first = torch.randn((meaning, _MEANING_WIDTH), generator=generator) / math.sqrt(meaning)
    second = torch.randn((_MEANING_WIDTH, width), generator=generator) * (0.15 / math.sqrt(_MEANING_WIDTH))
    weights = {f"{_WORD}in": first, f"{_WORD}bias": torch.zeros(_MEANING_WIDTH), f"{_WORD}out": second}
    return {name: value.to(device).requires_grad_() for name, value in weights.items()}


def _word_table(weights: Mapping[str, Tensor], meanings: Tensor) -> Tensor:
    """Make the rows of the word table for words of these (V, M) meanings: (V, E)."""
    inner = functional.relu(meanings @ weights[f"{_WORD}in"] + weights[f"{_WORD}bias"])
    return inner @ weights[f"{_WORD}out"]


@torch.no_grad()
def predict(
    examples: Sequence[NetworkExample], weights: Mapping[str, Tensor], shape: Shape, device: torch.device | str = "cpu"
) -> list[Scores]:
    """Score runs; one entry per example, cut to its own steps."""
    predictions: list[Scores | None] = [None] * len(examples)
    sizes = [len(example.inputs) for example in examples]
    for rows in split_by_size(sorted(range(len(examples)), key=sizes.__getitem__), sizes, 32):
        padded = pad([examples[row].inputs for row in rows], device)
        scores = forward(weights, shape, padded.steps(weights))
        for row_in_batch, row in enumerate(rows):
            size = len(examples[row].inputs)
            pointer = torch.cat([scores.pointer[row_in_batch, :size], scores.pointer[row_in_batch, -1:]])
            parts = (
                pointer,
                scores.fault[row_in_batch, :size],
                scores.modes[row_in_batch, :size],
                scores.states[row_in_batch, :size],
            )
            predictions[row] = Scores(*(part.cpu() for part in parts))
    return [scores for scores in predictions if scores is not None]


def predict_together(
    examples: Sequence[NetworkExample], members: Sequence[Mapping[str, Tensor]], shape: Shape
) -> list[Scores]:
    """Score runs by several networks that speak together; one entry per example."""
    by_member = [predict(examples, weights, shape) for weights in members]
    return [average_scores(scores) for scores in zip(*by_member, strict=True)]


def _losses_of_batch(
    part: Sequence[NetworkExample],
    weights: Mapping[str, Tensor],
    meanings: Tensor,
    shape: Shape,
    schedule: Schedule,
    phase: str,
    generator: torch.Generator,
    device: torch.device | str,
) -> dict[str, Tensor]:
    padded = pad([example.inputs for example in part], device)
    targets = targets_of(part, device)
    runs, steps = padded.is_real.shape

    def draw_kept(share: float, *size: int) -> Tensor:
        return (torch.rand(size, generator=generator, device=device) < share).float()

    if schedule.feature_dropout and phase == "labels":
        keep = draw_kept(1 - schedule.feature_dropout, runs, 1, padded.features.shape[2])
        padded.features.mul_(keep)
    if schedule.edge_dropout and phase == "labels":
        padded.relations.mul_(draw_kept(1 - schedule.edge_dropout, *padded.relations.shape))
    used, rows = torch.unique(padded.tokens, return_inverse=True)
    meant = meanings[used]
    if schedule.meaning_noise:
        meant = meant + schedule.meaning_noise * torch.randn(meant.shape, generator=generator, device=device)
    table = _word_table(weights, meant)
    inputs = replace(padded, tokens=rows).steps(
        {**weights, "embedding": table}, word_keep=schedule.word_keep, generator=generator
    )
    drop = draw_kept(1 - schedule.dropout, runs, steps, shape.width) / (1 - schedule.dropout)
    scores = forward(weights, shape, inputs, keep=drop)
    if phase == "reward":
        return {"reward": -expected_reward(scores, targets, padded)}
    losses = supervised_losses(scores, targets, padded, sigma=schedule.sigma)
    losses |= {"contrast": contrastive_loss(scores, part, schedule.margin)}
    scale = {"pointer": 1.0} | {
        name: getattr(schedule, name) for name in ("agent", "fault", "modes", "mode", "culprit", "contrast")
    }
    return {name: loss * scale[name] for name, loss in losses.items()}


def _optimizer(weights: Mapping[str, Tensor], rate: float, decay: float) -> torch.optim.Optimizer:
    matrices = [value for name, value in weights.items() if value.dim() > 1 and name != "embedding"]
    others = [value for name, value in weights.items() if not (value.dim() > 1 and name != "embedding")]
    return torch.optim.AdamW(
        [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}], lr=rate
    )


def _warm_cosine(done: float) -> float:
    return min(done / 0.1, 0.5 * (1 + math.cos(math.pi * max(0.0, done - 0.1) / 0.9)))


def _format_losses(sums: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:.3f}" for name, value in sums.items() if value)


_PACKAGE = "blamespan_lab"

_task: tuple[Sequence[NetworkExample], Shape, Schedule, NDArray[np.float32]] | None = None
"""What a process of the pool trains on."""


def fit_members(
    examples: Sequence[NetworkExample],
    shape: Shape,
    schedule: Schedule,
    *,
    meanings: NDArray[np.float32],
    seeds: Sequence[int],
    processes: int | None = None,
) -> list[dict[str, Tensor]]:
    """Train a network by each of *seeds*, as `fit_network` does.

    Args:
        examples: The runs.
        shape: The networks'.
        schedule: How to train.
        meanings: (V, M) what each word means.
        seeds: One for each network.
        processes: How many train at once, each with a copy of *examples*; by default as many as there are cores.
    """
    n_workers = min(processes or cores(), len(seeds))
    if n_workers == 1:
        return [fit_network(examples, shape, schedule, meanings=meanings, seed=seed) for seed in seeds]
    context = multiprocessing.get_context("spawn")  # PyTorch has threads by now: a fork may stand still
    records = context.Queue()
    listener = QueueListener(records, _LogForwarder())
    listener.start()
    level = logging.getLogger(_PACKAGE).getEffectiveLevel()
    try:
        with ProcessPoolExecutor(
            n_workers, context, initializer=_begin, initargs=(records, level, (examples, shape, schedule, meanings))
        ) as pool:
            by_seed = list(pool.map(_fit, seeds))
    finally:
        listener.stop()
    return [{name: from_numpy(value) for name, value in weights.items()} for weights in by_seed]


class _LogForwarder(logging.Handler):
    """Has this process log what another said."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger(record.name).handle(record)


def _begin(
    records: Any, level: int, task: tuple[Sequence[NetworkExample], Shape, Schedule, NDArray[np.float32]]
) -> None:
    global _task
    end_with_parent()
    _task = task
    log = logging.getLogger(_PACKAGE)
    log.setLevel(level)
    log.propagate = False
    log.addHandler(QueueHandler(records))


def _fit(seed: int) -> dict[str, NDArray[np.float32]]:
    assert _task is not None  # the process was set up
    examples, shape, schedule, meanings = _task
    weights = fit_network(examples, shape, schedule, meanings=meanings, seed=seed)
    return {name: value.numpy() for name, value in weights.items()}
