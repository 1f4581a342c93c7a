"""The one model: which step of a run is wrong, or that nothing is.

*Evidence* is what the run says against a step; all its weights are positive, so that more of it never means less blame,
also for kinds of mistakes that training never saw. Whether anything is wrong at all, evidence alone says. Where it says
"nothing is wrong" and the run failed nevertheless, the *prior* shares the blame: where mistakes usually are.

Dims: T steps of a run, E features of evidence, F features of the prior, H hidden units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.auto.observed_run import DOUBTS, ObservedRun
from blamespan_tracer.auto.step_prior import StepPrior
from blamespan_tracer.numeric import softmax
from blamespan_tracer.weights_file import from_tensors, to_tensors

EVIDENCE_FEATURES = (
    "likeliest wrong claim",
    "second",
    "third",
    "above all other steps",
    "very likely wrong claim",
    "repeats its own",
    "repeats another's",
    "ends without sources, share",
    "ends without sources, amount",
    "broken checks",
    *DOUBTS,
)
"""What each column means."""

_CLAIM, _LEAD, _VERY, _OWN, _OTHERS, _SHARE, _AMOUNT, _CHECKS = 0, 3, 4, 5, 6, 7, 8, 9
_DOUBTS = slice(10, 10 + len(DOUBTS))
_MOST_NATS = 20.0

_SCORE, _NATS = 3.0, 5.0
"""Bring the scores of claims, and what is counted in nats, to the size of the other features."""

_VERY_LIKELY = 1.2
MOST_EVIDENCE = 15.0
"""In nats: evidence further from "nothing is wrong" counts no more."""
_MOST_LEAD = 1.5
_LEAST_INFORMATION = 3.0
_NEVER = -30.0

Floats = NDArray[np.float32]


def evidence_features(run: ObservedRun) -> Floats:
    """Return the (T, E) features of a run's steps."""
    n_steps = len(run.decides)
    features = np.zeros((n_steps, len(EVIDENCE_FEATURES)), np.float32)
    scores: list[list[float]] = [[] for _ in range(n_steps)]
    for step, score in zip(run.claims.steps.tolist(), run.scores.tolist(), strict=True):
        scores[step].append(score)
    for index in np.flatnonzero(run.decides).tolist():
        step = run.doubts[index].tolist(), int(run.repeats[index]), float(run.checks[index])
        describe_step(features[index], scores[index], *step)
    heights = features[:, _CLAIM]
    order = np.sort(heights)
    for row in features:
        others = order[-2] if len(order) > 1 and row[_CLAIM] == order[-1] else order[-1]
        set_lead(row, float(others) if len(order) > 1 else 0.0)
    last = np.flatnonzero(run.decides)[-1:]
    features[last, _SHARE] = run.unsupported[last] / np.maximum(run.information[last], _LEAST_INFORMATION)
    features[last, _AMOUNT] = np.log1p(run.unsupported[last]) / _NATS
    return features


def describe_step(row: Floats, scores: Sequence[float], doubts: Sequence[float], repeat: int, checks: float) -> None:
    """Fill in what is said of a step by itself.

    Args:
        row: (E,) features.
        scores: Of its claims.
        doubts: Of its claims, see `ObservedRun.doubts`.
        repeat: See `ObservedRun.repeats`.
        checks: See `ObservedRun.checks`.
    """
    top = sorted(scores, reverse=True)[:3]
    row[: len(top)] = np.array(top, np.float32) / _SCORE
    row[_VERY] = max(0.0, float(row[_CLAIM]) - _VERY_LIKELY)
    row[_OWN], row[_OTHERS] = repeat == 2, repeat >= 1
    row[_CHECKS] = checks / _NATS
    row[_DOUBTS] = np.clip(doubts, 0.0, _MOST_NATS) / _NATS


def set_lead(row: Floats, others: float) -> None:
    """Fill in by how much a step's likeliest wrong claim stands above the highest *others* of all other steps."""
    row[_LEAD] = np.clip(row[_CLAIM] - others, -_MOST_LEAD, _MOST_LEAD)


