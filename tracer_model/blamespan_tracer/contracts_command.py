"""`blamespan contracts`: check contracts on recorded runs; everything heavy is imported when it runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from blamespan.importing.recorded import RecordedRun
    from blamespan_tracer.contracts.contract import Contract, Verdict

__all__ = ["contracts"]


@click.command()
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--contracts",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="TOML file with further contracts; may be given several times.  [default: those of BLAMESPAN_CONTRACTS]",
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object per run, each on a line.")
@click.option("--all", "every", is_flag=True, help="Print what is kept or left open, too.")
def contracts(paths: tuple[Path, ...], files: tuple[Path, ...], wants_json: bool, every: bool) -> None:
    """Say which contracts each recorded run in PATHS breaks, at which step, and quote it.

    Without PATHS: list the contracts in use. The exit code is 1 if a file could not be read.

    Example:  blamespan contracts traces.jsonl --contracts ours.toml
    """
    from blamespan_tracer.contracts.loading import contracts_in_use

    in_use = contracts_in_use(files or None)
    if not paths:
        _list(in_use, wants_json=wants_json)
        return
    n_unreadable = 0
    for run, verdicts in _judged(paths, in_use):
        if verdicts is None:
            n_unreadable += 1
            click.echo(f"blamespan: {_printable(str(run))}", err=True)
        elif wants_json:
            click.echo(json.dumps({"source": run.source, "trace_id": run.trace.trace_id, **_counted(verdicts)}))
        else:
            _print(run, verdicts, every=every)
    if n_unreadable:
        sys.exit(1)


def _judged(paths: tuple[Path, ...], in_use: tuple[Contract, ...]) -> Iterator[tuple[Any, list[Verdict] | None]]:
    """Yield each run with its verdicts, or, with None, the error in its place."""
    from blamespan.analysis.sources import runs_in
    from blamespan.errors import UnreadableInput
    from blamespan_tracer.contracts.contract import judge

    for found in runs_in(paths):
        yield found, None if isinstance(found, UnreadableInput) else judge(in_use, found.trace)


def _counted(verdicts: list[Verdict]) -> dict[str, object]:
    return {
        "broken": sorted({verdict.contract.name for verdict in verdicts if verdict.outcome == "fail"}),
        "verdicts": [
            {
                "contract": verdict.contract.name,
                "outcome": verdict.outcome,
                "step": verdict.step,
                "mode": str(verdict.contract.mode) if verdict.contract.mode else None,
                "quote": verdict.quote,
                "reason": verdict.reason,
            }
            for verdict in verdicts
        ],
    }


def _print(run: RecordedRun, verdicts: list[Verdict], *, every: bool) -> None:
    shown = [verdict for verdict in verdicts if every or verdict.outcome == "fail"]
    n_broken = len({verdict.contract.name for verdict in verdicts if verdict.outcome == "fail"})
    n_contracts = len({verdict.contract.name for verdict in verdicts})
    click.echo(
        f"{_printable(run.source)}   {len(run.trace.steps)} steps   {n_broken} of {n_contracts} contracts broken"
    )
    for verdict in sorted(shown, key=lambda each: -1 if each.step is None else each.step):
        step = "   -" if verdict.step is None else f"{verdict.step:4}"
        agent = "" if verdict.step is None else run.trace.steps[verdict.step].agent
        said = f"{_printable(verdict.quote)!r}  {_printable(verdict.reason)}" if verdict.outcome != "pass" else ""
        click.echo(
            f"{step}  {verdict.outcome:12}  {verdict.contract.name:22}  {_printable(agent)[:24]:24}  {said}".rstrip()
        )


def _list(in_use: tuple[Contract, ...], *, wants_json: bool) -> None:
    for contract in in_use:
        mode = str(contract.mode) if contract.mode else "-"
        if wants_json:
            click.echo(json.dumps({"contract": contract.name, "title": contract.title, "mode": mode}))
        else:
            click.echo(f"{contract.name:22}  {mode:14}  {_printable(contract.title)}")


def _printable(text: str) -> str:
    from blamespan.analysis.showing.legible import printable

    return printable(text)
