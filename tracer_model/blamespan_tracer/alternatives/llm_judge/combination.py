"""How the embedded tracer's shares and a model's answer become one verdict, and what asking is worth.

The combination is a mixture: how likely the answer is right, of two opinions of which one is, decides how much of the
blame each gives out. A logistic model says so, of a few features of both. Without labels of the user's own it has
stated weights; from 20 labels on `blamespan lab train --labels` fits them.

Dims: T steps of a run, F features of a pair of opinions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from blamespan.attribution import Attribution
from blamespan.learnt_files import JUDGE_HEADS
from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.llm_judge.answers import Diagnosis, find_quote
from blamespan_tracer.heads import load_head, load_in_use
from blamespan_tracer.weights_file import write_weights

_FORMAT: Final = "blamespan-judge-1"

FEATURES: Final = (
    "constant",
    "log odds that the embedded verdict is right",
    "confidence of the answer",
    "its quote does not stand in its step",
    "logarithm of how many decisions the two are apart",
)
"""What each feature of a pair of opinions means."""

_LEAST_SHARE: Final = 1e-3
_FIRST: Final = 0.9
"""Of what the answer gives out, for its first suspect; the others get the rest by their weights."""
_USUAL_CONFIDENCE: Final = 0.8

Floats = NDArray[np.float64]


def pair_features(trace: MessageActionTrace, verdict: Attribution, diagnosis: Diagnosis) -> Floats:
    """Lay out the (F,) features of an embedded verdict and an answer, both of which name a step; see `FEATURES`."""
    first = diagnosis.suspects[0]
    assert verdict.decisive_step is not None
    chance = min(max(chance_right(trace, verdict), _LEAST_SHARE), 1 - _LEAST_SHARE)
    low, high = sorted((first.step, verdict.decisive_step))
    apart = sum(trace.can_be_blamed(step) for step in trace.steps[low:high])
    return np.array(
        [
            1.0,
            math.log(chance / (1 - chance)),
            first.weight - _USUAL_CONFIDENCE,
            float(not find_quote(trace.steps[first.step], first.quote)),
            math.log1p(apart),
        ]
    )


@dataclass(frozen=True, slots=True)
class Combination:
    """What an embedded verdict and an answer come to together.

    Attributes:
        weights: (F,) of the features: log odds that the answer is right, of answers of which one is.
        accuracy: How often the first suspect of an answer is the right step, 0..1.
        is_better: Whether it was measurably better than the stated weights.
        figures: What was measured when it was fitted.
        digest: Of the file; empty for the stated weights.
    """

    weights: Floats
    accuracy: float
    is_better: bool = True
    figures: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def share(self, trace: MessageActionTrace, verdict: Attribution, diagnosis: Diagnosis) -> Floats:
        """Return the (T,) shares of the blame: the embedded ones where the answer names nobody."""
        embedded = np.array([step.score for step in verdict.steps])
        if not diagnosis.suspects:
            return embedded
        first, *others = diagnosis.suspects
        answered = np.zeros(len(trace.steps))
        for suspect in others:
            answered[suspect.step] += suspect.weight
        rest = answered.sum()
        answered *= (1 - _FIRST) / rest if rest > 0 else 0.0
        answered[first.step] += 1 - answered.sum()
        chance = 1.0 / (1.0 + math.exp(-float(pair_features(trace, verdict, diagnosis) @ self.weights)))
        mixed: Floats = chance * answered + (1 - chance) * embedded
        return mixed

    def save(self, path: Path) -> str:
        """Write the file; return its digest."""
        settings = {
            "features": FEATURES,
            "accuracy": self.accuracy,
            "is_better": self.is_better,
            "figures": dict(self.figures),
        }
        return write_weights(path, {"weights": self.weights}, {"format": _FORMAT, "settings": json.dumps(settings)})

    @classmethod
    def load(cls, path: Path) -> Combination:
        """Read a file that `save` wrote.

        Raises:
            TracerUnavailable: if it is missing, damaged or of another version.
        """
        return load_head(path, _FORMAT, cls._build, what_for="the judge", command="blamespan lab train --labels FILE")

    @classmethod
    def _build(cls, tensors: Mapping[str, NDArray[Any]], settings: Mapping[str, Any], digest: str) -> Combination:
        weights = tensors["weights"].astype(np.float64)
        if tuple(settings["features"]) != FEATURES or weights.shape != (len(FEATURES),):
            raise ValueError("features of another version")
        return cls(weights, float(settings["accuracy"]), bool(settings["is_better"]), settings["figures"], digest)


STATED: Final = Combination(np.array([0.0, -1.0, 0.0, -1.0, 0.0]), 0.5)
"""Without labels: the answer is taken to be right in half of the runs, whatever the embedded verdict says, and less
often where it quotes what does not stand in its step."""


def combinations_in_use() -> tuple[Combination, ...]:
    """Load the heads in use, those that `BLAMESPAN_LEARNT` names or those beside the store: see `load_in_use`.

    Raises:
        TracerUnavailable: if the file is missing or damaged.
    """
    return load_in_use(JUDGE_HEADS, Combination.load)


_SURENESS: Final = (2.0, 0.54, -1.41)
"""Fitted on 184 labelled failures that `auto` did not learn from: `scripts/bench judge` prints how far it holds."""


def chance_right(trace: MessageActionTrace, verdict: Attribution) -> float:
    """Return how likely the embedded verdict names the right step, 0..1, by calibration on labelled failures.

    Two things tell: the decisive step's share, and how many decisions there are to choose from.
    """
    if verdict.decisive_step is None or verdict.abstained is not None:
        return 0.0
    return 1.0 / (1.0 + math.exp(-float(np.dot(_SURENESS, sureness_features(trace, verdict)))))


def sureness_features(trace: MessageActionTrace, verdict: Attribution) -> tuple[float, float, float]:
    """Return 1, the log odds of the decisive step's share, and the logarithm of how many decisions there are."""
    assert verdict.decisive_step is not None
    share = min(max(verdict.steps[verdict.decisive_step].score, _LEAST_SHARE), 1 - _LEAST_SHARE)
    n_decisions = sum(trace.can_be_blamed(step) for step in trace.steps)
    return 1.0, math.log(share / (1 - share)), math.log(max(n_decisions, 1))


def gain_of_asking(chance: float, accuracy: float) -> float:
    """Return by how much asking raises the chance that the right step is named, 0..1.

    Where the two differ, the likelier one is taken: that gains where the answer is righter than the verdict.
    """
    return max(0.0, accuracy - chance)