@dataclass(frozen=True, slots=True)
class EvidenceModel:
    """How much evidence speaks against a step, and how much "nothing is wrong" has for itself.

    Attributes:
        hidden: (E, H) not negative, and
        hidden_bias: (H,) what is added.
        step: (H,) not negative, and
        step_bias: (1,) what is added.
        nothing: (2,) score of "nothing is wrong": what it is, and what it gains per logarithm of claims read.
    """

    hidden: Floats
    hidden_bias: Floats
    step: Floats
    step_bias: Floats
    nothing: Floats

    def score(self, features: Floats, n_claims: int, decides: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float]:
        """Return the (T,) scores of the steps, and that of "nothing is wrong"; a softmax over both is a probability."""
        hidden = features @ self.hidden + self.hidden_bias
        active = 2.0 / (1.0 + np.exp(-hidden)) + 0.3 * np.logaddexp(0.0, hidden)
        scores = np.where(decides, active @ self.step + self.step_bias[0], _NEVER).astype(np.float64)
        return scores, float(self.nothing[0] + self.nothing[1] * np.log1p(n_claims))

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the weights by name."""
        return to_tensors(self, "evidence")

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, NDArray[Any]]) -> EvidenceModel:
        """Build a model from what `tensors` returned.

        Raises:
            KeyError: if something is missing.
            ValueError: if sizes do not fit.
        """
        model = from_tensors(cls, tensors, "evidence")
        n_hidden = len(model.hidden_bias)
        shapes = [array.shape for array in (model.hidden, model.step, model.step_bias, model.nothing)]
        if shapes != [(len(EVIDENCE_FEATURES), n_hidden), (n_hidden,), (1,), (2,)]:
            raise ValueError("weights of evidence of another size")
        return model


@dataclass(frozen=True, slots=True)
class StepScores:
    """What the model says of a run.

    Attributes:
        evidence: (T,) how far the evidence against each step stands above "nothing is wrong", in nats.
        shares: (T,) of the blame; they add up to 1.
        by_evidence: (T,) the part of them that does not come from the prior.
        probability: That anything is wrong, by the evidence.
    """

    evidence: NDArray[np.float64]
    shares: NDArray[np.float64]
    by_evidence: NDArray[np.float64]
    probability: float


@dataclass(frozen=True, slots=True)
class StepModel:
    """Evidence and prior, weighed.

    Of a run that failed, either what it says shows who, or "nothing is wrong" with what it says; then the prior speaks.

    Attributes:
        evidence: Scores steps by what the run says.
        prior: Scores steps by where mistakes usually are.
        sharpness: What evidence above "nothing is wrong" is multiplied by, and
        threshold: how much of it, in nats, is as likely as not to show who failed.
    """

    evidence: EvidenceModel
    prior: StepPrior
    sharpness: float
    threshold: float

    def score(
        self,
        features: Floats,
        n_claims: int,
        decides: NDArray[np.bool_],
        prior_features: NDArray[np.float64],
        can_be_blamed: NDArray[np.bool_],
    ) -> StepScores:
        """Score the steps of a run.

        Args:
            features: (T, E) of `evidence_features`.
            n_claims: Claims of the run.
            decides: (T,) see `ObservedRun.decides`.
            prior_features: (T, F) of `prior_features`.
            can_be_blamed: (T,) at least one.
        """
        scores, nothing = self.evidence.score(features, n_claims, decides)
        return self.share(scores - nothing, prior_features, can_be_blamed)

    def share(
        self, evidence: NDArray[np.float64], prior_features: NDArray[np.float64], can_be_blamed: NDArray[np.bool_]
    ) -> StepScores:
        """Score the steps of a run by its evidence: (T,), see `StepScores.evidence`."""
        shown = np.where(can_be_blamed, self.sharpness * np.clip(evidence, -MOST_EVIDENCE, MOST_EVIDENCE), -np.inf)
        options = softmax(np.append(shown, self.threshold))
        prior = softmax(np.where(can_be_blamed, self.prior.score(prior_features), -np.inf))
        probability = 1.0 - float(softmax(np.append(evidence, 0.0))[-1])
        return StepScores(evidence, options[:-1] + options[-1] * prior, options[:-1], probability)
