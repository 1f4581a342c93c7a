"""Says which steps of a team's runs decide its failures, as labels of a user's own runs taught it.

Who errs, and where in a run, differs from team to team: a dozen labels of one team tell more of it than thousands of
runs of others. So none is bundled. `blamespan train --labels` learns one; the tracer `auto` uses it where it was
measurably better than the tracer by itself. It begins as the tracer's own opinion, and learns how far to leave it.

Dims: T steps of a run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from blamespan.errors import TracerUnavailable
from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.experts import LabelledTeamPointer, labelled_team_features
from blamespan_tracer.auto.plain_features import PLAIN_FEATURES, plain_features
from blamespan_tracer.heads import Figures, load_in_use, read_figures
from blamespan_tracer.numeric import softmax
from blamespan_tracer.weights_file import read_weights, write_weights

__all__ = ["STEP_HEAD_FILE", "StepHead", "opinion_of_tracer", "read_step_figures", "step_features", "step_head_in_use"]

STEP_HEAD_FILE: Final = "steps.safetensors"
"""Name of the head beside the collector's store."""

_VARIABLE: Final = "BLAMESPAN_STEP_HEAD"
_FORMAT: Final = "blamespan-steps-1"
_LEAST_SHARE: Final = 1e-3
_NEVER: Final = -np.inf
_N_FEATURES: Final = labelled_team_features(np.zeros((1, len(PLAIN_FEATURES))), np.ones(1)).shape[1]

Floats = NDArray[np.float64]


def step_features(trace: MessageActionTrace, shares: Floats) -> Floats:
    """Return what the head reads of the steps of a run.

    Args:
        trace: The run.
        shares: (T,) of the blame, as the tracer sees it by itself.
    """
    return labelled_team_features(plain_features(trace), shares)


def opinion_of_tracer(shares: Floats) -> Floats:
    """Return the (T,) scores from which the head begins, by the tracer's (T,) shares of the blame."""
    opinion: Floats = np.log(shares + _LEAST_SHARE)
    return opinion


@dataclass(frozen=True, slots=True)
class StepHead:
    """What labels add to the tracer's opinion.

    Attributes:
        pointer: Scores steps by `step_features`.
        set_mass: Share of the blame that a step set must hold.
        is_better: Whether it was measurably better than the tracer by itself.
        figures: What was measured when it was learnt.
        digest: Of the file.
    """

    pointer: LabelledTeamPointer
    set_mass: float
    is_better: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def share(self, trace: MessageActionTrace, shares: Floats, can_be_blamed: NDArray[np.bool_]) -> Floats:
        """Return the (T,) shares of the blame.

        Args:
            trace: The run.
            shares: (T,) as the tracer sees it by itself.
            can_be_blamed: (T,), at least one.
        """
        scores = opinion_of_tracer(shares) + self.pointer.score(step_features(trace, shares))
        return softmax(np.where(can_be_blamed, scores, _NEVER))

    def save(self, path: Path) -> str:
        """Write the file; return its digest."""
        settings = {"set_mass": self.set_mass, "is_better": self.is_better, "figures": dict(self.figures)}
        return write_weights(path, self.pointer.tensors(), {"format": _FORMAT, "settings": json.dumps(settings)})

    @classmethod
    def load(cls, path: Path) -> StepHead:
        """Read a file that `save` wrote.

        Raises:
            TracerUnavailable: if it is missing, damaged or of another version.
        """
        try:
            tensors, about, digest = read_weights(path, _FORMAT)
            settings = json.loads(about["settings"])
            pointer = LabelledTeamPointer.from_tensors(tensors)
            if pointer.weights.shape != (_N_FEATURES,):
                raise ValueError("features of another version")
            if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
                raise ValueError("numbers that are not finite")
            return cls(
                pointer, float(settings["set_mass"]), bool(settings["is_better"]), settings["figures"], digest=digest
            )
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TracerUnavailable(
                f"expected a head for steps in {str(path)!r}, got {error}. Learn it again: "
                "blamespan train --labels FILE"
            ) from error


def step_head_in_use() -> StepHead | None:
    """Load the head that `BLAMESPAN_STEP_HEAD` names; None where it names none, or one that is no better.

    Raises:
        TracerUnavailable: if the file is missing or damaged.
    """
    return load_in_use(_VARIABLE, StepHead.load)


def read_step_figures(path: Path) -> Figures | None:
    """Return whether the head in a file is better than the tracer, and what was measured; None where there is no file.

    Raises:
        TracerUnavailable: if it is damaged.
    """
    return read_figures(path, StepHead.load)
