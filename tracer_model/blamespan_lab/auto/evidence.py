"""Fit the evidence pointer to pairs: an edited run points at its edit, the untouched run and the decoy at nothing.

What is learnt is to see an edit, not where edits happen: an untouched run has the same steps in the same places.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from blamespan.trace import MessageActionTrace
from blamespan.worker_processes import end_with_parent
from blamespan_lab.edits.generate import LabelledPair
from blamespan_tracer.auto.evidence_pointer import EVIDENCE_FEATURES, EvidencePointer, evidence_features
from blamespan_tracer.auto.observations import ObservedRun, SurpriseTable, observe
from blamespan_tracer.checks import CHECKS, apply_checks

__all__ = ["EvidenceExample", "fit_pointer", "lay_out_pairs", "observe_all"]

_BATCH = 32
_LEARNING_RATE = 1e-2
_FIRST_BIAS = -6.0
_NEVER = -30.0

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EvidenceExample:
    """A run as the pointer reads it.

    Attributes:
        features: (T, F).
        n_claims: Logarithm of how many claims it has.
        decides: (T,) bool.
        step: The edited step; None for a sound run.
    """

    features: Floats
    n_claims: Floats
    decides: NDArray[np.bool_]
    step: int | None


def observe_all(traces: Iterable[MessageActionTrace]) -> Iterator[ObservedRun]:
    """Observe many runs in as many processes as there are cores, in order; without their claims."""
    with ProcessPoolExecutor(os.cpu_count(), initializer=end_with_parent) as pool:
        yield from pool.map(_observe, traces, chunksize=64)


def _observe(trace: MessageActionTrace) -> ObservedRun:
    run = observe(trace, apply_checks(CHECKS, trace))
    return replace(run, observations=tuple(replace(one, claim=None, source=None) for one in run.observations))


def lay_out_pairs(
    pairs: Sequence[LabelledPair], observed: dict[str, ObservedRun], table: SurpriseTable
) -> list[EvidenceExample]:
    """List the runs of *pairs*, an untouched run as often as it is in pairs: sound and edited ones weigh alike."""
    features = {trace_id: evidence_features(run, table) for trace_id, run in observed.items()}
    examples = []
    for pair in pairs:
        for run, step in ((pair.edited, pair.step), (pair.untouched, None), (pair.decoy, None)):
            if run is not None:
                trace_id = run.trace.trace_id
                examples.append(EvidenceExample(*features[trace_id], observed[trace_id].decides, step))
    return examples


class _Pointer(nn.Module):
    """The pointer with weights that stay positive while they are fitted."""

    def __init__(self, n_hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Parameter(torch.randn(len(EVIDENCE_FEATURES), n_hidden) * 0.3 - 1.5)
        self.hidden_bias = nn.Parameter(torch.randn(n_hidden) * 0.5 - 0.5)
        self.step = nn.Parameter(torch.randn(n_hidden) * 0.3 - 1.5)
        self.step_bias = nn.Parameter(torch.tensor([_FIRST_BIAS]))
        self.nothing = nn.Parameter(torch.tensor([1.0, 0.0]))

    def forward(self, batch: Sequence[EvidenceExample]) -> Tensor:
        """Return the mean loss of some runs."""
        features = torch.from_numpy(np.concatenate([example.features for example in batch]))
        hidden = features @ functional.softplus(self.hidden) + self.hidden_bias
        active = 2.0 * torch.sigmoid(hidden) + 0.3 * functional.softplus(hidden)
        scores = active @ functional.softplus(self.step) + self.step_bias
        decides = torch.from_numpy(np.concatenate([example.decides for example in batch]))
        sizes = [len(example.decides) for example in batch]
        parts = torch.split(torch.where(decides, scores, torch.tensor(_NEVER)), sizes)
        losses = []
        for example, part in zip(batch, parts, strict=True):
            nothing = self.nothing[0] + self.nothing[1] * float(example.n_claims)
            options = torch.cat([part, nothing[None]])
            losses.append(-torch.log_softmax(options, 0)[len(part) if example.step is None else example.step])
        return torch.stack(losses).mean()

    def export(self) -> EvidencePointer:
        """Return the weights for NumPy."""

        def values(tensor: Tensor) -> Floats:
            return np.asarray(tensor.detach().numpy(), np.float32)

        return EvidencePointer(
            values(functional.softplus(self.hidden)),
            values(self.hidden_bias),
            values(functional.softplus(self.step)),
            values(self.step_bias),
            values(self.nothing),
        )


def fit_pointer(examples: Sequence[EvidenceExample], *, n_hidden: int, epochs: int, seed: int) -> EvidencePointer:
    """Fit the pointer by Adam, its learning rate up and down once."""
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # small sums: more threads only wait for each other, and change the last digit
    model = _Pointer(n_hidden)
    optimizer = torch.optim.Adam(model.parameters(), _LEARNING_RATE)
    draws = random.Random(seed)  # noqa: S311  # an order, no secret
    rows = list(examples)
    n_batches = -(-len(rows) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=epochs * n_batches + 1)
    for _ in range(epochs):
        draws.shuffle(rows)
        for first in range(0, len(rows), _BATCH):
            loss = model(rows[first : first + _BATCH])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.export()
