"""`blamespan analyze`: attribute runs that were recorded elsewhere, from one file to an archive."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from blamespan._version import __version__
from blamespan.analysis.line import engine_for, listed, new_outcomes
from blamespan.analysis.outcomes import Wanted
from blamespan.analysis.progress import watched
from blamespan.analysis.results.datasets import dataset_format
from blamespan.analysis.results.journal import Journal
from blamespan.analysis.results.outputs import check_output, is_atif, write_rows, write_spans
from blamespan.analysis.sources import Piece
from blamespan.analysis.telling import TABLE_ROWS, ReadTally, Tables, WrittenBack
from blamespan.cores import keep_to_one_thread
from blamespan.errors import BlamespanError, ConfigError, UnreadableInput
from blamespan.importing.recorded import offered_importers
from blamespan.importing.selection import Selection, time_of
from blamespan.tracers import DEFAULT_TRACER, Tracer, load_tracer, settings_of, tracer_options


class _AsksPlugins(click.Command):
    """A command that takes the flags of the installed tracers; its help ends with what the importers read."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Ask the tracers for their flags, too."""
        return [*super().get_params(ctx), *tracer_options()]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Ask the importers; they are imported for it."""
        with formatter.section("Formats, told from the content; also as .gz, .xz or .zst"):
            formatter.write_dl(
                [
                    (name, str(importer) if isinstance(importer, BlamespanError) else importer.description)
                    for name, importer in offered_importers()
                ]
            )
        super().format_epilog(ctx, formatter)


@click.command(
    cls=_AsksPlugins,
    epilog="""\b
Examples:
  blamespan analyze traces.jsonl
  blamespan analyze last --out run.json
  blamespan analyze exports/ --json > verdicts.jsonl
  blamespan analyze 'archive/**/*.jsonl.zst' --out results.parquet --resume
  blamespan analyze phoenix://localhost:6006 --since 7d --write-back phoenix://localhost:6006
