"""`blamespan evaluate clean`: how often a tracer calls runs failed that did not fail."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypedDict

import click

from blamespan.attribution import Attribution
from blamespan.errors import ConfigError
from blamespan.tracers import DEFAULT_TRACER, load_tracer

__all__ = ["CleanFigures", "evaluate_clean", "evaluate_on_clean"]

_BATCH_RUNS = 64


class CleanFigures(TypedDict):
    """Of runs that succeeded: how many there are, how many raised an alarm, in percent, and how many no verdict.

    `failure_score` is the median over the runs with a verdict; None without any.
    """

    tracer: str
    n: int
    false_alarms: float
    false_alarms_ci: list[float]
    abstained: int
    failure_score: float | None


def evaluate_clean(verdicts: Sequence[Attribution], *, tracer: str) -> CleanFigures:
    """Count the false alarms among verdicts on runs that succeeded: those that say that a run probably failed."""
    from blamespan_lab.measuring.metrics import interval, percent

    alarms = [verdict.calls_failed for verdict in verdicts]
    scores = sorted(verdict.failure_score for verdict in verdicts if verdict.abstained is None)
    return {
        "tracer": tracer,
        "n": len(verdicts),
        "false_alarms": percent(alarms),
        "false_alarms_ci": list(interval(alarms)),
        "abstained": sum(verdict.abstained is not None for verdict in verdicts),
        "failure_score": scores[len(scores) // 2] if scores else None,
    }


@click.command("clean")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option("--tracer", "name", default=DEFAULT_TRACER, show_default=True, metavar="NAME")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def evaluate_on_clean(paths: Sequence[Path], name: str, *, as_json: bool) -> None:
    """Count false alarms on those runs of PATHS, of any format, that are known to have succeeded.

    The tracer is not told how a run ended.

    Example:  blamespan evaluate clean ~/data/tau_bench/gpt-4o-airline.json.xz
    """
    from blamespan_lab.measuring.table import read_recorded

    runs = [run for path in paths for run in read_recorded(path) if run.trace.outcome == "succeeded"]
    if not runs:
        raise ConfigError(f"expected runs that succeeded in {', '.join(map(str, paths))}, got none. Name other files")
    traces = [replace(run.trace, outcome="unknown") for run in runs]
    tracer = load_tracer(name)
    verdicts: list[Attribution] = []
    for start in range(0, len(traces), _BATCH_RUNS):
        verdicts += tracer.attribute(traces[start : start + _BATCH_RUNS])
    found = evaluate_clean(verdicts, tracer=name)
    if as_json:
        click.echo(json.dumps(found))
        return
    low, high = found["false_alarms_ci"]
    click.echo(f"{found['n']} runs that succeeded, {name}: {found['abstained']} without a verdict")
    click.echo(f"false alarms {found['false_alarms']:.1f} % ({low:.1f} to {high:.1f})")
    if found["failure_score"] is not None:
        click.echo(f"median failure score of the others {found['failure_score']:.2f}")
