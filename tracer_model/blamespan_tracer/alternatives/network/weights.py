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
from safetensors import SafetensorError

from blamespan.errors import ConfigError, TracerUnavailable
from blamespan.json_text import parse_json
from blamespan_tracer.alternatives.network.inputs import Vocabulary, scale_features
from blamespan_tracer.alternatives.network.model import Shape
from blamespan_tracer.weights_file import read_weights, write_weights

FORMAT = "blamespan-network-8"
"""Changes whenever a file written before can no longer be read."""

_ROUNDING = 1e-9
"""5 percent is 0.05, whichever way it is written."""

_STEPS = 127
"""Steps from 0 to the largest value of a row of the embedding, which a file holds in 8 bits."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Network:
    """A trained network.

    Attributes:
        shape: How large it is.
        weights: By name, float32, of the precision that `round_weights` leaves.
        vocabulary: The tokens it knows.
        mean: (F,) and
        spread: (F,) of the features in training; `inputs.scale_features` scales by them.
        features: (F,) what each column means; a file whose columns are others is refused.
        modes: (K,) what each mode is, as `taxonomy:code`.
        lexicon: Digest of the lexicon whose scores are among the features.
        temperature: The pointer's scores are divided by it: its probabilities then mean what they say.
        set_mass: Share of the blame that a step set must hold for it to hold the decisive step in as many held-out
            failures as the recipe asked for.
        alarm: Probability of failure from which on a run is called failed, and
        false_alarms: the share of clean held-out runs it was chosen for.
        notes: How it was made; for people.
        alarms: Alarms for other budgets: percent of clean held-out runs, ascending, and the alarm for it; may be empty.
        digest: First 12 hex digits of the file's SHA-256, empty before it is written.
    """

    shape: Shape
    weights: Mapping[str, Floats]
    vocabulary: Vocabulary
    mean: Floats
    spread: Floats
    features: tuple[str, ...]
    modes: tuple[str, ...]
    lexicon: str
    temperature: float = 1.0
    set_mass: float = 0.8
    alarm: float = 0.5
    false_alarms: float = 0.05
    notes: dict[str, str] = field(default_factory=dict)
    digest: str = ""
    alarms: tuple[tuple[float, float], ...] = ()

    def scale(self, features: Floats) -> Floats:
        """Scale features as in training."""
        return scale_features(features, self.mean, self.spread)

    def with_alarm_for(self, max_false_alarms: float) -> Network:
        """Return the same network with the alarm for the largest budget on file that is no more than asked for.

        Args:
            max_false_alarms: Share of sound runs that may raise an alarm, 0..1.

        Raises:
            ConfigError: if no budget on file is so small.
        """
        budgets = [(self.false_alarms, self.alarm), *((percent / 100, alarm) for percent, alarm in self.alarms)]
        allowed = [pair for pair in budgets if pair[0] <= max_false_alarms + _ROUNDING]
        if not allowed:
            offered = ", ".join(f"{share:.3g}" for share in sorted({share for share, _ in budgets}))
            raise ConfigError(
                f"expected weights with an alarm for at most {max_false_alarms:.3g} false alarms, got weights "
                f"{self.digest or '(not saved)'!r} with alarms for {offered}. Leave --max-false-alarms and "
                "BLAMESPAN_MAX_FALSE_ALARMS out, ask for one of these, or train on more sound runs: "
                "blamespan lab train network --data DIR"
            )
        share, alarm = max(allowed)
        return replace(self, alarm=alarm, false_alarms=share)

    def save(self, path: Path) -> str:
        """Write the network to *path*; return the digest that identifies the file."""
        tensors: dict[str, NDArray[Any]] = {name: weight.astype(np.float16) for name, weight in self.weights.items()}
        tensors["embedding"], tensors["embedding.step"] = _quantize(self.weights["embedding"])
        tensors |= {"mean": self.mean, "spread": self.spread, "vocabulary": self.vocabulary.hashes}
        about = {
            "format": FORMAT,
            "shape": json.dumps(asdict(self.shape)),
            "features": json.dumps(self.features),
            "modes": json.dumps(self.modes),
            "lexicon": self.lexicon,
            "calibration": json.dumps([self.temperature, self.set_mass, self.alarm, self.false_alarms]),
            "alarms": json.dumps(self.alarms),
            "notes": json.dumps(self.notes, sort_keys=True),
        }
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
            if len(tensors["vocabulary"]) != shape.n_words:
                raise ValueError(f"{len(tensors['vocabulary'])} words where {shape.n_words} are told of")
            if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
                raise ValueError("weights that are no numbers")
            temperature, set_mass, alarm, false_alarms = parse_json(about["calibration"])
            return cls(
                shape,
                _read_parameters(tensors, shape),
                Vocabulary(tensors["vocabulary"]),
                tensors["mean"],
                tensors["spread"],
                tuple(parse_json(about["features"])),
                tuple(parse_json(about["modes"])),
                about["lexicon"],
                temperature,
                set_mass,
                alarm,
                false_alarms,
                parse_json(about["notes"]),
                digest,
                _check_alarms(parse_json(about["alarms"])),
            )
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise TracerUnavailable(
                f"expected a network in {str(path)!r} (format {FORMAT}), got {error}. "
                "Reinstall blamespan or train it again"
            ) from error


def round_weights(weights: Mapping[str, Floats]) -> dict[str, Floats]:
    """Round weights as a file holds them: what is measured is what is shipped."""
    rounded = {name: weight.astype(np.float16).astype(np.float32) for name, weight in weights.items()}
    return rounded | {"embedding": _dequantize(*_quantize(weights["embedding"]))}


def _quantize(rows: Floats) -> tuple[NDArray[np.int8], NDArray[np.float16]]:
    """Return (V, E) *rows* in 8 bits, and how much 1 is worth in each, (V, 1)."""
    step = (np.abs(rows).max(axis=1, keepdims=True, initial=0) / _STEPS).astype(np.float16)
    in_steps = rows / np.where(step > 0, step, 1).astype(np.float32)
    return np.clip(np.rint(in_steps), -_STEPS, _STEPS).astype(np.int8), step


def _dequantize(rows: NDArray[np.int8], step: NDArray[np.float16]) -> Floats:
    return rows.astype(np.float32) * step.astype(np.float32)


def _check_alarms(pairs: Any) -> tuple[tuple[float, float], ...]:
    """Check the alarms that a file names; it may hold anything."""
    alarms = tuple(sorted((float(percent), float(alarm)) for percent, alarm in pairs))
    if not all(0 <= percent <= 100 and math.isfinite(alarm) for percent, alarm in alarms):
        raise ValueError(f"alarms {pairs!r}")
    return alarms


def _read_parameters(tensors: Mapping[str, NDArray[Any]], shape: Shape) -> dict[str, Floats]:
    weights = {name: tensors[name].astype(np.float32) for name in shape.parameters() if name != "embedding"}
    weights["embedding"] = _dequantize(tensors["embedding"], tensors["embedding.step"])
    wrong = [name for name, size in shape.parameters().items() if weights[name].shape != size]
    if wrong:
        raise ValueError(f"weights {wrong!r} of another size")
    return weights
