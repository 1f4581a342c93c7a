"""Which device of this machine a setting means to PyTorch."""

from __future__ import annotations

import torch

from blamespan.errors import TracerUnavailable

__all__ = ["device_named"]


def device_named(name: str, *, asked_by: str, otherwise: str) -> torch.device:
    """Find the device that *name* means: `auto` is the first GPU where there is one, else the CPU.

    Args:
        name: As PyTorch names devices, or `auto`.
        asked_by: The setting, for the message, with what it takes: `BLAMESPAN_DEVICE as a device of this machine`.
        otherwise: What to do, for the message.

    Raises:
        TracerUnavailable: if there is no such device.
    """
    chosen = ("cuda" if torch.cuda.is_available() else "cpu") if name == "auto" else name
    try:
        return torch.empty(0, device=chosen).device
    except (RuntimeError, AssertionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise TracerUnavailable(f"expected {asked_by}, got {name!r} ({reason}). {otherwise}") from error
