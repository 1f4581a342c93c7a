"""Recorded runs read from files, and which of them training must not see."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from blamespan.analysis.sources import runs_in
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun, load_importer

SUBSETS = ("algorithm-generated", "hand-crafted")
"""Folders of Who&When."""

_MOST_SHARED = 0.5
"""Where more runs than this share of all are of one task, each is a group of its own."""

_log = logging.getLogger(__name__)


def read_runs(importer: str, path: Path) -> Iterator[RecordedRun]:
    """Yield the runs of *path* that can be read; say on the log which cannot.

    Raises:
        UnreadableInput: if the file is missing or none of it can be read.
    """
    if not path.is_file():
        raise UnreadableInput(f"expected {importer} runs in a file at {str(path)!r}, got nothing there. Check --data.")
    yield from _readable(path, f"{importer} runs", lambda: load_importer(importer).read(path))


def read_recorded(source: str | Path) -> Iterator[RecordedRun]:
    """Yield the runs of a file in whatever format, or of a stored run's name; say on the log which cannot be read.

    Raises:
        UnreadableInput: if there is no such file or stored run, it is of no known format, or none of it can be read.
    """
    yield from _readable(source, "recorded runs", lambda: runs_in([source]))


def read_subset(folder: Path) -> list[RecordedRun]:
    """Read the labelled runs of one subset, in the order of their file names.

    Raises:
        UnreadableInput: if there is none.
    """
    runs = [run for path in sorted(folder.glob("*.json")) for run in read_runs("who-and-when", path)]
    labelled = [run for run in runs if run.faults and run.faults[0].step is not None]
    if not labelled:
        raise UnreadableInput(
            f"expected labelled Who&When runs in {str(folder)!r}, got {len(runs)} files with none. "
            f"Give --data the folder that holds {' and '.join(SUBSETS)}."
        )
    return labelled


def read_labelled_steps(path: str | Path) -> list[RecordedRun]:
    """Read those runs of *path*, of any format, whose labels name the step.

    Raises:
        UnreadableInput: if there is none.
    """
    runs = list(read_recorded(path))
    labelled = [run for run in runs if run.faults and run.faults[0].step is not None]
    if not labelled:
        raise UnreadableInput(
            f"expected runs with a labelled step in {str(path)!r}, got {len(runs)} without. Name another file; labels "
            "that people made beside the runs are for: blamespan lab evaluate labels"
        )
    return labelled


def _readable(
    path: str | Path, what: str, read: Callable[[], Iterator[RecordedRun | UnreadableInput]]
) -> Iterator[RecordedRun]:
    n_runs = 0
    last: UnreadableInput | None = None
    for run in read():
        if isinstance(run, UnreadableInput):
            _log.warning("left out: %s", run)
            last = run
        else:
            n_runs += 1
            yield run
    if not n_runs:
        raise UnreadableInput(f"expected {what} in {str(path)!r}, got none that can be read. {last or ''}".strip())


def is_held_out(question: str, *, percent: int, seed: int) -> bool:
    """Return whether *question* falls to the held-out side; it depends on nothing but question and seed."""
    text = f"{seed}\0{' '.join(question.split())}".encode("utf-8", "replace")
    return int.from_bytes(sha256(text).digest()[:6], "big") < percent / 100 * 2**48


def group_by_task(tasks: Sequence[str]) -> NDArray[np.int64]:
    """Number the groups of runs of which none may be on both sides: (N,), those of one task share a number.

    Args:
        tasks: Of N runs, at least one.
    """
    groups = np.unique(np.array(tasks, object), return_inverse=True)[1].astype(np.int64)
    return groups if np.bincount(groups).max() <= _MOST_SHARED * len(groups) else np.arange(len(groups))
