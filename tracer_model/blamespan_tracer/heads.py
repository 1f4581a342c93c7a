"""Heads: small models that a user's own runs taught, each in a file of its own, and used only where it is better.

A head knows one team. Where the team has new agents, it counts for as many as it knows.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from blamespan.errors import ConfigError, MissingExtra, TracerUnavailable
from blamespan.plugins import find_part
from blamespan.trace import MessageActionTrace
from blamespan_tracer.weights_file import read_weights

_log = logging.getLogger(__name__)


LEARNT: Final = "BLAMESPAN_LEARNT"
"""Names the folder of what was learnt of teams, heads and usual courses, or one such file; `none` for nothing."""


class Head(Protocol):
    """What a file of a head says of itself."""

    @property
    def is_better(self) -> bool:
        """Whether it was measurably better than the tracer by itself."""

    @property
    def figures(self) -> Mapping[str, Any]:
        """What was measured when it was learnt."""


_HeadT = TypeVar("_HeadT", bound=Head)

_LEAST_KNOWN = 0.5
"""Share of a run's agents that a head must know to count."""


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


def load_in_use(files: str, load: Callable[[Path], _HeadT]) -> tuple[_HeadT, ...]:
    """Load the heads of one kind in the folder that `BLAMESPAN_LEARNT` names, else those beside this user's store.

    Args:
        files: Pattern of the kind's file names.
        load: Reads a file, and raises `TracerUnavailable` where it is missing or damaged.

    Returns:
        The heads that are better than the tracer by itself, the newest first. Of those in a folder, what is damaged or
        of another version is logged, and left out.

    Raises:
        ConfigError: if nothing is where the variable points.
        TracerUnavailable: if the file that it names is damaged.
    """
    named = os.environ.get(LEARNT, "").strip()
    if named.lower() == "none":
        return ()
    path = Path(named).expanduser() if named else _find_store_folder()
    if path is None:
        return ()
    if named and not path.exists():
        raise ConfigError(
            f"expected {LEARNT} to name a folder of what `blamespan learn` learnt, a file in it, or none, got {named!r}"
        )
    is_folder = path.is_dir() or not named
    if not is_folder and not path.match(files):
        return ()
    heads = _load_all(path, files, load) if is_folder else [load(path)]
    return tuple(head for head in heads if head.is_better)


def _find_store_folder() -> Path | None:
    if os.environ.get("BLAMESPAN_STORE", "").strip().lower() == "none":
        return None
    store_folder = find_part("store_folder", _log, "heads beside the store are not looked for")
    try:
        return None if store_folder is None else store_folder()
    except MissingExtra:
        return None


def _load_all(folder: Path, files: str, load: Callable[[Path], _HeadT]) -> list[_HeadT]:
    heads = []
    for path in sorted(folder.glob(files), key=lambda path: (-path.stat().st_mtime_ns, path.name)):
        try:
            heads.append(load(path))
        except TracerUnavailable as error:
            _log.warning("what was learnt is not used: %s", error)
    return heads


def name_for_team(name: str, agents: Iterable[str]) -> str:
    """Return the name of a team's own file beside the store, such as `steps-1a2b3c4d.safetensors`.

    Args:
        name: That of a single head, such as `steps.safetensors`.
        agents: Names of the team's agents.
    """
    team = hashlib.sha256("\0".join(sorted(agents)).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return str(Path(name).with_stem(f"{Path(name).stem}-{team}"))


def choose_head(heads: Sequence[_HeadT], trace: MessageActionTrace) -> tuple[_HeadT | None, float]:
    """Choose the head that was learnt on a run's team.

    Args:
        heads: Those in use, the newest first.
        trace: The run.

    Returns:
        The head that knows most of the run's agents, and few others, with the share that it knows, 0..1. None and 0
        where none knows half of them: a head must not judge another team.
    """
    if not heads:
        return None, 0.0
    n_agents = len(list_agents(trace))
    head = min(heads, key=lambda head: (len(_list_new_agents(head, trace)), len(head.figures.get("agents", ()))))
    new = _list_new_agents(head, trace)
    if new:
        _log.info(
            "learnt on another team: %d of %d agents are new (%s). Learn this one with: blamespan learn",
            len(new),
            n_agents,
            ", ".join(map(repr, new[:3])),
        )
    known = 1.0 - len(new) / max(n_agents, 1)
    return (head, known) if known >= _LEAST_KNOWN else (None, 0.0)


def list_agents(trace: MessageActionTrace) -> list[str]:
    """List who decides anything in a run, by name."""
    return sorted({step.agent for step in trace.steps if trace.can_be_blamed(step)})


def _list_new_agents(head: Head, trace: MessageActionTrace) -> list[str]:
    """List the agents of a run that a head was not learnt of; none where it does not say of whom it was."""
    known = head.figures.get("agents")
    return [agent for agent in list_agents(trace) if agent not in known] if known else []
