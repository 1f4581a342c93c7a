"""Fit evidence to pairs: an edited run points at its edit, the untouched run and the decoy at nothing.

What is learnt is to see an edit, not where edits happen: an untouched run has the same steps in the same places.
`objectives` says what the pointer is asked for: three paradigms on one base.
"""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from blamespan.trace import MessageActionTrace
from blamespan.worker_processes import end_with_parent
from blamespan_lab.auto.objectives import OBJECTIVES, UPDATES_PER_BATCH, Options, Paradigm
from blamespan_lab.edits.generate import LabelledPair
from blamespan_tracer.auto.observed_run import ObservedRun, observe
from blamespan_tracer.auto.step_model import EVIDENCE_FEATURES, EvidenceModel, evidence_features
from blamespan_tracer.checks import VERDICT_CHECKS, apply_checks

__all__ = ["EvidenceExample", "fit_evidence", "lay_out_pairs", "observe_all"]

_BATCH, _BATCH_PAIRS = 32, 12
_LEARNING_RATE = 1e-2
_FIRST_BIAS = -6.0
_NEVER = -30.0

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EvidenceExample:
    """A run as the evidence of the model of steps reads it.

    Attributes:
        features: (T, F).
        n_claims: How many claims it has.
        decides: (T,) bool.
        step: The edited step; None for a sound run.
        is_of_agent: (T,) which steps the agent of the edited step took; none in a sound run.
    """

    features: Floats
    n_claims: int
    decides: NDArray[np.bool_]
    step: int | None
    is_of_agent: NDArray[np.bool_]


def observe_all(traces: Iterable[MessageActionTrace]) -> Iterator[ObservedRun]:
    """Observe many runs in as many processes as there are cores, in order; without their claims."""
    with ProcessPoolExecutor(os.cpu_count(), initializer=end_with_parent) as pool:
        yield from pool.map(_observe, traces, chunksize=64)


def _observe(trace: MessageActionTrace) -> ObservedRun:
    run = observe(trace, apply_checks(VERDICT_CHECKS, trace))
    return replace(run, claims=replace(run.claims, claims=()))


def lay_out_pairs(
    pairs: Sequence[LabelledPair], observed: Mapping[str, ObservedRun]
) -> list[tuple[EvidenceExample, ...]]:
    """List the runs of each pair, the edited one first; an untouched run is in every pair that it was edited for.

    Args:
        pairs: The pairs.
        observed: Their runs by trace id, judged.
    """
    features = {trace_id: evidence_features(run) for trace_id, run in observed.items()}

    def lay_out(trace: MessageActionTrace, step: int | None) -> EvidenceExample:
        run = observed[trace.trace_id]
        of_agent = [step is not None and one.agent == trace.steps[step].agent for one in trace.steps]
        return EvidenceExample(features[trace.trace_id], run.n_claims, run.decides, step, np.array(of_agent, np.bool_))

    return [
        tuple(
            lay_out(run.trace, step)
            for run, step in ((pair.edited, pair.step), (pair.untouched, None), (pair.decoy, None))
            if run is not None
        )
        for pair in pairs
    ]


class _Evidence(nn.Module):
    """The evidence of the model with weights that stay positive while they are fitted."""

    def __init__(self, n_hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Parameter(torch.randn(len(EVIDENCE_FEATURES), n_hidden) * 0.3 - 1.5)
        self.hidden_bias = nn.Parameter(torch.randn(n_hidden) * 0.5 - 0.5)
        self.step = nn.Parameter(torch.randn(n_hidden) * 0.3 - 1.5)
        self.step_bias = nn.Parameter(torch.tensor([_FIRST_BIAS]))
        self.nothing = nn.Parameter(torch.tensor([1.0, 0.0]))

    def forward(self, batch: Sequence[EvidenceExample]) -> list[Options]:
        """Score what may be pointed at in each run of a batch."""
        features = torch.from_numpy(np.concatenate([example.features for example in batch]))
        hidden = features @ functional.softplus(self.hidden) + self.hidden_bias
        active = 2.0 * torch.sigmoid(hidden) + 0.3 * functional.softplus(hidden)
        scores = active @ functional.softplus(self.step) + self.step_bias
        decides = torch.from_numpy(np.concatenate([example.decides for example in batch]))
        sizes = [len(example.decides) for example in batch]
        parts = torch.split(torch.where(decides, scores, torch.tensor(_NEVER)), sizes)
        return [
            Options(
                torch.cat([part, (self.nothing[0] + self.nothing[1] * math.log1p(example.n_claims))[None]]),
                example.step,
                torch.from_numpy(example.is_of_agent),
            )
            for example, part in zip(batch, parts, strict=True)
        ]

    def export(self) -> EvidenceModel:
        """Return the weights for NumPy."""

        def values(tensor: Tensor) -> Floats:
            return np.asarray(tensor.detach().numpy(), np.float32)

        return EvidenceModel(
            values(functional.softplus(self.hidden)),
            values(self.hidden_bias),
            values(functional.softplus(self.step)),
            values(self.step_bias),
            values(self.nothing),
        )


def fit_evidence(
    pairs: Sequence[Sequence[EvidenceExample]],
    *,
    n_hidden: int,
    epochs: int,
    seed: int,
    paradigm: Paradigm = "supervised",
) -> EvidenceModel:
    """Fit the evidence by Adam, its learning rate up and down once.

    Args:
        pairs: The runs of each pair, as `lay_out_pairs` returns them.
        n_hidden: Hidden units.
        epochs: How often each pair is learnt from.
        seed: Chooses the first weights and the order.
        paradigm: What it is asked for.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # small sums: more threads only wait for each other, and change the last digit
    model, loss_of = _Evidence(n_hidden), OBJECTIVES[paradigm]
    optimizer = torch.optim.Adam(model.parameters(), _LEARNING_RATE)
    draws = random.Random(seed)  # noqa: S311  # an order, no secret
    is_by_pair = paradigm == "contrastive"
    rows = list(pairs) if is_by_pair else [(example,) for pair in pairs for example in pair]
    batch_rows = _BATCH_PAIRS if is_by_pair else _BATCH
    n_batches = -(-len(rows) // batch_rows)
    n_updates = epochs * n_batches * UPDATES_PER_BATCH[paradigm]
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=n_updates + 1)
    update = 0
    for _ in range(epochs):
        draws.shuffle(rows)
        for first in range(0, len(rows), batch_rows):
            batch = rows[first : first + batch_rows]
            policies: Iterator[Tensor | None] = repeat(None)
            for _ in range(UPDATES_PER_BATCH[paradigm]):
                options = model([example for row in batch for example in row])
                scored = map(_with_policy, options, policies)
                loss = loss_of([[next(scored) for _ in row] for row in batch], update / n_updates)
                policies = iter([torch.softmax(run.scores.detach(), 0) for run in options])
                optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]  # torch's own
                optimizer.step()
                schedule.step()
                update += 1
    return model.export()


def _with_policy(options: Options, before: Tensor | None) -> Options:
    return replace(options, policy_before=before)
