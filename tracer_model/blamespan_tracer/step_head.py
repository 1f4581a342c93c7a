"""Says which steps of a team's runs decide its failures, as labels of a user's own runs taught it.

Who errs, and where in a run, differs from team to team: a dozen labels of one team tell more of it than thousands of
runs of others. So none is bundled. `blamespan lab train --labels` learns one; the tracer `auto` uses it where it was
measurably better than the tracer by itself. It begins as the tracer's own opinion, and learns how far to leave it.

Dims: T steps of a run, P plain features.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.auto.plain_features import PLAIN_FEATURES
from blamespan_tracer.auto.step_prior import StepPrior, prior_features
from blamespan_tracer.heads import Figures, load_head, load_in_use, read_figures
from blamespan_tracer.numeric import softmax
from blamespan_tracer.weights_file import write_weights

__all__ = ["STEP_HEAD_FILE", "StepHead", "opinion_of_tracer", "read_step_figures", "step_head_in_use"]

STEP_HEAD_FILE: Final = "steps.safetensors"
"""Name of the head beside the collector's store."""

_VARIABLE: Final = "BLAMESPAN_STEP_HEAD"
_FORMAT: Final = "blamespan-steps-2"
_LEAST_SHARE: Final = 1e-3
_NEVER: Final = -np.inf
_N_FEATURES: Final = prior_features(np.zeros((1, len(PLAIN_FEATURES))), np.ones(1)).shape[1]

Floats = NDArray[np.float64]


def opinion_of_tracer(shares: Floats) -> Floats:
    """Return the (T,) scores from which the head begins, by the tracer's (T,) shares of the blame."""
    opinion: Floats = np.log(shares + _LEAST_SHARE)
    return opinion


@dataclass(frozen=True, slots=True)
class StepHead:
    """What labels add to the tracer's opinion.

    Attributes:
        prior: Scores steps by `prior_features`, the tracer the only one that is heard.
        set_mass: Share of the blame that a step set must hold.
        is_better: Whether it was measurably better than the tracer by itself.
        figures: What was measured when it was learnt.
        digest: Of the file.
    """

    prior: StepPrior
    set_mass: float
    is_better: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def share(self, plain: Floats, shares: Floats, can_be_blamed: NDArray[np.bool_]) -> Floats:
        """Return the (T,) shares of the blame.

        Args:
            plain: (T, P) of `plain_features`.
            shares: (T,) as the tracer sees it by itself.
            can_be_blamed: (T,), at least one.
        """
        scores = opinion_of_tracer(shares) + self.prior.score(prior_features(plain, shares))
        return softmax(np.where(can_be_blamed, scores, _NEVER))

    def save(self, path: Path) -> str:
        """Write the file; return its digest."""
        settings = {"set_mass": self.set_mass, "is_better": self.is_better, "figures": dict(self.figures)}
        return write_weights(path, self.prior.tensors(), {"format": _FORMAT, "settings": json.dumps(settings)})

    @classmethod
    def load(cls, path: Path) -> StepHead:
        """Read a file that `save` wrote.

        Raises:
            TracerUnavailable: if it is missing, damaged or of another version.
        """
        return load_head(path, _FORMAT, cls._build, what_for="steps", command="blamespan lab train --labels FILE")

    @classmethod
    def _build(cls, tensors: Mapping[str, NDArray[Any]], settings: Mapping[str, Any], digest: str) -> StepHead:
        prior = StepPrior.from_tensors(tensors)
        if prior.weights.shape != (_N_FEATURES,):
            raise ValueError("features of another version")
        return cls(prior, float(settings["set_mass"]), bool(settings["is_better"]), settings["figures"], digest=digest)


def step_head_in_use() -> StepHead | None:
    """Load the head that `BLAMESPAN_STEP_HEAD` names, else the one beside the store; None where none is better.

    Raises:
        TracerUnavailable: if the file is missing or damaged.
    """
    return load_in_use(_VARIABLE, STEP_HEAD_FILE, StepHead.load)


def read_step_figures(path: Path) -> Figures | None:
    """Return whether the head in a file is better than the tracer, and what was measured; None where there is no file.

    Raises:
        TracerUnavailable: if it is damaged.
    """
    return read_figures(path, StepHead.load)
