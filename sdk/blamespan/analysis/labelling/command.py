"""`blamespan annotate`: a person corrects verdicts, kept as labels beside the traces."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click
from rich.console import Console

from blamespan.analysis.labelling.dialogue import Dialogue, Left
from blamespan.analysis.outcomes import attribute_recorded
from blamespan.analysis.showing.legible import counted, printable
from blamespan.analysis.showing.notices import notice, readable
from blamespan.analysis.sources import folder_of, runs_in, store_in
from blamespan.attribution import Attribution
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.labels.file import LABELS_FILE, LabelsFile
from blamespan.labels.people import PersonLabel
from blamespan.plugins import load_part
from blamespan.tracers import DEFAULT_TRACER, Tracer, load_tracer


@click.command(
    epilog="""\b
Examples:
  blamespan annotate traces.jsonl
  blamespan annotate last --by ann
"""
)
@click.argument("traces", nargs=-1)
@click.option("--labels", metavar="FILE", type=click.Path(path_type=Path), help="Default: labels.jsonl beside them.")
@click.option("--by", metavar="NAME", help="Who labels.  [default: the user's name]")
@click.option(
    "--tracer", "tracer_name", default=DEFAULT_TRACER, show_default=True, metavar="NAME", help="The tracer that judges."
)
@click.option("--blind", is_flag=True, help="Keep the verdicts to yourself: labels that nobody influenced.")
@click.option("--again", is_flag=True, help="Ask about runs that you have labelled already, too.")
def annotate(
    traces: tuple[str, ...],
    labels: Path | None,
    by: str | None,
    tracer_name: str,
    blind: bool,
    again: bool,
) -> None:
    """Label runs: say whether each verdict is right, and what is.

    Reads TRACES as `analyze` does: files, a store, or runs in this machine's store; without any all of the store. Each
    answer is kept at once; the same command goes on where it was left.
    """
    if "-" in traces:
        raise ConfigError("expected traces in a file, got '-': answers come from standard input. Write them to a file")
    refused: list[UnreadableInput] = []
    tracer = load_tracer(tracer_name)
    store = store_in(Path(traces[0])) if len(traces) == 1 else None
    if traces and store is None:
        judged = _from_files(traces, tracer, refused)
        file = LabelsFile(labels or _beside(traces))
    else:
        path, judged = _from_store(store, tracer)
        file = LabelsFile(labels or path.parent / LABELS_FILE)
    _annotate(judged, file, Dialogue(Console(), _ask, _name(by), blind), again=again)
    if refused:
        sys.exit(1)


def _annotate(
    judged: Iterator[tuple[RecordedRun, Attribution]], file: LabelsFile, dialogue: Dialogue, *, again: bool
) -> None:
    """Ask about one run after the other; every label is on the disk before the next question."""
    file.check()
    torn: list[UnreadableInput] = []
    known = [] if again else [label for label in file.read(torn) if label.by == dialogue.by]
    for error in torn:
        notice(error)
    done = {label.trace_id: [other for other in known if other.trace_id == label.trace_id] for label in known}
    labelled = passed = 0
    try:
        for run, verdict in judged:
            if any(label.concerns(run.trace) for label in done.get(run.trace.trace_id, ())):
                passed += 1
                continue
            answer = dialogue.label(run, verdict)
            if answer is Left.UNFINISHED:
                raise EOFError(f"the answer on run {run.trace.trace_id} was not finished, and is not saved")
            if answer is Left.QUIT:
                break
            if isinstance(answer, PersonLabel):
                file.add(answer)
                labelled += 1
            dialogue.console.print()
    except (EOFError, KeyboardInterrupt) as ended:
        click.echo(err=True)
        if ended.args:
            notice(ended)
    before = f", {passed} were labelled before" if passed else ""
    click.echo(f"blamespan: {counted(labelled, 'label')} added to {file.path}{before}", err=True)


def _from_files(
    sources: Sequence[str], tracer: Tracer, refused: list[UnreadableInput]
) -> Iterator[tuple[RecordedRun, Attribution]]:
    for run in readable(runs_in(sources), refused):
        yield run, _judge(run, tracer)


def _from_store(store: Path | None, tracer: Tracer) -> tuple[Path, Iterator[tuple[RecordedRun, Attribution]]]:
    """Open a store of the collector, which gives runs with the verdicts they went out with."""
    path, runs = load_part("stored_runs")(store)
    return path, ((run, verdict or _judge(run, tracer)) for run, verdict in runs)


def _judge(run: RecordedRun, tracer: Tracer) -> Attribution:
    [result] = attribute_recorded([run], tracer)
    return result.verdict


def _beside(sources: Sequence[str]) -> Path:
    """Choose where labels are kept: in the folder of the first source that is one of this machine."""
    folder = folder_of(sources[0])
    if folder is None:
        raise ConfigError(
            f"expected a file or folder of traces to keep labels beside, got {sources[0]!r}. Say where: --labels FILE"
        )
    return folder / LABELS_FILE


def _name(option: str | None) -> str:
    """Name who labels.

    Raises:
        ConfigError: if nobody says it and the system does not know.
    """
    try:
        name = printable(option if option is not None else getpass.getuser())
    except (OSError, KeyError, ImportError):
        name = ""
    if not name:
        raise ConfigError(f"expected a name of who labels, got {option!r}. Say it with --by NAME")
    return name


def _ask(question: str) -> str:
    try:
        answer: str = click.prompt(question, default="", show_default=False, prompt_suffix="> ")
    except click.Abort as aborted:  # click's one word for two things
        raise (EOFError if isinstance(aborted.__context__, EOFError) else KeyboardInterrupt) from None
    return answer
