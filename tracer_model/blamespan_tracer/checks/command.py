"""`blamespan lab checks`: apply checks to recorded runs; everything heavy is imported when it runs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blamespan.analysis.showing.legible import counted, printable
from blamespan.analysis.showing.notices import readable

if TYPE_CHECKING:
    from blamespan.importing.recorded import RecordedRun
    from blamespan_tracer.checks.check import Check, CheckResult


@click.command()
@click.argument("traces", nargs=-1)
@click.option(
    "--checks",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="TOML file with further checks; may be given several times.  [default: those of BLAMESPAN_CHECKS]",
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object per run, each on a line.")
@click.option("--all", "every", is_flag=True, help="Print what is kept or left open, too.")
def checks(traces: tuple[str, ...], files: tuple[Path, ...], wants_json: bool, every: bool) -> None:
    """Print which checks each recorded run breaks, and where.

    TRACES are as for `blamespan analyze`: files, folders, or runs in this machine's store. Without any: list the
    checks in use. The exit code is 1 if a file could not be read.

    Example:  blamespan lab checks traces.jsonl --checks ours.toml

    Example:  blamespan lab checks last
    """
    from blamespan.analysis.sources import runs_in
    from blamespan.errors import UnreadableInput
    from blamespan_tracer.checks.check import apply_checks
    from blamespan_tracer.checks.in_use import checks_in_use

    in_use = checks_in_use(files or None)
    if not traces:
        _print_list(in_use, wants_json=wants_json)
        return
    refused: list[UnreadableInput] = []
    for run in readable(runs_in(traces), refused):
        results = apply_checks(in_use, run.trace)
        if wants_json:
            click.echo(json.dumps({"source": run.source, "trace_id": run.trace.trace_id, **_as_json(results)}))
        else:
            _print_run(run, results, every=every)
    if refused:
        sys.exit(1)


def _as_json(results: list[CheckResult]) -> dict[str, object]:
    return {
        "broken": sorted({result.check.name for result in results if result.outcome == "fail"}),
        "verdicts": [
            {
                "check": result.check.name,
                "outcome": result.outcome,
                "step": result.step,
                "mode": str(result.mode) if result.mode else None,
                "quote": result.quote,
                "reason": result.reason,
            }
            for result in results
        ],
    }


def _print_run(run: RecordedRun, results: list[CheckResult], *, every: bool) -> None:
    shown = [result for result in results if every or result.outcome == "fail"]
    n_broken = len({result.check.name for result in results if result.outcome == "fail"})
    n_checks = len({result.check.name for result in results})
    click.echo(
        f"{printable(run.source)}   {counted(len(run.trace.steps), 'step')}   {n_broken} of {n_checks} checks broken"
    )
    for result in sorted(shown, key=lambda result: -1 if result.step is None else result.step):
        step = "   -" if result.step is None else f"{result.step:4}"
        agent = "" if result.step is None else run.trace.steps[result.step].agent
        details = f"{printable(result.quote)!r}  {printable(result.reason)}" if result.outcome != "pass" else ""
        click.echo(
            f"{step}  {result.outcome:12}  {result.check.name:22}  {printable(agent)[:24]:24}  {details}".rstrip()
        )


def _print_list(in_use: tuple[Check, ...], *, wants_json: bool) -> None:
    for check in in_use:
        mode = str(check.mode) if check.mode else "-"
        if wants_json:
            click.echo(json.dumps({"check": check.name, "title": check.title, "mode": mode}))
        else:
            click.echo(f"{check.name:22}  {mode:14}  {printable(check.title)}")
