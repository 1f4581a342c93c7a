"""Weights files: safetensors whose bytes depend on what is in them alone, so that a digest identifies them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

__all__ = ["digest_of", "write_weights"]


def write_weights(path: Path, tensors: Mapping[str, NDArray[Any]], about: dict[str, str]) -> str:
    """Write *tensors* and what is *about* them to *path*; return the digest that identifies the file."""
    # safetensors writes an array's memory, not its view: a strided one would come back scrambled.
    content = _in_fixed_order(save({name: np.ascontiguousarray(each) for name, each in tensors.items()}, about))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return digest_of(content)


def digest_of(content: bytes) -> str:
    """Identify a file by its bytes: 12 hex digits."""
    return sha256(content).hexdigest()[:12]


def _in_fixed_order(content: bytes) -> bytes:
    """Sort the header: safetensors writes metadata in an order that differs from run to run."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]
