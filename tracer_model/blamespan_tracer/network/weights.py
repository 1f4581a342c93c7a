"""The network's file: weights, scaling of the features, calibration and where it comes from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from blamespan.errors import ConfigError, TracerUnavailable
from blamespan.json_text import parse_json
from blamespan_tracer.network.inputs import scaled
from blamespan_tracer.network.model import Shape
from blamespan_tracer.network.prose import ProseJudge
from blamespan_tracer.network.vocabulary import Vocabulary
from blamespan_tracer.weights_file import read_weights, write_weights

__all__ = ["FORMAT", "Network", "is_network"]

FORMAT = "blamespan-network-7"
"""Changes whenever a file written before can no longer be read."""

_ROUNDING = 1e-9
"""5 percent is 0.05, whichever way it is written."""

_PROSE = "prose."
"""Begins the names of the weights of the second judge."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Network:
    """A trained network, or several that were trained apart and speak together.

    Attributes:
        shape: How large each is.
        members: The weights of each, by name, float32, of 16-bit precision.
        vocabulary: The words it knows.
        mean: (F,) and
        spread: (F,) of the features in training; a feature is scaled by them and cut at both ends (`inputs.scaled`).
        features: (F,) what each column means; a file whose columns are others is refused.
        modes: (K,) what each mode is, as `taxonomy:code`.
        lexicon: Digest of the lexicon whose scores are among the features.
        temperature: The pointer's scores are divided by it: its probabilities then mean what they say.
        set_mass: Share of the blame that a step set must hold for it to hold the decisive step in
        coverage: this share of held-out failures.
        alarm: Probability of failure from which on a run is called failed, and
        false_alarms: the share of clean held-out runs it was chosen for.
        notes: How it was made; for people.
        alarms: Alarms for other budgets: percent of clean held-out runs, ascending, and the alarm for it; may be empty.
        digest: First 12 hex digits of the file's SHA-256, empty before it is written.
        prose: Who judges runs that language models wrote; None where the network judges all.
    """

    shape: Shape
    members: tuple[Mapping[str, Floats], ...]
    vocabulary: Vocabulary
    mean: Floats
    spread: Floats
    features: tuple[str, ...]
    modes: tuple[str, ...]
    lexicon: str
    temperature: float = 1.0
    set_mass: float = 0.8
    coverage: float = 0.9
    alarm: float = 0.5
    false_alarms: float = 0.05
    notes: dict[str, str] = field(default_factory=dict)
    digest: str = ""
    alarms: tuple[tuple[float, float], ...] = ()
    prose: ProseJudge | None = None

    def scaled(self, features: Floats) -> Floats:
        """Scale features as in training."""
        return scaled(features, self.mean, self.spread)

    def with_alarm_for(self, max_false_alarms: float) -> Network:
        """Give the same network with the alarm for the largest budget on file that is no more than asked for.

        Args:
            max_false_alarms: Share of sound runs that may raise an alarm, 0..1.

        Raises:
            ConfigError: if no budget on file is so small.
        """
        on_file = [(self.false_alarms, self.alarm), *((percent / 100, alarm) for percent, alarm in self.alarms)]
        allowed = [pair for pair in on_file if pair[0] <= max_false_alarms + _ROUNDING]
        if not allowed:
            offered = ", ".join(f"{share:.3g}" for share in sorted({share for share, _ in on_file}))
            raise ConfigError(
                f"expected weights with an alarm for at most {max_false_alarms:.3g} false alarms, got weights "
                f"{self.digest or '(not saved)'!r} with alarms for {offered}. Leave --max-false-alarms and "
                "BLAMESPAN_MAX_FALSE_ALARMS out, ask for one of these, or train on more sound runs: "
                "blamespan train tracer_model/recipes/network.toml --data DIR"
            )
        share, alarm = max(allowed)
        return replace(self, alarm=alarm, false_alarms=share)

    def save(self, path: Path) -> str:
        """Write it to *path*, weights in 16 bits; return the digest that identifies it."""
        tensors: dict[str, NDArray[Any]] = {
            f"{number}.{name}": each.astype(np.float16)
            for number, weights in enumerate(self.members)
            for name, each in weights.items()
        }
        tensors |= {"mean": self.mean, "spread": self.spread, "vocabulary": self.vocabulary.hashes}
        if self.prose is not None:
            tensors |= {f"{_PROSE}{name}": value for name, value in self.prose.tensors().items()}
        about = {
            "format": FORMAT,
            "shape": json.dumps(asdict(self.shape)),
            "members": str(len(self.members)),
            "features": json.dumps(self.features),
            "modes": json.dumps(self.modes),
            "lexicon": self.lexicon,
            "calibration": json.dumps([self.temperature, self.set_mass, self.coverage, self.alarm, self.false_alarms]),
            "notes": json.dumps(self.notes, sort_keys=True),
        }
        if self.alarms:
            about["alarms"] = json.dumps(self.alarms)
        return write_weights(path, tensors, about)

    @classmethod
    def load(cls, path: Path) -> Network:
        """Read what `save` wrote.

        Raises:
            TracerUnavailable: if the file is missing, damaged, of another format, or holds numbers that are none.
        """
        try:
            tensors, about, digest = read_weights(path, FORMAT)
            shape = Shape(**parse_json(about["shape"]))
            members = tuple(_member(tensors, number, shape) for number in range(int(about["members"])))
            if len(tensors["vocabulary"]) != shape.n_words:
                raise ValueError(f"{len(tensors['vocabulary'])} words where {shape.n_words} are told of")
            if not members or not all(np.isfinite(each).all() for each in tensors.values()):
                raise ValueError("weights that are no numbers" if members else "no weights")
            temperature, set_mass, coverage, alarm, false_alarms = parse_json(about["calibration"])
            return cls(
                shape,
                members,
                Vocabulary(tensors["vocabulary"]),
                tensors["mean"],
                tensors["spread"],
                tuple(parse_json(about["features"])),
                tuple(parse_json(about["modes"])),
                about["lexicon"],
                temperature,
                set_mass,
                coverage,
                alarm,
                false_alarms,
                parse_json(about["notes"]),
                digest,
                _alarms(parse_json(about.get("alarms", "[]"))),
                _prose(tensors, shape),
            )
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise TracerUnavailable(
                f"expected a network in {str(path)!r} (format {FORMAT}), got {error}. "
                "Reinstall blamespan or train it again"
            ) from error


