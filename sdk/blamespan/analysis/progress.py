"""How far an analysis is, for a person who watches: on stderr, and only where that is a terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

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

from blamespan.analysis.engines.outcomes import Done, Finished, Outcome
from blamespan.analysis.verdicts import printable

__all__ = ["Watched", "watched"]

_NAME_CHARACTERS = 32


class Watched:
    """Tells a progress bar of outcomes."""

    def __init__(self, progress: Progress, bar: TaskID) -> None:
        self._progress = progress
        self._bar = bar
        self._runs = 0
        self._bytes = 0

    def saw(self, outcome: Outcome) -> None:
        """Count an outcome."""
        if isinstance(outcome, Done):
            self._runs += 1
        elif isinstance(outcome, Finished):
            self._bytes += outcome.piece.size or 0
            name = printable(outcome.piece.name)[-_NAME_CHARACTERS:]
            self._progress.update(self._bar, description=name, completed=self._bytes)
        self._progress.update(self._bar, runs=self._runs)

    def stop(self) -> None:
        """Take the bar away."""
        self._progress.stop()


@contextmanager
def watched(pieces: object, *, is_wanted: bool = True) -> Iterator[Watched]:
    """Show a bar while the block runs: bytes and time left where all sizes are known, runs and their rate always.

    Args:
        pieces: What is analyzed; a sequence where all of it is known.
        is_wanted: Whether to show it at all.
    """
    console = Console(stderr=True)
    is_shown = is_wanted and console.is_terminal
    total = sum(piece.size or 0 for piece in pieces) if is_shown and isinstance(pieces, Sequence) else None
    known = (BarColumn(), DownloadColumn(binary_units=True), TimeRemainingColumn()) if total else ()
    columns: tuple[ProgressColumn, ...] = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        *known,
        _Runs(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not is_shown) as progress:
        yield Watched(progress, progress.add_task("", total=total or None, runs=0, since=time.monotonic()))


class _Runs(ProgressColumn):
    """How many runs, and how many in a second."""

    def render(self, task: Task) -> Text:
        runs = task.fields["runs"]
        seconds = max(time.monotonic() - task.fields["since"], 1e-3)
        return Text(f"{runs:,} runs, {runs / seconds:,.0f}/s")
