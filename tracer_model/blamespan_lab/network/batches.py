"""Examples side by side for training, with what they teach.

Dims: B runs, S steps of the longest, K modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blamespan_lab.network.examples import SOMEWHERE, SOUND, UNKNOWN, Example
from blamespan_tracer.network.torch_inference import split_by_size

__all__ = ["Targets", "batches", "targets_of"]


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


def batches(examples: Sequence[Example], rng: np.random.Generator, most_runs: int) -> Iterator[list[Example]]:
    """Put runs of like length together, twins side by side, in random order."""
    order = sorted(
        range(len(examples)),
        key=lambda row: (len(examples[row].inputs) + rng.random() * 3, examples[row].twin or examples[row].trace_id),
    )
    parts = list(split_by_size(order, [len(example.inputs) for example in examples], most_runs))
    for number in rng.permutation(len(parts)):
        yield [examples[row] for row in parts[number]]


def targets_of(examples: Sequence[Example], device: torch.device | str = "cpu") -> Targets:
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
    return Targets(*(torch.from_numpy(part).to(device) for part in arrays))


def _mark(example: Example, culprit: NDArray[np.float32], modes: NDArray[np.float32]) -> None:
    for step, agent in enumerate(example.inputs.agent.tolist()):
        if example.inputs.can_be_blamed[step]:
            culprit[step] = agent in example.culprits
            modes[step, list(example.culprits.get(agent, ()))] = 1
