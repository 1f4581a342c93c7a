"""`blamespan analyze`: attribute runs that were recorded to files."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from blamespan.analysis.sources import find_files, read_runs
from blamespan.analysis.tables import RunTable, print_run
from blamespan.analysis.verdicts import as_json, printable
from blamespan.attribution import Attribution
from blamespan.errors import UnreadableInput
from blamespan.recorded import Importer, RecordedRun, importers, load_importer
from blamespan.tracers import DEFAULT_TRACER, Tracer, load_tracer

__all__ = ["analyze"]

_BATCH_RUNS = 64
"""Runs attributed at once: enough to keep the tracer busy, few enough to hold in memory."""
_TABLE_ROWS = 50


class _NamesFormats(click.Command):
    """A command whose help ends with what the installed importers read."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Ask the importers; they are imported for it."""
        with formatter.section("Formats, told from the content; also as .gz, .xz or .zst"):
            formatter.write_dl([(importer.name, importer.description) for importer in importers()])
        super().format_epilog(ctx, formatter)


@click.command(
    cls=_NamesFormats,
    epilog="""\b
Example:
  blamespan analyze traces.jsonl
  blamespan analyze exports/ --json > verdicts.jsonl
""",
)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--format", "format_name", metavar="NAME", help="Read every file as NAME instead of telling by content.")
@click.option("--tracer", "tracer_name", default=DEFAULT_TRACER, show_default=True, metavar="NAME")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object per run, each on a line.")
@click.option("--all", "every", is_flag=True, help="Leave nothing out of the tables.")
def analyze(paths: tuple[Path, ...], format_name: str | None, tracer_name: str, wants_json: bool, every: bool) -> None:
    """Say of each recorded run in PATHS who is to blame, at which step and how.

    A folder is walked. A file that cannot be read is named on stderr with what was expected; the
    others still run, and the exit code is 1 at the end.
    """
    formats: list[Importer] = [_Forced(load_importer(format_name))] if format_name else list(importers())
    tracer = load_tracer(tracer_name)
    tally = _Tally()
    done = _attributed(_readable(_runs(list(find_files(paths)), formats), tally), tracer)
    if wants_json:
        _print_json(done)
    else:
        _print_tables(done, every)
    if not tally.runs and not tally.unreadable:
        tally.refuse(UnreadableInput(f"{', '.join(map(str, paths))}: expected recorded runs, got none. Check the path"))
    if tally.unreadable:
        click.echo(f"blamespan: {tally.runs} runs attributed, {tally.unreadable} could not be read", err=True)
        sys.exit(1)


@dataclass(slots=True)
class _Tally:
    """Counts what was read and what could not be, naming the latter at once."""

    runs: int = 0
    unreadable: int = 0

    def refuse(self, error: UnreadableInput) -> None:
        self.unreadable += 1
        click.echo(f"blamespan: {printable(str(error))}", err=True)


class _Forced:
    """An importer that the user chose: it matches everything."""

    def __init__(self, importer: Importer) -> None:
        self.name = importer.name
        self.description = importer.description
        self.read = importer.read

    def matches(self, path: Path, head: bytes) -> bool:
        del path, head
        return True


def _runs(files: list[Path], formats: list[Importer]) -> Iterator[RecordedRun | UnreadableInput]:
    """Read the files one after the other, with a progress bar where a person watches."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[runs]} runs"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task("", total=len(files), runs=0)
        counted = itertools.count(1)
        for path in files:
            progress.update(bar, description=printable(path.name))
            for run in read_runs(path, formats):
                yield run
                progress.update(bar, runs=next(counted))
            progress.advance(bar)


def _readable(found: Iterable[RecordedRun | UnreadableInput], tally: _Tally) -> Iterator[RecordedRun]:
    for item in found:
        if isinstance(item, UnreadableInput):
            tally.refuse(item)
        else:
            tally.runs += 1
            yield item


def _attributed(runs: Iterable[RecordedRun], tracer: Tracer) -> Iterator[tuple[RecordedRun, Attribution]]:
    source = iter(runs)
    while batch := list(itertools.islice(source, _BATCH_RUNS)):
        yield from zip(batch, tracer.attribute([run.trace for run in batch]), strict=True)


def _print_json(done: Iterable[tuple[RecordedRun, Attribution]]) -> None:
    for run, verdict in done:
        click.echo(json.dumps(as_json(run.source, run.trace, verdict)))


def _print_tables(done: Iterable[tuple[RecordedRun, Attribution]], every: bool) -> None:
    """Print a run by its steps if it is the only one, else a line per run."""
    console = Console()
    found = iter(done)
    head = list(itertools.islice(found, 2))
    if len(head) == 1:
        [(run, verdict)] = head
        print_run(console, run.source, run.trace, verdict, every=every)
        return
    table = RunTable(console, None if every else _TABLE_ROWS)
    for run, verdict in itertools.chain(head, found):
        table.add(run.source, run.trace, verdict)
    if head:
        table.print()
