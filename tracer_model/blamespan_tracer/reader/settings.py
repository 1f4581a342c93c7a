"""Which language model reads, where, and how much of a run: by the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blamespan.errors import ConfigError

__all__ = ["ReaderSettings"]

_PREFIX = "BLAMESPAN_READER_"
_LEAST_BUDGET = 256


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Settings of the reader.

    Attributes:
        model: Folder or Hugging Face id of a causal language model; empty for what `blamespan[reader]` installs.
        device: `auto` for the first GPU or else the CPU, or what `torch.device` takes.
        budget: Most tokens of a run that it reads; 0 for as many as it is used to.
        weights: File in place of the bundled weights, as `blamespan train` writes it; None for those.
    """

    model: str = ""
    device: str = "auto"
    budget: int = 0
    weights: Path | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ReaderSettings:
        """Read `BLAMESPAN_READER_MODEL`, `_DEVICE`, `_BUDGET` and `_WEIGHTS`.

        Raises:
            ConfigError: if one is wrong.
        """
        model, device, budget, weights = (
            environment.get(f"{_PREFIX}{name}", "").strip() for name in ("MODEL", "DEVICE", "BUDGET", "WEIGHTS")
        )
        if budget and not (budget.isascii() and budget.isdigit() and _LEAST_BUDGET <= int(budget) < 10**9):
            raise ConfigError(
                f"{_PREFIX}BUDGET and --reader-budget must be a whole number of tokens >= {_LEAST_BUDGET}, got "
                f"{budget!r}. Leave it out for two windows of the model"
            )
        return cls(model, device or "auto", int(budget or 0), Path(weights).expanduser() if weights else None)
