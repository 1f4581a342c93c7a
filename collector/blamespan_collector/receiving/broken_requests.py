"""Requests that broke us, kept with the reason for a person to look at."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path

_logger = logging.getLogger("blamespan.collector")

_MOST_REQUESTS = 100
_MOST_BYTES = 256 * 1024 * 1024


class BrokenRequests:
    """A folder of request bodies, each beside a JSON file that says what happened.

    Bounded by number and size: past it a request is counted and logged, but not kept.

    Args:
        folder: Made when the first one comes.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, body: bytes, about: Mapping[str, str]) -> Path | None:
        """Keep *body* with what is known *about* it; the same body once. Returns where; None where it was not kept."""
        path = self._folder / f"{hashlib.sha256(body).hexdigest()[:16]}.bin"
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            files = list(self._folder.glob("*.bin"))
            used_bytes = sum(file.stat().st_size for file in files)
            if path not in files and (len(files) >= _MOST_REQUESTS or used_bytes + len(body) > _MOST_BYTES):
                _logger.error("%r is full: a request that broke us was not kept", str(self._folder))
                return None
            path.write_bytes(body)
            path.with_suffix(".json").write_text(json.dumps(dict(about), indent=2), encoding="utf-8")
        except OSError as error:
            _logger.error("a request that broke us could not be kept: %s", error)
            return None
        return path
