"""The commands `blamespan lab generate` and `blamespan lab probe`; everything heavy is imported when one runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from blamespan.errors import ConfigError

if TYPE_CHECKING:
    from blamespan_lab.make.corpus.generate import OnBlock
    from blamespan_lab.make.corpus.probes import Report

_FOLDER = click.Path(path_type=Path)
_PURPOSES = ("clean", "faulty", "harmless", "natural", "several")

_PIPED_WIDTH = 200
"""Columns of a table that no terminal shows: nothing of it is cut."""


@click.command()
@click.argument("recipe")
@click.option("--out", type=_FOLDER, required=True, help="Folder for the corpus: new, empty, or to be gone on with.")
@click.option("--data", type=_FOLDER, multiple=True, help="For edits: a folder that holds runs to edit; repeatable.")
@click.option("--processes", type=click.IntRange(min=1), help="How many work at once.  [default: one for each core]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def generate(recipe: str, out: Path, data: tuple[Path, ...], processes: int | None, *, as_json: bool) -> None:
    """Make a corpus of labelled runs by RECIPE.

    RECIPE is the name of a bundled one, or a TOML file.

    Interrupted, the same command goes on where it was. The same recipe gives the same files.

    Bundled: small (300 runs, minutes), default (10,000), heldout (400: other words, names, teams), team (240 of one
    team), edits (of runs in --data that succeeded), conflicts (480 runs in which instructions disagree, or do not).

    Example:  blamespan lab generate small --out corpora/small
    """
    from blamespan_lab.make import RECIPES
    from blamespan_lab.recipes import find_recipe, peek

    path = find_recipe(recipe, RECIPES)
    kind = peek(path, "kind")
    if data and kind != "edits":
        raise ConfigError(f"expected --data for edits alone, got it with {recipe!r}. Leave it out")
    if kind == "edits":
        _generate_edits(path, data, out, as_json=as_json)
        return
    if kind == "conflicts":
        _generate_conflicts(path, out, as_json=as_json)
        return
    from blamespan_lab.make.corpus.generate import generate_corpus
    from blamespan_lab.make.corpus.recipe import CorpusRecipe
    from blamespan_lab.recipes import read_recipe

    wanted = read_recipe(CorpusRecipe, path, RECIPES)
    try:
        with _bar(wanted.name) as on_block:
            summary = generate_corpus(wanted, out, processes=processes, on_block=on_block)["made"]
    except KeyboardInterrupt:
        click.echo(f"blamespan: interrupted; go on with: blamespan lab generate {recipe} --out {out}", err=True)
        sys.exit(1)
    if as_json:
        click.echo(json.dumps({"out": str(out), **summary}))
        return
    _print_summary(summary, wanted.runs, out)


def _generate_edits(recipe: Path, data: tuple[Path, ...], out: Path, *, as_json: bool) -> None:
    from blamespan_lab.make import RECIPES
    from blamespan_lab.make.edits.generate import EditRecipe, generate_edits
    from blamespan_lab.recipes import read_recipe

    if not data:
        raise ConfigError("expected --data DIR with runs to edit, got none. Name the folder of recorded runs")
    _print_made(generate_edits(read_recipe(EditRecipe, recipe, RECIPES), data, out)["made"], out, as_json=as_json)
    if not as_json:
        click.echo(f"next       blamespan lab evaluate pairs --data {out}")


def _generate_conflicts(recipe: Path, out: Path, *, as_json: bool) -> None:
    from blamespan_lab.make import RECIPES
    from blamespan_lab.make.conflicts import ConflictRecipe, generate_conflicts
    from blamespan_lab.recipes import read_recipe

    _print_made(generate_conflicts(read_recipe(ConflictRecipe, recipe, RECIPES), out)["made"], out, as_json=as_json)
    if not as_json:
        click.echo(f"next       blamespan lab checks {out}/runs")


def _print_made(summary: Mapping[str, Any], out: Path, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"out": str(out), **summary}))
        return
    click.echo(f"runs       {summary['runs']} in {out}")
    for name, count in summary["tally"].items():
        click.echo(f"  {name:<22}{count:6}")


@click.command()
@click.argument("folder", type=_FOLDER)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
@click.option(
    "--check", is_flag=True, help="Exit with 1 if what reads no word finds decisive steps better than chance."
)
def probe(folder: Path, *, as_json: bool, check: bool) -> None:
    """Measure how well the labels of a corpus can be guessed.

    Each probe learns from one half of the questions and guesses about the other, or from all families or topologies
    but one. Chance is an even guess among the steps that an agent could be blamed for; of runs, half.

    Example:  blamespan lab probe corpora/small --check
    """
    from blamespan_lab.console import show_progress
    from blamespan_lab.make.corpus.probes import TOLERANCE, find_leaks, run_probes
    from blamespan_lab.make.corpus.storage import read_corpus, read_manifest
    from blamespan_lab.make.corpus.surface import probe_run

    total = read_manifest(folder).get("made", {}).get("runs")
    looked_at = (probe_run(run) for run in show_progress(read_corpus(folder), "reading", total=total))
    runs = [run for run in looked_at if run is not None]
    report = run_probes(runs)
    rows = find_leaks(report)
    if as_json:
        click.echo(json.dumps({"probes": report, "leaks": rows}))
    else:
        _print_report(report)
    for leak in rows:
        click.echo(f"blamespan: {leak}", err=True)
    if not as_json and not rows:
        click.echo(f"Nothing that reads no word is surely more than {TOLERANCE:g} points better than chance.")
    if check and rows:
        sys.exit(1)


@contextmanager
def _bar(name: str) -> Iterator[OnBlock]:
    """Draw a bar on stderr if somebody watches."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("runs"))
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        bar = progress.add_task(name, total=None)
        yield lambda count, wanted: progress.update(bar, completed=count, total=wanted)


