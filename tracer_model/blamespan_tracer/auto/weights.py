"""The file of the tracer `auto`: what weighs observations, experts and kinds of runs, and where it comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from blamespan.errors import TracerUnavailable
from blamespan_tracer.auto.claim_model import CLAIM_FEATURES, ClaimModel
from blamespan_tracer.auto.evidence_pointer import EVIDENCE_FEATURES, EvidencePointer
from blamespan_tracer.auto.experts import RUN_KINDS, Gate, LabelledTeamPointer
from blamespan_tracer.auto.observations import SurpriseTable
from blamespan_tracer.numeric import softmax
from blamespan_tracer.weights_file import read_weights, write_weights

__all__ = ["FORMAT", "AutoWeights", "Sharing"]

FORMAT = "blamespan-auto-7"
"""Changes whenever a file written before can no longer be read."""

_NEVER = -1e9


@dataclass(frozen=True, slots=True)
class Sharing:
    """How an expert's opinion and evidence come to shares of the blame.

    Dims: T steps.

    Attributes:
        sharpness: What the expert's scores are multiplied by.
        weight: What a nat of evidence adds to a step's score.
        margin: How far below "nothing is wrong" evidence counts already, in nats.
    """

    sharpness: float
    weight: float
    margin: float

    def share(
        self,
        opinion: NDArray[np.float64],
        evidence: NDArray[np.float32],
        nothing: float,
        can_be_blamed: NDArray[np.bool_],
    ) -> NDArray[np.float64]:
        """Return (T,) shares.

        Args:
            opinion: (T,) the expert's scores.
            evidence: (T,) the pointer's, and
            nothing: its score for a run in which nothing is wrong.
            can_be_blamed: (T,) bool.
        """
        counted = np.maximum(evidence.astype(np.float64) - nothing + self.margin, 0.0)
        return softmax(np.where(can_be_blamed, self.sharpness * opinion + self.weight * counted, _NEVER))


@dataclass(frozen=True, slots=True)
class AutoWeights:
    """What the tracer `auto` was trained to.

    Attributes:
        table: How rarely sound runs show each kind of observation.
        claims: Says how likely a claim is wrong.
        pointer: Points at a step by its evidence.
        labelled_team: The pointer for teams that people labelled.
        gate: Says how far a run is like those of labelled teams.
        sharing: By kind of run, `labelled team` and `prose`: how blame is shared.
        set_mass: By kind of run: the share of blame that a step set must hold.
        alarm: Probability of a mistake, by the pointer, from which on a run is called failed.
        network: Digest of the weights of the network that it was trained beside, and
        lexical: of those of the lexical tracer.
        about: Where it comes from.
        digest: Of the file.
    """

    table: SurpriseTable
    claims: ClaimModel
    pointer: EvidencePointer
    labelled_team: LabelledTeamPointer
    gate: Gate
    sharing: Mapping[str, Sharing]
    set_mass: Mapping[str, float]
    alarm: float
    network: str
    lexical: str
    about: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def save(self, path: Path) -> str:
        """Write the file; return its digest."""
        tensors = {
            **self.table.tensors(),
            **self.claims.tensors(),
            **self.pointer.tensors(),
            **self.labelled_team.tensors(),
            **self.gate.tensors(),
        }
        settings = {
            "surprises": self.table.names(),
            "features": EVIDENCE_FEATURES,
            "claim_features": CLAIM_FEATURES,
            "kinds": RUN_KINDS,
            "sharing": {kind: asdict(one) for kind, one in self.sharing.items()},
            "set_mass": dict(self.set_mass),
            "alarm": self.alarm,
            "network": self.network,
            "lexical": self.lexical,
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
            if (tuple(settings["features"]), tuple(settings["kinds"])) != (EVIDENCE_FEATURES, RUN_KINDS):
                raise ValueError("features of another version")
            if tuple(settings["claim_features"]) != CLAIM_FEATURES:
                raise ValueError("features of another version")
            if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
                raise ValueError("numbers that are not finite")
            return cls(
                table=SurpriseTable.from_tensors(tensors, settings["surprises"]),
                claims=ClaimModel.from_tensors(tensors),
                pointer=EvidencePointer.from_tensors(tensors),
                labelled_team=LabelledTeamPointer.from_tensors(tensors),
                gate=Gate.from_tensors(tensors),
                sharing={kind: Sharing(**one) for kind, one in settings["sharing"].items()},
                set_mass=settings["set_mass"],
                alarm=settings["alarm"],
                network=settings["network"],
                lexical=settings["lexical"],
                about=json.loads(about["about"]),
                digest=digest,
            )
        except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TracerUnavailable(
                f"expected weights of the tracer auto in {str(path)!r}, got {error}. Install blamespan again, or train "
                "them"
            ) from error
