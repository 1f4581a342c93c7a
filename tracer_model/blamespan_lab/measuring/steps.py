"""`blamespan evaluate steps`: a tracer on recorded runs of any format whose labels name the step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blamespan.tracers import DEFAULT_TRACER

if TYPE_CHECKING:
    from blamespan.importing.recorded import RecordedRun
    from blamespan_lab.measuring.who_and_when import SubsetFigures

__all__ = ["evaluate_on_steps", "print_steps"]


@click.command("steps")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--tracer", "name", default=DEFAULT_TRACER, show_default=True, help="An installed tracer, or a weights file."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def evaluate_on_steps(paths: Sequence[Path], name: str, *, as_json: bool) -> None:
    """Score decisive steps on those runs of PATHS, of any format, whose labels name one.

    Each file by itself, then all together, beside what chance and plain rules score.

    Example:  blamespan evaluate steps ~/data/bigbench_mistake/*.jsonl.xz --tracer network
    """
    from blamespan_lab.command import _attribute, _talk, _tracer
    from blamespan_lab.measuring.who_and_when import evaluate_subset

    with _talk("evaluating labelled steps"):
        runs = {str(path): _labelled(path) for path in dict.fromkeys(paths)}
        tracer = _tracer(name)
        verdicts = {path: _attribute(tracer, some) for path, some in runs.items()}
        files = {path: evaluate_subset(some, verdicts[path]) for path, some in runs.items()}
        every = evaluate_subset(
            [run for some in runs.values() for run in some], [one for some in verdicts.values() for one in some]
        )
    if as_json:
        click.echo(json.dumps({"tracer": tracer.identity.name, "all": every, "files": files}))
        return
    for path, figures in files.items():
        print_steps(Path(path).name, tracer.identity.name, figures)
    if len(files) > 1:
        print_steps(f"all {len(files)} files", tracer.identity.name, every)
    click.echo("best_*: chosen on these very labels, an upper bound for a constant", err=True)


def _labelled(path: Path) -> list[RecordedRun]:
    from blamespan.errors import ConfigError
    from blamespan_lab.measuring.table import read_recorded

    runs = list(read_recorded(path))
    found = [run for run in runs if run.faults and run.faults[0].step is not None]
    if not found:
        raise ConfigError(
            f"expected runs with a labelled step in {str(path)!r}, got {len(runs)} without. Name another file; labels "
            "that people made beside the runs are for: blamespan evaluate labels"
        )
    return found


def print_steps(title: str, tracer: str, figures: SubsetFigures) -> None:
    """Print a table of what *tracer* gets right, above the baselines.

    Args:
        title: Of the runs; any text.
        tracer: Its name.
        figures: Of these runs.
    """
    from rich.markup import escape

    from blamespan.analysis.showing.legible import printable
    from blamespan_lab.command import _print_table

    (step_low, step_high), (agent_low, agent_high) = figures["step_ci"], figures["agent_ci"]
    rows = [
        [tracer, *(f"{figures[key]:.1f}" for key in ("step", "agent", "top3", "within1", "within3"))],
        *([what, f"{each['step']:.1f}", f"{each['agent']:.1f}"] for what, each in figures["baselines"].items()),
    ]
    _print_table(
        f"{escape(printable(title))}, {figures['n']} runs, {figures['abstained']} abstained, right in %; 95 % "
        f"intervals: step {step_low:.1f} to {step_high:.1f}, agent {agent_low:.1f} to {agent_high:.1f}",
        ["", "step", "agent", "top 3", "within 1", "within 3"],
        rows,
    )
