"""Weights files: safetensors whose bytes depend on what is in them alone, so that a digest identifies them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from blamespan.importing.files import check_is_file
from blamespan.json_text import parse_json


class _Dataclass(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


_DataclassT = TypeVar("_DataclassT", bound=_Dataclass)


def to_tensors(record: _Dataclass, prefix: str) -> dict[str, NDArray[Any]]:
    """Return the arrays of a record of arrays, each by the prefix and the name of its field."""
    return {f"{prefix}_{field.name}": getattr(record, field.name) for field in fields(record)}


def from_tensors(record: type[_DataclassT], tensors: Mapping[str, NDArray[Any]], prefix: str) -> _DataclassT:
    """Build a record from what `to_tensors` returned.

    Raises:
        KeyError: if something is missing.
    """
    return record(**{field.name: tensors[f"{prefix}_{field.name}"] for field in fields(record)})


def write_weights(path: Path, tensors: Mapping[str, NDArray[Any]], about: dict[str, str]) -> str:
    """Write *tensors* and what is *about* them to *path*; return the digest that identifies the file."""
    # safetensors writes an array's memory, not its view: a strided one would come back scrambled.
    content = _in_fixed_order(save({name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}, about))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return digest_of(content)


def read_weights(path: Path, wanted: str) -> tuple[dict[str, NDArray[Any]], dict[str, str], str]:
    """Read what `write_weights` wrote: the tensors, what is said about them, and the digest that identifies the file.

    Args:
        path: The file, read once.
        wanted: The `format` that it must be about.

    Raises:
        OSError: if it cannot be read.
        SafetensorError: if its tensors are damaged.
        ValueError: if its header is, or it is of another format or no file.
    """
    check_is_file(path)
    content = path.read_bytes()
    about = _metadata(content)
    if about.get("format") != wanted:
        raise ValueError(f"format {about.get('format')!r}")
    return load(content), about, digest_of(content)


def format_of(path: Path) -> str:
    """Return the format that the file at *path* says it is of, such as `blamespan-auto-5`; empty where it says none."""
    try:
        with safe_open(path, framework="numpy") as file:
            return str((file.metadata() or {}).get("format", ""))
    except (OSError, SafetensorError):
        return ""


def _metadata(content: bytes) -> dict[str, str]:
    """Read the header's `__metadata__`, which safetensors' in-memory reader leaves out."""
    size = int.from_bytes(content[:8], "little")
    if not 2 <= size <= min(len(content), 10_000_000):
        raise ValueError(f"a header of {size} bytes in a file of {len(content)}")
    header = parse_json(content[8 : 8 + size])
    about = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(about, dict):
        raise ValueError("a file without metadata")
    return about


def digest_of(content: bytes) -> str:
    """Identify a file by its bytes: 12 hex digits."""
    return sha256(content).hexdigest()[:12]


def _in_fixed_order(content: bytes) -> bytes:
    """Sort the header: safetensors writes metadata in an order that differs from run to run."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]
