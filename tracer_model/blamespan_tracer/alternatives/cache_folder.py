"""Where tracers keep on this machine what they can make again."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """Return the folder *name* below `XDG_CACHE_HOME`, or else `~/.cache`; it may not be there yet."""
    base = os.environ.get("XDG_CACHE_HOME", "").strip()
    return (Path(base) if base else Path("~/.cache").expanduser()) / "blamespan" / name
