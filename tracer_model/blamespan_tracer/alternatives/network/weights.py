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
from blamespan_tracer.alternatives.network.prose_expert import ProseExpert
from blamespan_tracer.weights_file import read_weights, write_weights

__all__ = ["FORMAT", "Network"]

FORMAT = "blamespan-network-7"
"""Changes whenever a file written before can no longer be read."""

_ROUNDING = 1e-9
"""5 percent is 0.05, whichever way it is written."""

_PROSE = "prose."
"""Prefix of the weights of the prose expert."""

_NAME_PARTS_IN_FILE = (
    ("embedding", "words"),
    ("sentence.weight", "sentence.in"),
    ("attention.norm.", "attend."),
    ("attention.query_key_value", "attend.in"),
    ("attention.relation_bias", "attend.relations"),
    ("attention.output", "attend.out"),
    ("mlp.norm.", "think."),
    ("mlp.up_bias", "think.bias"),
    ("mlp.up", "think.in"),
    ("mlp.down", "think.out"),
    ("input.", "in."),
    ("output.norm.", "out."),
    ("output.no_failure", "out.sound"),
    ("output.", "out."),
)
"""Parts of the names of weights, and what stands for them in a file; the first that occurs is taken."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Network:
    """A trained network, or an ensemble of networks whose scores are averaged.

    Attributes:
        shape: How large each is.
        ensemble: The weights of each, by name, float32, of 16-bit precision.
        vocabulary: The tokens it knows.
        mean: (F,) and
        spread: (F,) of the features in training; `inputs.scale_features` scales by them.
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
        prose_expert: Judges runs that language models wrote; None where the network judges all.
    """

    shape: Shape
    ensemble: tuple[Mapping[str, Floats], ...]
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
    prose_expert: ProseExpert | None = None

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
                "blamespan train tracer_model/recipes/network.toml --data DIR"
            )
        share, alarm = max(allowed)
        return replace(self, alarm=alarm, false_alarms=share)

    def save(self, path: Path) -> str:
        """Write the network to *path*, weights in 16 bits; return the digest that identifies the file."""
        tensors: dict[str, NDArray[Any]] = {
            f"{number}.{_name_in_file(name)}": weight.astype(np.float16)
            for number, weights in enumerate(self.ensemble)
            for name, weight in weights.items()
        }
        tensors |= {"mean": self.mean, "spread": self.spread, "vocabulary": self.vocabulary.hashes}
        if self.prose_expert is not None:
            tensors |= {f"{_PROSE}{name}": value for name, value in self.prose_expert.tensors().items()}
        about = {
            "format": FORMAT,
            "shape": json.dumps(asdict(self.shape)),
            "members": str(len(self.ensemble)),
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
            ensemble = tuple(_read_network(tensors, number, shape) for number in range(int(about["members"])))
            if len(tensors["vocabulary"]) != shape.n_words:
                raise ValueError(f"{len(tensors['vocabulary'])} words where {shape.n_words} are told of")
            if not ensemble or not all(np.isfinite(tensor).all() for tensor in tensors.values()):
                raise ValueError("weights that are no numbers" if ensemble else "no weights")
            temperature, set_mass, coverage, alarm, false_alarms = parse_json(about["calibration"])
            return cls(
                shape,
                ensemble,
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
                _check_alarms(parse_json(about.get("alarms", "[]"))),
                _read_prose_expert(tensors, shape),
            )
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise TracerUnavailable(
                f"expected a network in {str(path)!r} (format {FORMAT}), got {error}. "
                "Reinstall blamespan or train it again"
            ) from error


def _check_alarms(pairs: Any) -> tuple[tuple[float, float], ...]:
    """Check the alarms that a file names; it may hold anything."""
    alarms = tuple(sorted((float(percent), float(alarm)) for percent, alarm in pairs))
    if not all(0 <= percent <= 100 and math.isfinite(alarm) for percent, alarm in alarms):
        raise ValueError(f"alarms {pairs!r}")
    return alarms


def _read_prose_expert(tensors: Mapping[str, NDArray[Any]], shape: Shape) -> ProseExpert | None:
    own = {name.removeprefix(_PROSE): value for name, value in tensors.items() if name.startswith(_PROSE)}
    return ProseExpert.from_tensors(own, shape.n_features, shape.n_modes) if own else None


def _read_network(tensors: Mapping[str, NDArray[Any]], number: int, shape: Shape) -> dict[str, Floats]:
    weights = {name: tensors[f"{number}.{_name_in_file(name)}"].astype(np.float32) for name in shape.parameters()}
    wrong = [name for name, size in shape.parameters().items() if weights[name].shape != size]
    if wrong:
        raise ValueError(f"weights {wrong!r} of another size")
    return weights


def _name_in_file(name: str) -> str:
    """Return what a weight of `Shape.parameters` is called in a file: names there are those of the first version."""
    return next((name.replace(part, stored) for part, stored in _NAME_PARTS_IN_FILE if part in name), name)
