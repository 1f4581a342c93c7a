"""How far an analysis is, for a person who watches: on stderr, and only where that is a terminal."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from blamespan.analysis.outcomes import AttributedOutcome, Finished, Outcome
from blamespan.analysis.showing.legible import counted, printable
from blamespan.analysis.sources import Piece
from blamespan.importing.reading import watched_reading

_NAME_CHARACTERS = 32


class Watched:
    """Tells a progress bar of outcomes."""

    def __init__(self, progress: Progress, bar: TaskID, pieces: Iterable[Piece]) -> None:
        self._progress = progress
        self._bar = bar
        self._runs = 0
        self._finished_bytes = 0
        self._sizes = {piece.path: piece.size or 0 for piece in pieces if piece.path is not None}
        self._read: dict[Path, int] = {}
        self._lock = threading.Lock()

    def saw(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if isinstance(outcome, AttributedOutcome):
            self._runs += 1
        elif isinstance(outcome, Finished):
            with self._lock:
                self._finished_bytes += outcome.piece.size or 0
                if outcome.piece.path is not None:
                    self._sizes.pop(outcome.piece.path, None)
                    self._read.pop(outcome.piece.path, None)
            self._show(outcome.piece.name)
        self._progress.update(self._bar, runs=self._runs)

    def has_read(self, path: Path, size_bytes: int) -> None:
        """Count what has been read of a file that is not finished; any thread may say so."""
        with self._lock:
            if path not in self._sizes:
                return  # what lies beside a piece, labels for example
            self._read[path] = min(size_bytes, self._sizes[path])
        self._show(str(path))

    def _show(self, name: str) -> None:
        with self._lock:
            completed = self._finished_bytes + sum(self._read.values())
        self._progress.update(self._bar, description=printable(name)[-_NAME_CHARACTERS:], completed=completed)

    def stop(self) -> None:
        """Take the bar away."""
        self._progress.stop()


@contextmanager
def watched(pieces: Iterable[Piece]) -> Iterator[Watched]:
    """Show a bar while the block runs: bytes and time left where all sizes are known, runs and their rate always.

    A file counts by what has been read of it; the other machines of a cluster do not tell that before its end.

    Args:
        pieces: What is analyzed; a sequence where all of it is known.
    """
    console = Console(stderr=True)
    is_shown = console.is_terminal
    known_pieces = pieces if is_shown and isinstance(pieces, Sequence) else ()
    total = sum(piece.size or 0 for piece in known_pieces)
    known = (BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn()) if total else ()
    columns: tuple[ProgressColumn, ...] = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *known,
        _RunsColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        bar = progress.add_task("", total=total or None, runs=0, since=time.monotonic())
        watcher = Watched(progress, bar, known_pieces)
        with watched_reading(watcher.has_read) if total else nullcontext():
            yield watcher


class _RunsColumn(ProgressColumn):
    """How many runs, and how many in a second."""

    def render(self, task: Task) -> Text:
        runs = task.fields["runs"]
        seconds = max(time.monotonic() - task.fields["since"], 1e-3)
        return Text(f"{counted(runs, 'run')}, {runs / seconds:,.0f}/s")
