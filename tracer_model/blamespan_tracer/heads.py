"""Heads: small models that a user's own runs taught, each in a file of its own, and used only where it is better."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from blamespan.errors import TracerUnavailable
from blamespan_tracer.weights_file import read_weights

__all__ = ["Figures", "Head", "load_head", "load_in_use", "read_figures"]

Figures: TypeAlias = tuple[bool, Mapping[str, Any]]
"""Whether a head is better than the tracer, and what was measured when it was learnt."""


class Head(Protocol):
    """What a file of a head says of itself."""

    @property
    def is_better(self) -> bool:
        """Whether it was measurably better than the tracer by itself."""

    @property
    def figures(self) -> Mapping[str, Any]:
        """What was measured when it was learnt."""


_HeadT = TypeVar("_HeadT", bound=Head)


def load_head(
    path: Path,
    wanted: str,
    build: Callable[[Mapping[str, NDArray[Any]], Mapping[str, Any], str], _HeadT],
    *,
    what_for: str,
    command: str,
) -> _HeadT:
    """Read a head from the file at *path*.

    Args:
        path: Of the file.
        wanted: The format that it must be of.
        build: Makes a head of the tensors, the settings and the digest; a `ValueError` says why it cannot.
        what_for: What the head is for, such as `outcomes`.
        command: What learns it again.

    Raises:
        TracerUnavailable: if the file is missing, damaged or of another version.
    """
    try:
        tensors, about, digest = read_weights(path, wanted)
        head = build(tensors, json.loads(about["settings"]), digest)
        if not all(np.isfinite(tensor).all() for tensor in tensors.values()):
            raise ValueError("numbers that are not finite")
        return head
    except (OSError, SafetensorError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise TracerUnavailable(
            f"expected a head for {what_for} in {str(path)!r}, got {error}. Learn it again: {command}"
        ) from error


def load_in_use(variable: str, load: Callable[[Path], _HeadT]) -> _HeadT | None:
    """Load the head that a variable of the environment names; None where it names none, or one that is no better.

    Args:
        variable: Its name.
        load: Reads a file, and raises `TracerUnavailable` where it is missing or damaged.
    """
    named = os.environ.get(variable, "").strip()
    if not named or named.lower() == "none":
        return None
    head = load(Path(named).expanduser())
    return head if head.is_better else None


def read_figures(path: Path, load: Callable[[Path], Head]) -> Figures | None:
    """Return what the head in a file says of itself; None where there is no file.

    Args:
        path: Of the file.
        load: As for `load_in_use`.
    """
    if not path.exists():
        return None
    head = load(path)
    return head.is_better, head.figures
