"""Settings of the network: its weights, where it computes, and how many false alarms it may raise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from blamespan.errors import ConfigError
from blamespan.plugins import require

if TYPE_CHECKING:
    from blamespan_tracer.alternatives.network.inference import InferenceEngine
    from blamespan_tracer.alternatives.network.weights import Network

__all__ = ["NetworkSettings"]

_WEIGHTS, _DEVICE, _ALARMS = "BLAMESPAN_NETWORK_WEIGHTS", "BLAMESPAN_DEVICE", "BLAMESPAN_MAX_FALSE_ALARMS"
_DEVICES = re.compile(r"auto|cpu|cuda(?::\d{1,3})?", re.ASCII)
_SHARE = re.compile(r"(\d{0,3}(?:\.\d{1,9})?)\s?(%?)", re.ASCII)


@dataclass(frozen=True, slots=True)
class NetworkSettings:
    """Settings of the network, by the environment.

    Attributes:
        weights: File in place of the bundled weights, as `blamespan train` writes it; None for those.
        device: `cpu`, `cuda`, `cuda:N`, or `auto` for the first GPU where there is one.
        max_false_alarms: Share of sound runs that may raise an alarm, 0..1; None for what the weights were trained for.
    """

    weights: Path | None = None
    device: str = "cpu"
    max_false_alarms: float | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> NetworkSettings:
        """Read `BLAMESPAN_NETWORK_WEIGHTS`, `BLAMESPAN_DEVICE` and `BLAMESPAN_MAX_FALSE_ALARMS`.

        Raises:
            ConfigError: if one is wrong.
        """
        weights, device, share = (environment.get(name, "").strip() for name in (_WEIGHTS, _DEVICE, _ALARMS))
        if device and not _DEVICES.fullmatch(device):
            raise ConfigError(
                f"{_DEVICE} and --device must be cpu, cuda, cuda:N or auto, got {device!r}. Leave it out for the CPU"
            )
        return cls(
            weights=Path(weights).expanduser() if weights else None,
            device=device or "cpu",
            max_false_alarms=_read_share(share) if share else None,
        )

    def engine(self, network: Network) -> InferenceEngine | None:
        """Return what computes on the device; None for the CPU, which needs no PyTorch.

        Raises:
            MissingExtra: if PyTorch is not installed.
            TracerUnavailable: if there is no such device.
        """
        if self.device == "cpu":
            return None
        require("torch", "train")
        from blamespan_tracer.alternatives.network.torch_inference import TorchEngine, find_device

        device = find_device(self.device)
        return None if device.type == "cpu" else TorchEngine(network, device)


def _read_share(text: str) -> float:
    """Read `0.05` or `5%`; a bare `5` might be either."""
    match = _SHARE.fullmatch(text)
    number = float(match[1]) / (100 if match[2] else 1) if match and match[1] not in ("", ".") else -1.0
    if not 0 <= number < 1:
        raise ConfigError(
            f"{_ALARMS} and --max-false-alarms must be a share of sound runs such as 0.05 or 5%, got {text!r}. "
            "Leave it out for what the weights were trained for"
        )
    return number
