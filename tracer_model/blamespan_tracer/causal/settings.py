"""Where a causal tracer finds its model and what it may spend: by the environment, or as training left it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from blamespan.errors import ConfigError, TracerUnavailable
from blamespan_tracer.causal.prompts import QUESTIONS, Question

__all__ = ["FILE", "CausalSettings", "Learnt"]

FILE = "blamespan_causal.json"
"""What training found out about a model or an adapter, beside its weights."""

_FORMAT = "blamespan-causal-1"
_PREFIX = "BLAMESPAN_CAUSAL_"


@dataclass(frozen=True, slots=True)
class Learnt:
    """What training found out; the defaults are for a model that was never trained here.

    Attributes:
        question: What it was taught to answer.
        is_brief: Whether it is asked in one line, without the format and the kinds of errors.
        contracts: Whether it was shown which contracts each decision breaks.
        thinks: Most tokens of thought it was taught with; 0 for none.
        context: Most tokens of prompt and reply it was taught with; 0 for what the model says.
        temperature: The log-probabilities of its answers are divided by it.
        set_mass: Share of the blame that a step set is to hold.
        alarm: Chance of failure from which on a run is called failed.
        base: Fingerprint of the model that an adapter was trained on; empty for a whole model.
    """

    question: Question = "step"
    is_brief: bool = False
    contracts: bool = False
    thinks: int = 0
    context: int = 0
    temperature: float = 1.0
    set_mass: float = 0.8
    alarm: float = 0.0
    base: str = ""

    @property
    def _is_in_range(self) -> bool:
        whole = self.question in QUESTIONS and min(self.thinks, self.context) >= 0
        return whole and math.isfinite(self.temperature) and self.temperature > 0 and 0 < self.set_mass <= 1

    def save(self, folder: Path) -> None:
        """Write it into *folder*."""
        content = json.dumps({"format": _FORMAT, **asdict(self)}, indent=1)
        (folder / FILE).write_text(content + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Learnt:
        """Read what `save` wrote; the defaults where nothing is there.

        Raises:
            TracerUnavailable: if the file is damaged or of another version.
        """
        path = folder / FILE
        try:
            if not path.is_file():
                return cls()
        except OSError:  # an id that no system takes for a path
            return cls()
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            kinds = {spec.name: type(getattr(_DEFAULT, spec.name)) for spec in fields(cls)}
            learnt = cls(**{name: _of_kind(content[name], kind) for name, kind in kinds.items()})
            if content.pop("format") != _FORMAT or not learnt._is_in_range:
                raise ValueError("another format or values out of range")
            return learnt
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise TracerUnavailable(
                f"expected what training found out (format {_FORMAT}) in {str(path)!r}, got {error!r}. Train it again, "
                "or remove the file to use the model uncalibrated"
            ) from error


_DEFAULT = Learnt()


@dataclass(frozen=True, slots=True)
class CausalSettings:
    """Which model, and what it may spend.

    Attributes:
        model: Folder or Hugging Face id; empty for the base that the adapter names.
        adapter: Folder or id of a PEFT adapter; empty for none.
        device: `auto`, or what `torch.device` takes.
        batch: Most runs read together.
        max_new_tokens: Most tokens of thought, 0 for none; None for what training left.
        context: Most tokens of prompt and reply; None for what training left, or else the model's own, 32,768 at most.
        contracts: Whether runs are shown with the contracts that each decision breaks; None for what training left.
        is_constrained: Whether only possible answers can be written; else one that cannot be read is no verdict.
    """

    model: str = ""
    adapter: str = ""
    device: str = "auto"
    batch: int = 4
    max_new_tokens: int | None = None
    context: int | None = None
    contracts: bool | None = None
    is_constrained: bool = True

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> CausalSettings:
        """Read `BLAMESPAN_CAUSAL_MODEL` and the other variables of docs/llm.md.

        Raises:
            ConfigError: if one is wrong, or neither model nor adapter is named.
        """
        variables = os.environ if environment is None else environment
        read: dict[str, Any] = {}  # Any: values of several types, each checked below
        for name in ("model", "adapter", "device"):
            if value := variables.get(f"{_PREFIX}{name.upper()}", "").strip():
                read[name] = value
        for name, least in (("batch", 1), ("max_new_tokens", 0), ("context", 256)):
            if value := variables.get(f"{_PREFIX}{name.upper()}", "").strip():
                read[name] = _whole(f"{_PREFIX}{name.upper()}", value, least)
        for name, key in (("CONSTRAINED", "is_constrained"), ("CONTRACTS", "contracts")):
            if value := variables.get(f"{_PREFIX}{name}", "").strip():
                if value not in ("0", "1"):
                    raise ConfigError(f"{_PREFIX}{name} must be 0 or 1, got {value!r}. Correct it or leave it out")
                read[key] = value == "1"
        settings = replace(cls(), **read)
        if not (settings.model or settings.adapter):
            raise ConfigError(
                "the tracer 'causal' needs a model, got none. Set BLAMESPAN_CAUSAL_MODEL to a folder or a Hugging Face "
                "id, or BLAMESPAN_CAUSAL_ADAPTER to what `blamespan train` left; docs/llm.md says how to train one"
            )
        return settings


def _of_kind(value: Any, kind: type) -> Any:
    """Take a value as it is, and a whole number for any number; nothing else is made to fit."""
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    raise TypeError(f"{value!r} where {kind.__name__} is wanted")


def _whole(name: str, value: str, least: int) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 10 and int(value) >= least):
        raise ConfigError(f"{name} must be a whole number >= {least}, got {value!r}. Correct it or leave it out")
    return int(value)