def _alarms(pairs: Any) -> tuple[tuple[float, float], ...]:
    """Check what a file says of alarms; it may say anything."""
    found = tuple(sorted((float(percent), float(alarm)) for percent, alarm in pairs))
    if not all(0 <= percent <= 100 and math.isfinite(alarm) for percent, alarm in found):
        raise ValueError(f"alarms {pairs!r}")
    return found


def _prose(tensors: Mapping[str, NDArray[Any]], shape: Shape) -> ProseJudge | None:
    own = {name.removeprefix(_PROSE): value for name, value in tensors.items() if name.startswith(_PROSE)}
    return ProseJudge.of(own, shape.n_features, shape.n_modes) if own else None


def _member(tensors: Mapping[str, NDArray[Any]], number: int, shape: Shape) -> dict[str, Floats]:
    weights = {name: tensors[f"{number}.{name}"].astype(np.float32) for name in shape.parameters()}
    wrong = [name for name, size in shape.parameters().items() if weights[name].shape != size]
    if wrong:
        raise ValueError(f"weights {wrong!r} of another size")
    return weights


def is_network(path: Path) -> bool:
    """Tell whether *path* says that it is a network, of whatever version."""
    try:
        with safe_open(path, framework="numpy") as file:
            return str((file.metadata() or {}).get("format")).startswith("blamespan-network-")
    except (OSError, SafetensorError):
        return False
