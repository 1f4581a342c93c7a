"""What the lab's commands show: a progress bar and the log on stderr, tables on stdout."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import track

_Item = TypeVar("_Item")


def show_progress(items: Iterable[_Item], title: str, *, total: int | None = None) -> Iterator[_Item]:
    """Yield *items*, drawing a bar on stderr if that is a terminal and nothing otherwise."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield from items
        return
    yield from track(items, title, total=total, console=console, transient=True)


@contextmanager
def log_to_stderr(title: str) -> Iterator[None]:
    """Send the packages' log to stderr while a command runs, and log how long *title* took."""
    from rich.logging import RichHandler

    handler = RichHandler(console=Console(stderr=True), show_path=False, show_level=False, markup=False)
    logs = [logging.getLogger(package) for package in ("blamespan_lab", "blamespan_tracer")]
    for log in logs:
        log.addHandler(handler)
        log.setLevel(logging.INFO)
    start_s = time.perf_counter()
    try:
        yield
        logs[0].info("%s took %.1f s", title, time.perf_counter() - start_s)
    finally:
        for log in logs:
            log.removeHandler(handler)


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns, the first to the left; names out of a data set never come in here."""
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for index, column in enumerate(header):
        table.add_column(column, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*row, *[""] * (len(header) - len(row)))
    console = Console(file=sys.stdout)
    console.print(table)
    console.print()


@contextmanager
def open_bar() -> Iterator[Callable[[str, int, int], None]]:
    """Draw a bar on stderr if that is a terminal; what is given is told a title, how much is done, and of how much."""
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("")
        yield lambda title, done, total: progress.update(bar, description=title, completed=done, total=total)
