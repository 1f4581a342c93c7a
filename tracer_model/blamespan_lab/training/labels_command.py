"""`blamespan evaluate labels`: a tracer beside the people who labelled the same runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blamespan.tracers import DEFAULT_TRACER

if TYPE_CHECKING:
    from blamespan.errors import UnreadableInput
    from blamespan.importing.recorded import RecordedRun
    from blamespan.labels.people import PersonLabel
    from blamespan_lab.measuring.labelled_verdicts import Joined, Labels
    from blamespan_lab.measuring.labels import LabelFigures, Right

__all__ = ["evaluate_on_labels", "labelled_runs_of"]

_FOLDER = click.Path(path_type=Path)


@click.command("labels")
@click.argument("results_or_traces", nargs=-1, required=True, type=_FOLDER)
@click.option("--labels", "labels_file", type=_FOLDER, required=True, metavar="FILE", help="What people said of them.")
@click.option("--tracer", "name", default=DEFAULT_TRACER, show_default=True, help="For traces: who judges, or weights.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def evaluate_on_labels(results_or_traces: tuple[Path, ...], labels_file: Path, name: str, *, as_json: bool) -> None:
    """Score verdicts by what people said, beside how far people agree.

    Verdicts come from results of `analyze`, or are made now from traces.

    Example:  blamespan evaluate labels results.jsonl --labels labels.jsonl
    """
    from blamespan.labels.people import by_run
    from blamespan_lab.measuring.labels import evaluate_labels

    refused: list[UnreadableInput] = []
    labels = by_run(_labels(labels_file, refused))
    joined = _joined(results_or_traces, name, labels)
    figures = {judge: evaluate_labels(one.found) for judge, one in joined.items() if one.found}
    _refuse_nothing(joined, labels, figures)
    if as_json:
        click.echo(
            json.dumps({judge: {**each, **_unmatched(joined[judge], labels)} for judge, each in figures.items()})
        )
        return
    for judge, each in figures.items():
        _print(judge, each, _unmatched(joined[judge], labels))


def labelled_runs_of(paths: Sequence[Path]) -> Iterator[RecordedRun]:
    """Yield the recorded runs of *paths*; say on stderr what cannot be read."""
    from blamespan.analysis.showing.legible import printable
    from blamespan.analysis.sources import runs_in
    from blamespan.errors import UnreadableInput

    for item in runs_in(paths):
        if isinstance(item, UnreadableInput):
            click.echo(f"blamespan: {printable(str(item))}", err=True)
        else:
            yield item


def _labels(path: Path, refused: list[UnreadableInput]) -> list[PersonLabel]:
    from blamespan.analysis.showing.legible import printable
    from blamespan.errors import UnreadableInput
    from blamespan.labels.file import read_labels

    found = read_labels(path, refused)
    for error in refused[:5]:
        click.echo(f"blamespan: left out: {printable(str(error))}", err=True)
    if not found:
        raise UnreadableInput(f"expected labels in {str(path)!r}, got none. Make some with: blamespan annotate TRACES")
    return found


def _joined(paths: Sequence[Path], name: str, labels: Labels) -> dict[str, Joined]:
    """Read results where they are some, else judge traces."""
    from itertools import chain, islice

    from blamespan.analysis.results.rows import read_rows
    from blamespan.errors import UnreadableInput
    from blamespan_lab.command import _tracer
    from blamespan_lab.measuring.labelled_verdicts import joined_results, joined_runs

    try:
        for path in paths:
            list(islice(read_rows(path), 1))
    except UnreadableInput:
        tracer = _tracer(name)
        identity = tracer.identity
        return {f"{identity.name} {identity.version}": joined_runs(labelled_runs_of(paths), tracer, labels)}
    return joined_results(chain.from_iterable(map(read_rows, paths)), labels)


def _refuse_nothing(joined: dict[str, Joined], labels: Labels, figures: dict[str, LabelFigures]) -> None:
    from blamespan.errors import ConfigError

    if figures:
        return
    misfits = sum(one.misfits + one.ambiguous for one in joined.values())
    why = f"; {misfits} name a step that the run does not have, or one of several runs of a trace" if misfits else ""
    raise ConfigError(
        f"expected labels of these runs, got {sum(map(len, labels.values()))} labels of which none fits{why}. "
        "Give the traces that were labelled, or their results"
    )


def _unmatched(joined: Joined, labels: Labels) -> dict[str, int]:
    """Count labels that speak of nothing here."""
    strangers = sum(len(some) for trace_id, some in labels.items() if trace_id not in joined.met)
    return {"of_other_runs": strangers, "misfits": joined.misfits, "ambiguous": joined.ambiguous}


def _print(judge: str, found: LabelFigures, unmatched: dict[str, int]) -> None:
    from blamespan.analysis.showing.legible import printable
    from blamespan_lab.command import _print_table

    people = ", ".join(f"{printable(who)} {count}" for who, count in found["people"].items())
    click.echo(f"labels       {people}")
    if found["few"]:
        click.echo(f"too few      {found['n']} labelled runs: read the intervals; figures of so few are anecdotes")
    rows = [
        ("step", found["step"]),
        ("agent", found["agent"]),
        ("error mode", found["mode"]),
        ("failed or not", found["failed"]),
    ]
    rows += [("step, blind labels", found["blind_step"])]
    rows += [("false alarms", found["false_alarms"]), ("failures missed", found["missed"])]
    among = found["among"]
    beside = {"step": "step", "agent": "agent", "error mode": "mode", "failed or not": "failed"}
    _print_table(
        f"{judge}, {found['n']} labelled runs, right in % by their labels, and people among themselves",
        ["", "tracer", "95 %", "runs", "people", "coeff.", "runs"],
        [[title, *_cells(right), *_among(among[beside[title]] if title in beside else None)] for title, right in rows],
    )
    click.echo("95 %: Wilson. coeff.: Krippendorff's alpha, for steps Bennett's S; 1 full agreement, 0 as by chance")
    for pair in found["kappas"]:
        parts = ", ".join(f"{part} {_number(pair[part])}" for part in ("failed", "agent", "mode"))
        click.echo(f"Cohen's kappa of {' and '.join(map(printable, pair['who']))}, {pair['n']} runs: {parts}")
    if found["disputed"]:
        click.echo(f"{found['disputed']} runs are disputed: people name different steps; left out of `step`")
    if found["step_ece"] is not None:
        bins = "; ".join(
            f"{one['stated']:.2f} said, {one['right']:.2f} right ({one['n']})" for one in found["calibration"]
        )
        click.echo(f"calibration error of the decisive step's share {found['step_ece']:.3f}: {bins}")
    if found["failure_ece"] is not None:
        click.echo(f"calibration error of the failure score {found['failure_ece']:.3f}")
    for key, what in (
        ("of_other_runs", "are of other runs"),
        ("misfits", "name a step that the run does not have"),
        ("ambiguous", "are of traces with several runs: give the traces instead of results"),
    ):
        if unmatched[key]:
            click.echo(f"{unmatched[key]} labels {what}", err=True)


def _cells(right: Right) -> list[str]:
    if not right["n"]:
        return ["", "", "0"]
    low, high = right["interval"]
    return [f"{right['percent']:.1f}", f"{low:.1f} to {high:.1f}", str(right["n"])]


def _among(found: object) -> list[str]:
    if not isinstance(found, dict) or not found["n"]:
        return ["", "", ""]
    return [f"{found['percent']:.1f}", _number(found["alpha"]), str(found["n"])]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def tune_network(labels_file: Path, data: Path, out: Path, seed: int) -> None:
    """Tune the network in use on people's labels, say what that changes, and write the weights if it does no harm.

    Raises:
        ConfigError: if there are too few labels, or tuning makes it worse on labels it has not seen.
    """
    from blamespan.errors import ConfigError
    from blamespan.labels.people import by_run
    from blamespan_lab.network.tuning import agreed_run, tune
    from blamespan_tracer.network.tracer import NetworkTracer

    refused: list[UnreadableInput] = []
    labels = by_run(_labels(labels_file, refused))
    runs = [
        agreed
        for run in labelled_runs_of([data])
        if (about := [label for label in labels.get(run.trace.trace_id, ()) if label.concerns(run.trace)])
        and (agreed := agreed_run(run, about)) is not None
    ]
    tracer = NetworkTracer.in_use()
    tuned = tune(tracer.network, runs, tracer.lexicon, seed=seed)
    click.echo(f"labels       {tuned.failures} failures and {tuned.sound} sound runs, agreed on and found in {data}")
    for title, value, (low, high) in (
        ("before", tuned.before, tuned.before_interval),
        ("after", tuned.after, tuned.after_interval),
    ):
        click.echo(f"{title:12} {value:.1f} % of the steps right ({low:.1f} to {high:.1f}), on labels not tuned on")
    click.echo(f"changed      {tuned.mended} mended, {tuned.broken} broken, {tuned.passes} passes")
    if tuned.mended <= tuned.broken:
        raise ConfigError(
            f"expected tuning to mend more runs than it breaks on labels it has not seen, got {tuned.mended} and "
            f"{tuned.broken}: nothing was written. Label more runs, or keep the weights you have"
        )
    digest = tuned.network.save(out)
    click.echo(f"weights      {out} ({out.stat().st_size / 1e6:.1f} MB, {digest})")
    click.echo(f"Use them with: BLAMESPAN_NETWORK_WEIGHTS={out} blamespan analyze TRACES --tracer network", err=True)