def _print_summary(summary: Mapping[str, Any], wanted: int, out: Path) -> None:
    tally: Mapping[str, int] = summary["tally"]
    click.echo(f"runs       {summary['runs']} of {wanted} wanted, in {out}")
    for purpose in _PURPOSES:
        count = tally.get(f"kept: {purpose}", 0)
        click.echo(f"  {purpose:<9}{count:6}  {100 * count / max(summary['runs'], 1):5.1f} %")
    for purpose in ("faulty", "several", "natural"):
        tried, flipped = tally.get(f"tried: {purpose}", 0), tally.get(f"flipped: {purpose}", 0)
        if tried:
            click.echo(f"flipped    {flipped} of {tried} {purpose} runs tried ({100 * flipped / tried:.0f} %)")
    dropped = {name.removeprefix("dropped: "): count for name, count in tally.items() if name.startswith("dropped: ")}
    click.echo(f"dropped    {', '.join(f'{count} {name}' for name, count in dropped.items()) or 'none'}")
    click.echo(f"next       blamespan lab probe {out} --check")


def _print_report(report: Report) -> None:
    from rich.console import Console
    from rich.table import Table

    titles = {"step": "Which step was decisive", "run": "Whether the run failed"}
    console = Console(file=sys.stdout, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
    for what, parts in report.items():
        table = Table(title=f"{titles[what]}, right in % (95 % interval over chance)", title_justify="left", box=None)
        probes = list(next(iter(parts.values()), {}))
        for index, column in enumerate(["learnt from the others", "runs", "chance", *probes]):
            table.add_column(column, justify="right" if index else "left", no_wrap=True)
        for part, rows in parts.items():
            first = next(iter(rows.values()))
            cells = [_cell(rows[name]["accuracy"], rows[name]["excess"]) for name in probes]
            table.add_row(part, str(first["n"]), f"{first['chance']:.1f}", *cells)
        console.print(table)
        console.print()
    goes_by = report["step"].get("all", {}).get("single feature")
    if goes_by is not None:
        console.print(f"single feature goes by: {goes_by['goes_by']}", highlight=False)


def _cell(accuracy: float, excess: list[float]) -> str:
    return f"{accuracy:.1f} ({excess[0]:+.1f}..{excess[1]:+.1f})"
