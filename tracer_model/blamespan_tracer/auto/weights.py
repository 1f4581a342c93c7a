"""The file of the tracer `auto`: trees over claims, the model of steps, and where they come from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError

from blamespan.errors import TracerUnavailable
from blamespan_tracer.auto.claim_model import CLAIM_FEATURES, ClaimModel
from blamespan_tracer.auto.step_model import EVIDENCE_FEATURES, EvidenceModel, StepModel
from blamespan_tracer.auto.step_prior import PRIOR_FEATURES, StepPrior
from blamespan_tracer.weights_file import read_weights, write_weights

BUNDLED = Path(__file__).parents[1] / "weights" / "auto.safetensors"
"""The weights that come with the package."""

FORMAT = "blamespan-auto-9"
"""Changes whenever a file written before can no longer be read."""

_FEATURES = {"claims": CLAIM_FEATURES, "evidence": EVIDENCE_FEATURES, "prior": PRIOR_FEATURES}


@dataclass(frozen=True, slots=True)
class AutoWeights:
    """What the tracer `auto` was trained to.

    Attributes:
        claims: Says how likely a claim is wrong.
        model: Says which step is wrong, or that nothing is.
        set_mass: Share of blame that a step set must hold.
        alarm: Probability of a mistake from which on a run is called failed.
        about: Where it comes from.
        digest: Of the file.
    """

    claims: ClaimModel
    model: StepModel
    set_mass: float
    alarm: float
    about: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def save(self, path: Path) -> str:
        """Write the file; return its digest."""
        tensors = {**self.claims.tensors(), **self.model.evidence.tensors(), **self.model.prior.tensors()}
        settings = {
            "features": _FEATURES,
            "sharpness": self.model.sharpness,
            "threshold": self.model.threshold,
            "set_mass": self.set_mass,
            "alarm": self.alarm,
        }
        about = {"format": FORMAT, "settings": json.dumps(settings), "about": json.dumps(dict(self.about))}
        return write_weights(path, tensors, about)

    @classmethod
    def load(cls, path: Path) -> AutoWeights:
        """Read a file that `save` wrote.

        Raises:
            TracerUnavailable: if it is missing, damaged or of another version.
        """
        try:
            tensors, about, digest = read_weights(path, FORMAT)
            settings = json.loads(about["settings"])
            if {name: tuple(columns) for name, columns in settings["features"].items()} != _FEATURES:
                raise ValueError("features of another version")
            if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
                raise ValueError("numbers that are not finite")
            return cls(
                claims=ClaimModel.from_tensors(tensors),
                model=StepModel(
                    EvidenceModel.from_tensors(tensors),
                    StepPrior.from_tensors(tensors),
                    float(settings["sharpness"]),
                    float(settings["threshold"]),
                ),
                set_mass=float(settings["set_mass"]),
                alarm=float(settings["alarm"]),
                about=json.loads(about["about"]),
                digest=digest,
            )
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TracerUnavailable(
                f"expected weights of the tracer auto in {str(path)!r}, got {error}. Install blamespan again, or train "
                "them"
            ) from error
