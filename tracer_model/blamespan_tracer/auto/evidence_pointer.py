"""Point at the step that what a run says speaks against most, or at none.

The step's features are how surprising the most surprising observations of it are, and few more; all weights are
positive, so that more surprise never means less blame. That holds for kinds of mistakes that training never saw.

Dims: T steps of a run, F features, H hidden units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.auto.observations import ObservedRun, SurpriseTable
from blamespan_tracer.weights_file import from_tensors, to_tensors

__all__ = ["EVIDENCE_FEATURES", "EvidencePointer", "Floats", "describe_step", "evidence_features", "set_leads"]

EVIDENCE_FEATURES = (
    "most surprising",
    "second",
    "third",
    "above all other steps",
    "above what chance brings in so many claims",
    "repeats its own",
    "repeats another's",
    "ends without sources, share",
    "ends without sources, amount",
    "very surprising",
    "likeliest wrong claim by the trees",
    "the same above all other steps",
)
"""What each column means."""

_NATS, _SCORE = 5.0, 3.0
"""Bring surprises, and the scores of the trees, to the size of the other features."""

_LEADS = {0: 3, 10: 11}
"""Columns, and those that say by how much a step has more of it than all others."""

_MOST_LEAD = 1.5
_NEVER = -30.0

Floats = NDArray[np.float32]


def evidence_features(run: ObservedRun, table: SurpriseTable) -> tuple[Floats, Floats]:
    """Return the (T, F) features of a run's steps, and how much was read: the logarithm of the number of claims."""
    n_steps = len(run.decides)
    surprises: list[list[float]] = [[] for _ in range(n_steps)]
    for observation in run.observations:
        surprises[observation.step].append(table.surprise(observation))
    scores = np.zeros(n_steps)
    np.maximum.at(scores, run.claims.steps, run.scores)
    n_claims = float(np.log1p(sum(count for (form, _), count in run.n_claims.items() if form != "opposite")))
    features = np.zeros((n_steps, len(EVIDENCE_FEATURES)), np.float32)
    for row, values, score, repeat in zip(features, surprises, scores.tolist(), run.repeats.tolist(), strict=True):
        describe_step(row, values, score, repeat, n_claims)
    features[~run.decides, 5:7] = 0.0
    for column, lead in _LEADS.items():
        heights = features[:, column]
        order = np.sort(heights)
        others = np.where(heights == order[-1:], order[-2] if n_steps > 1 else 0.0, order[-1:])
        features[:, lead] = _lead(heights, others)
    last = np.flatnonzero(run.decides)[-1:]
    features[last, 7] = run.unsupported[last] / np.maximum(run.information[last], 3.0)
    features[last, 8] = np.log1p(run.unsupported[last]) / _NATS
    return features, np.float32(n_claims)  # type: ignore[return-value]  # a scalar is an array to numpy


def describe_step(row: Floats, surprises: Sequence[float], score: float, repeat: int, n_claims: float) -> None:
    """Fill in what is said of a step by itself.

    Args:
        row: (F,) features.
        surprises: Of what is observed of the step.
        score: Of its likeliest wrong claim.
        repeat: See `ObservedRun.repeats`.
        n_claims: Logarithm of how many claims were read.
    """
    top = sorted(surprises, reverse=True)[:3]
    row[: len(top)] = np.array(top, np.float32) / _NATS
    highest = float(row[0])
    row[4] = max(0.0, highest * _NATS - n_claims) / 3.0
    row[5], row[6] = repeat == 2, repeat >= 1
    row[9] = max(0.0, highest - 1.2)
    row[10] = score / _SCORE


def set_leads(row: Floats, others: Floats) -> None:
    """Fill in by how much a step stands out from others, by the (F,) highest features of those."""
    for column, lead in _LEADS.items():
        row[lead] = _lead(row[column], others[column])


def _lead(values: Floats, others: Floats) -> Floats:
    return np.asarray(np.clip(values - others, -_MOST_LEAD, _MOST_LEAD), np.float32)


@dataclass(frozen=True, slots=True)
class EvidencePointer:
    """Weights of the pointer.

    Attributes:
        hidden: (F, H) not negative, and
        hidden_bias: (H,) what is added.
        step: (H,) not negative, and
        step_bias: (1,) what is added.
        nothing: (2,) score of "nothing is wrong": what it is, and what it gains per nat of claims read.
    """

    hidden: Floats
    hidden_bias: Floats
    step: Floats
    step_bias: Floats
    nothing: Floats

    def score(self, features: Floats, n_claims: Floats, decides: NDArray[np.bool_]) -> tuple[Floats, float]:
        """Return the (T,) scores of the steps, and that of "nothing is wrong"; a softmax over both is a probability."""
        hidden = features @ self.hidden + self.hidden_bias
        active = 2.0 / (1.0 + np.exp(-hidden)) + 0.3 * np.logaddexp(0.0, hidden)
        scores = np.where(decides, active @ self.step + self.step_bias[0], _NEVER).astype(np.float32)
        return scores, float(self.nothing[0] + self.nothing[1] * n_claims)

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the weights by name."""
        return to_tensors(self, "evidence")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> EvidencePointer:
        """Build a pointer from what `tensors` returned.

        Raises:
            KeyError: if something is missing.
            ValueError: if sizes do not fit.
        """
        pointer = from_tensors(cls, tensors, "evidence")
        n_hidden = len(pointer.hidden_bias)
        shapes = (len(EVIDENCE_FEATURES), n_hidden), (n_hidden,), (n_hidden,), (1,), (2,)
        if tuple(getattr(pointer, field.name).shape for field in fields(cls)) != shapes:
            raise ValueError("weights of the evidence pointer of another size")
        return pointer
