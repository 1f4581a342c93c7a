"""Heads: small models that a user's own runs taught, each in a file of its own, and used only where it is better.

A head knows one team. On a run of other agents it counts for as many of them as it knows.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from blamespan.errors import TracerUnavailable
from blamespan.plugins import find_part
from blamespan.trace import MessageActionTrace
from blamespan_tracer.weights_file import read_weights

_log = logging.getLogger(__name__)

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


def load_in_use(variable: str, name: str, load: Callable[[Path], _HeadT]) -> _HeadT | None:
    """Load the head that a variable of the environment names, else the one beside this user's store.

    Args:
        variable: Its name; `none` turns heads off.
        name: Of the file beside the store.
        load: Reads a file, and raises `TracerUnavailable` where it is missing or damaged.

    Returns:
        The head; None where there is none, or it is no better than the tracer by itself.

    Raises:
        TracerUnavailable: if the file that is named is missing or damaged.
    """
    named = os.environ.get(variable, "").strip()
    if named.lower() == "none":
        return None
    if named:
        head: _HeadT | None = load(Path(named).expanduser())
    else:
        head = _load_beside_store(name, load)
    return head if head is not None and head.is_better else None


def _load_beside_store(name: str, load: Callable[[Path], _HeadT]) -> _HeadT | None:
    """Load the head beside this user's store; where it is of another version or damaged, log that and go without."""
    if os.environ.get("BLAMESPAN_STORE", "").strip().lower() == "none":
        return None
    store_folder = find_part("store_folder", _log, "heads beside the store are not looked for")
    if store_folder is None or not (path := store_folder() / name).exists():
        return None
    try:
        return load(path)
    except TracerUnavailable as error:
        _log.warning("what was learnt is not used: %s", error)
        return None


def list_agents(trace: MessageActionTrace) -> list[str]:
    """List who decides anything in a run, by name."""
    return sorted({step.agent for step in trace.steps if trace.can_be_blamed(step)})


def share_known(head: Head, trace: MessageActionTrace) -> float:
    """Return the share of a run's agents that a head was learnt of, 0..1; 1 where it does not say of whom it was."""
    known = head.figures.get("agents")
    agents: Sequence[str] = list_agents(trace)
    if not known or not agents:
        return 1.0
    new = [agent for agent in agents if agent not in known]
    if new:
        _log.info(
            "learnt on another team: %d of %d agents are new (%s). Learn this one with: blamespan learn",
            len(new),
            len(agents),
            ", ".join(map(repr, new[:3])),
        )
    return 1.0 - len(new) / len(agents)


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
