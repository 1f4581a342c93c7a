"""`blamespan schemata`: known failures, kept in a file, and runs held against them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from blamespan.analysis.showing.legible import counted, printable
from blamespan.analysis.showing.notices import readable
from blamespan.cli import SuggestingGroup
from blamespan.errors import ConfigError, UnreadableInput

if TYPE_CHECKING:
    from blamespan.importing.recorded import RecordedRun
    from blamespan.labels.people import PersonLabel
    from blamespan.trace import MessageActionTrace
    from blamespan_tracer.schemata.file import SchemataFile
    from blamespan_tracer.schemata.schema import SeenFailure

_PATH = click.Path(path_type=Path)
_Command = Callable[..., None]
_FILE = click.option(
    "--file", "path", type=_PATH, metavar="FILE",
    help="The schemata.  [default: BLAMESPAN_SCHEMATA, else schemata.toml beside the store]",
)  # fmt: skip
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


@click.group(cls=SuggestingGroup)
def schemata() -> None:
    """Keep known failures as schemata, and find them again.

    They stand in a TOML file, which people read and edit.

    Example:  blamespan schemata add traces.jsonl --run 2 --step 5

    Example:  blamespan schemata match new-traces.jsonl
    """


@schemata.command("add")
@click.argument("traces", nargs=-1)
@click.option("--run", "which", metavar="ID|N", help="Only this run: its number, from 1, or its trace id.")
@click.option(
    "--step", type=click.IntRange(min=0), metavar="N", help="The step that failed, with --run or a single run."
)
@click.option("--title", default="", metavar="TEXT", help="What goes wrong, for people.")
@click.option(
    "--labels", type=_PATH, metavar="FILE", help="What people say.  [default: labels.jsonl beside the traces]"
)
@click.option("--sound", multiple=True, metavar="TRACES", help="Further runs that were sound; repeatable.")
@_FILE
def add_schemata(
    traces: tuple[str, ...],
    which: str | None,
    step: int | None,
    title: str,
    labels: Path | None,
    sound: tuple[str, ...],
    path: Path | None,
) -> None:
    """Make schemata of confirmed failures in TRACES: files or stored runs, as for `blamespan analyze`.

    A failure is confirmed by --step, by a label (also those that replay gave), or by an outcome that is known, and then
    the step is the one that the tracer names. A failure that is known already is noted with the schema that it matches.
    Every schema is held against the runs that are known to be sound, among TRACES and --sound: what sound steps show as
    well is refused. Name and mode of a schema are lines of the file, as all of it: write others there.

    Example:  blamespan schemata add traces.jsonl --labels labels.jsonl
    """
    from blamespan.importing.selection import list_named
    from blamespan.labels.people import by_run
    from blamespan_tracer.schemata.making import SoundSteps

    file = _open(path)
    file.read()
    refused: list[UnreadableInput] = []
    runs = list_named(_read_runs(traces, refused), which)
    if step is not None and len(runs) != 1:
        raise ConfigError(f"expected one run beside --step, got {len(runs)}. Choose one with --run NUMBER")
    known_labels = by_run(_read_labels(labels, traces))
    confirmed: list[tuple[MessageActionTrace, int, str, str]] = []
    offered = [run.trace for run in _read_runs(sound, refused)] if sound else []
    sound_runs = [trace for trace in offered if trace.outcome != "failed"]
    if failed := len(offered) - len(sound_runs):
        click.echo(f"blamespan: left out {counted(failed, 'run')} of --sound known to have failed", err=True)
    for run in runs:
        found = _confirm(run.trace, step, known_labels.get(run.trace.trace_id, ()))
        if found is None:
            if run.trace.outcome == "succeeded":
                sound_runs.append(run.trace)
        else:
            confirmed.append((run.trace, *found))
    if not confirmed:
        raise UnreadableInput(
            f"expected a confirmed failure in {', '.join(traces) or 'the store'}, got {counted(len(runs), 'run')} "
            "without one. "
            "Name the step by --run and --step, label it with blamespan annotate, or record the outcome"
        )
    sound_steps = SoundSteps(sound_runs)
    counts = [_add_one(file, *one, title=title, sound=sound_steps) for one in confirmed]
    click.echo(
        f"blamespan: {counts.count('made')} made, {counts.count('known')} known already, {counts.count('refused')} "
        f"refused; held against {counted(len(sound_runs), 'sound run')}; {file.path}",
        err=True,
    )
    if refused or ("made" not in counts and "known" not in counts):
        sys.exit(1)


def _add_one(
    file: SchemataFile, trace: MessageActionTrace, step: int, mode: str, by: str, *, title: str, sound: Any
) -> str:
    """Keep a confirmed failure; say whether a schema was made, one was known, or it was refused."""
    from blamespan_tracer.schemata.making import make_schema
    from blamespan_tracer.schemata.matching import match_schemata

    known = file.read()
    seen = _seen(trace, step, by)
    match = next((match for match in match_schemata(trace, known) if match.step == step), None)
    if match is not None:
        file.add_seen(match.schema.name, seen)
        click.echo(
            f"{match.schema.name}  known already, {match.score:.2f}: run {trace.trace_id[:8]} step {step} is noted"
        )
        return "known"
    try:
        schema = make_schema(
            trace, step, mode=mode, title=title, taken={one.name for one in known}, seen=seen, sound=sound
        )
        file.add(schema)
    except ConfigError as error:
        click.echo(f"blamespan: run {trace.trace_id[:8]}: {printable(str(error))}", err=True)
        return "refused"
    click.echo(f"{schema.name}  made of run {trace.trace_id[:8]} step {step}, threshold {schema.threshold:.2f}")
    return "made"


@schemata.command("match")
@click.argument("traces", nargs=-1)
@_FILE
@_JSON
def match_runs(traces: tuple[str, ...], path: Path | None, *, as_json: bool) -> None:
    """Say which runs in TRACES fail as a known failure did, at which step, and how often that came.

    Without TRACES: the runs in the local store. With --json one object per run, each on a line.
    """
    from blamespan_tracer.schemata.matching import match_schemata
    from blamespan_tracer.schemata.recurrences import Recurrences, began_at

    file = _open(path)
    known = file.read()
    if not known:
        raise ConfigError(f"expected schemata in {str(file.path)!r}, got none. Make one with: blamespan schemata add")
    refused: list[UnreadableInput] = []
    found = [(run, match_schemata(run.trace, known)) for run in _read_runs(traces, refused)]
    recurrences = Recurrences(known)
    for run, matches in found:
        for match in matches:
            recurrences.add(match.schema.name, run.trace.trace_id, began_at(run.trace))
    n_matched = 0
    for run, matches in found:
        trace = run.trace
        n_matched += bool(matches)
        told = [(match, recurrences.describe(match.schema.name, trace.trace_id, began_at(trace))) for match in matches]
        if as_json:
            click.echo(json.dumps({"source": run.source, "trace_id": trace.trace_id, "matches": [
                {"schema": match.schema.name, "mode": match.schema.mode or None, "step": match.step,
                 "span_id": match.span_id, "score": match.score, "recurrence": said} for match, said in told
            ]}))  # fmt: skip
            continue
        for match, said in told:
            agent = printable(trace.steps[match.step].agent)
            click.echo(
                f"{printable(run.source)}  step {match.step} {agent}  {match.schema.name}  {match.score:.2f}  {said}"
            )
    click.echo(f"blamespan: {n_matched} of {len(found)} runs show a known failure", err=True)
    if refused:
        sys.exit(1)


def _open(path: Path | None) -> SchemataFile:
    from blamespan_tracer.schemata.file import SCHEMATA_VARIABLE, SchemataFile, schemata_file

    found = path or schemata_file()
    if found is None:
        raise ConfigError(f"expected a file of schemata, got none. Name one with --file FILE or {SCHEMATA_VARIABLE}")
    return SchemataFile(found)


def _read_runs(traces: Sequence[str], refused: list[UnreadableInput]) -> list[RecordedRun]:
    """Read the runs of files, or without any those of the store; what cannot be read is named on stderr."""
    from blamespan.analysis.sources import runs_in

    return list(readable(runs_in(traces), refused))


def _read_labels(labels: Path | None, traces: Sequence[str]) -> list[PersonLabel]:
    from blamespan.analysis.sources import folder_of
    from blamespan.labels.file import LABELS_FILE, read_labels
    from blamespan.plugins import load_part

    folder = folder_of(traces[0]) if traces else load_part("store_folder")()
    beside = folder / LABELS_FILE if folder is not None else None
    path = labels or (beside if beside is not None and beside.is_file() else None)
    return [] if path is None else read_labels(path, [])


def _confirm(trace: MessageActionTrace, step: int | None, labels: Sequence[PersonLabel]) -> tuple[int, str, str] | None:
    """Return which step of a run is known to have failed, with which mode, and who says so; None where nobody does."""
    from blamespan.labels.people import step_of
    from blamespan.tracers import DEFAULT_TRACER, load_tracer

    if step is not None:
        return step, "", "user"
    for label in reversed([label for label in labels if label.concerns(trace)]):
        named = step_of(label, trace)
        if named is not None and label.decisive is not None:
            return named.index, next(iter(label.decisive.modes), ""), f"label {label.by}"
        if label.answer in ("no_failure", "no_agent"):
            return None
    if trace.outcome != "failed":
        return None
    [verdict] = load_tracer(DEFAULT_TRACER).attribute([trace])
    if verdict.decisive_step is None:
        return None
    blame = verdict.mode_of(verdict.steps[verdict.decisive_step].agent)
    return verdict.decisive_step, "" if blame is None else str(blame.mode), "outcome"


def _seen(trace: MessageActionTrace, step: int, by: str) -> SeenFailure:
    from blamespan_tracer.schemata.recurrences import began_at
    from blamespan_tracer.schemata.schema import SeenFailure

    at = began_at(trace)
    return SeenFailure(trace.trace_id, step, "" if at is None else at.strftime("%Y-%m-%dT%H:%M:%SZ"), by[:100])
