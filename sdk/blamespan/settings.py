"""Settings of the process that is watched: an argument wins over a `BLAMESPAN_*` variable, that over a default."""

from __future__ import annotations

import os

from blamespan import conventions
from blamespan.errors import ConfigError

__all__ = ["max_content_bytes"]


def max_content_bytes(argument: int | None = None) -> int:
    """Bytes that one content attribute may hold: *argument*, `BLAMESPAN_MAX_CONTENT_BYTES` or 32 KiB.

    Raises:
        ConfigError: if it is not a whole number of at least 64.
    """
    name = "BLAMESPAN_MAX_CONTENT_BYTES"
    said = argument if argument is not None else os.environ.get(name, conventions.DEFAULT_MAX_CONTENT_BYTES)
    try:
        value = int(said)
    except ValueError:
        value = 0
    if value < 64:
        raise ConfigError(f"{name} must be a whole number of at least 64, got {said!r}. Set it like {name}=32768")
    return value