""",
)
@click.argument("sources", nargs=-1)
@click.option("--format", "format_name", metavar="NAME", help="Read every file as NAME instead of telling by content.")
@click.option("--since", metavar="TIME", help="Leave out runs that began before: 2026-11-21, or 7d for so long ago.")
@click.option("--until", metavar="TIME", help="Leave out runs that began then or later.")
@click.option("--filter", "filters", multiple=True, metavar="KEY=VALUE", help="What must be so; repeatable.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N runs.")
@click.option(
    "--tracer", "tracer_name", default=DEFAULT_TRACER, show_default=True, metavar="NAME", help="The tracer that judges."
)
@click.option(
    "--engine",
    type=click.Choice(["local", "ray"]),
    default="local",
    show_default=True,
    help="Work in processes of this machine, or on a cluster of Ray.",
)
@click.option(
    "--processes", type=click.IntRange(min=1), metavar="N", help="Processes here, or workers with Ray; else all."
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object per run, each on a line.")
@click.option("--all", "every", is_flag=True, help="Leave nothing out of tables and datasets.")
@click.option("--suspects", is_flag=True, help="Name suspects in the tables also where there is no sign of failure.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Results: .parquet, .jsonl[.gz|.zst], or a folder; .json: the runs as OTLP-JSON; .atif.json, "
    ".atif.jsonl, or a folder x.atif: as ATIF; .langfuse.jsonl, .langsmith.jsonl, .phoenix.jsonl: failed runs (--all: "
    "all runs) as examples of a dataset.",
)
@click.option(
    "--annotated",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="Runs with verdicts, as OTLP-JSON: .json, .jsonl[.gz|.zst]; or as ATIF, likewise.",
)
@click.option("--write-back", metavar="URL", help="Where verdicts go as spans or annotations.")
@click.option("--resume", is_flag=True, help="Go on with interrupted work on the same output.")
def analyze(
    sources: tuple[str, ...],
    tracer_name: str,
    engine: str,
    processes: int | None,
    **options: Any,
) -> None:
    """Say who is to blame in each recorded run, and at which step.

    SOURCES are files, folders, patterns, - for standard input, URLs of files or back ends, or runs in this machine's
    store: an id or its beginning, the beginning of a task, or `last`; without any, all of the store. What cannot be
    read is named on stderr with what was expected; the rest still runs, and the exit code is 1 at the end.
    """
    if options["out"] and (options["out"].suffix == ".json" or _form(options["out"])):
        if options["annotated"]:
            raise ConfigError(
                f"expected one file of spans, got --out {options['out'].name!r} and --annotated. Leave one out"
            )
        options["annotated"], options["out"] = options["out"], None
    output = options["out"] or options["annotated"]
    _check(options)
    keep_to_one_thread()
    tracer = load_tracer(tracer_name)
    chosen = engine_for(engine, tracer, tracer_name, processes)
    selection = _selection(options)
    pieces = listed(sources, options["format_name"], selection)
    with ExitStack() as stack:
        tally = stack.enter_context(ReadTally())
        journal = None
        if output:
            path = output.with_name(f"{output.name}.journal")
            journal = Journal.open(path, _plan(tracer, options), resume=options["resume"])
            stack.enter_context(closing(journal))
            tally.is_kept = True
        _run(chosen, tracer, pieces, selection, journal, tally, options, stack)
        if journal is not None:
            _write(journal, tally, options)
    if account := getattr(tracer, "account", ""):
        click.echo(f"blamespan: {account}", err=True)
    if not tally.runs and not tally.unreadable and not tally.failed:
        named = ", ".join(sources) or "the store"
        chosen_by = [f"--{name} {options[name]}" for name in ("since", "until") if options[name]]
        chosen_by += [f"--filter {text}" for text in options["filters"]]
        wanted = f"recorded runs with {' '.join(chosen_by)}" if chosen_by else "recorded runs"
        check = f"Leave out {chosen_by[0]}" if chosen_by else "Check the path"
        tally.refuse(UnreadableInput(f"{named}: expected {wanted}, got none. {check}"))
    sys.exit(tally.told())


def _run(
    engine: Any,
    tracer: Tracer,
    pieces: Iterable[Piece],
    selection: Selection,
    journal: Journal | None,
    tally: ReadTally,
    options: Any,
    stack: ExitStack,
) -> None:
    """Attribute all that is not done yet, telling and keeping what comes."""
    tables = None if options["wants_json"] else Tables(every=options["every"], suspects=options["suspects"])
    back = stack.enter_context(WrittenBack(options["write_back"], tally)) if options["write_back"] else None
    whole = None if back or (tables and options["every"]) else TABLE_ROWS + 1 if tables else 0
    left = _format_rest(pieces, journal)
    bar = stack.enter_context(watched(left))
    outcomes = new_outcomes(engine, tracer, left, _wanted(options, whole), selection, journal)
    stack.enter_context(closing(outcomes))
    if journal:
        tally.take_over(journal)
    for outcome in outcomes:
        bar.saw(outcome)
        tally.saw(outcome)
        if tally.runs + tally.failed > 1 and _holds_one(options["annotated"]):
            raise ConfigError(
                f"expected one run for {str(options['annotated'])!r}, as a document of ATIF holds, got more. "
                "Name it .atif.jsonl for a run a line, .atif for a folder, or choose one with --limit 1"
            )
        if back:
            back.saw(outcome)
        if journal:
            journal.add(outcome)
        elif options["wants_json"]:
            tally.print_json(outcome)
        if tables:
            tables.saw(outcome)
    bar.stop()
    if tables:
        tables.print()


def _wanted(options: Any, whole: int | None) -> Wanted:
    path = options["annotated"]
    return Wanted(path is not None, whole, _form(path), options["every"])


def _form(path: Path | None) -> str:
    """Return what runs are written as by a file's name: `atif`, a platform's examples, or OTLP-JSON, which is empty."""
    return "atif" if path is not None and is_atif(path) else dataset_format(path)


def _holds_one(path: Path | None) -> bool:
    return path is not None and is_atif(path) and path.suffix == ".json"


def _format_rest(pieces: Iterable[Piece], journal: Journal | None) -> Iterable[Piece]:
    if journal is None:
        return pieces
    left = journal.unfinished(pieces)
    return list(left) if isinstance(pieces, Sequence) else left


def _write(journal: Journal, tally: ReadTally, options: Any) -> None:
    """Make the outputs of all that was done, and forget how."""
    if options["out"]:
        write_rows(options["out"], (entry.row for entry in journal.entries() if entry.row))
    if options["annotated"]:
        write_spans(options["annotated"], (entry.spans for entry in journal.entries() if entry.spans))
    if options["wants_json"]:
        for entry in journal.entries():
            if entry.row:
                click.echo(entry.row)
    tally.skipped = journal.skipped
    journal.delete()


def _check(options: Any) -> None:
    if options["resume"] and not (options["out"] or options["annotated"]):
        raise ConfigError("--resume goes on with what is kept beside an output, got none. Add --out results.parquet")
    if options["out"]:
        check_output(options["out"], rows=True)
    if options["annotated"]:
        check_output(options["annotated"], rows=False)
        if options["out"] and options["out"].absolute() == options["annotated"].absolute():
            raise ConfigError(f"--out and --annotated need two paths, got {str(options['out'])!r} for both")


def _selection(options: Any) -> Selection:
    now = datetime.now(UTC)
    since, until = (time_of(options[name], now) if options[name] else None for name in ("since", "until"))
    return Selection(since=since, until=until, filters=_filters(options["filters"]), limit=options["limit"])


def _filters(given: Iterable[str]) -> dict[str, str]:
    fields = {}
    for text in given:
        key, separator, value = text.partition("=")
        if not key or not separator:
            raise ConfigError(f"--filter takes KEY=VALUE, got {text!r}. Write it like --filter agent=planner")
        fields[key] = value
    return fields


def _plan(tracer: Tracer, options: Any) -> dict[str, Any]:
    """Describe what decides the results, beside the pieces; times as they were written, so that `7d` stays `7d`."""
    identity = tracer.identity
    return {
        "blamespan": __version__,
        "tracer": [identity.name, identity.version, identity.weights],
        "settings": settings_of(tracer),
        "format": options["format_name"],
        "since": options["since"],
        "until": options["until"],
        "filters": _filters(options["filters"]),
        "limit": options["limit"],
        "annotated": bool(options["annotated"]),
        **({"form": [form, options["every"]]} if (form := _form(options["annotated"])) else {}),
    }
