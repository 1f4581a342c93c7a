"""`blamespan summary`: what the verdicts on many runs say together."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from blamespan.analysis.analyze import analyze
from blamespan.analysis.results.rows import read_rows
from blamespan.analysis.showing.legible import counted
from blamespan.analysis.showing.notices import notice
from blamespan.analysis.sources import is_stored_name, store_in
from blamespan.analysis.summary.change import Periods, Versions
from blamespan.analysis.summary.document import as_document
from blamespan.analysis.summary.facts import Fact, fact_of
from blamespan.analysis.summary.markdown import markdown_of
from blamespan.analysis.summary.statistics import Share
from blamespan.analysis.summary.summary import Summary, sum_up
from blamespan.analysis.summary.text import print_summary
from blamespan.analysis.summary.words import percent, points
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.selection import time_of

_PATH = click.Path(path_type=Path)
_HINT = ". Results are made with: blamespan analyze TRACES --json > results.jsonl"
_MOST_NAMED = 20
"""What cannot be read beyond that is counted."""


_TOO_MANY_FAILED = 3
"""Exit code that tells a check in CI from results that cannot be read (1) and from a wrong question (2)."""


class _Date(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.4 alone
    """A point in time as `analyze --since` reads it."""

    name = "date"

    def convert(self, value: str | datetime, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return value if isinstance(value, datetime) else time_of(value, datetime.now(UTC))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


@click.command(
    epilog="""\b
Examples:
  blamespan analyze exports/ --json > results.jsonl
  blamespan summary results.jsonl --before 2026-11-01 --html summary.html
  blamespan summary
  blamespan summary results.jsonl --markdown --fail-above 10 > comment.md

Exit codes: 1 where a result could not be read, 3 where more runs failed than --fail-above or --fail-if-worse allow.
"""
)
@click.argument("results", nargs=-1)
@click.option("--before", metavar="DATE", type=_Date(), help="Compare the runs from DATE on with those before it.")
@click.option(
    "--between", nargs=2, metavar="A B", type=_Date(), help="Compare the runs from A until B with those before A."
)
@click.option("--against", multiple=True, metavar="OLD", help="Compare RESULTS with older ones; repeatable.")
@click.option(
    "--compare", metavar="version|A..B", help="Compare the last two versions (service.version), or version B with A."
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@click.option("--markdown", "wants_markdown", is_flag=True, help="Print Markdown, as for a comment on a pull request.")
@click.option(
    "--fail-above",
    "most_percent",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help="Exit with 3 where more of the runs with a verdict failed, by any tracer.",
)
@click.option(
    "--fail-if-worse",
    "fails_if_worse",
    is_flag=True,
    help="Exit with 3 where significantly more runs failed than before; with something to compare.",
)
@click.option("--html", metavar="FILE", type=_PATH, help="Write one page with plots that needs nothing else.")
@click.option("--all", "every", is_flag=True, help="Leave nothing out of the tables.")
def summary(
    results: tuple[str, ...],
    before: datetime | None,
    between: tuple[datetime, datetime] | None,
    against: tuple[str, ...],
    compare: str | None,
    wants_json: bool,
    wants_markdown: bool,
    most_percent: float | None,
    fails_if_worse: bool,
    html: Path | None,
    every: bool,
) -> None:
    """Describe which agents fail and how, over many runs.

    RESULTS are what `blamespan analyze` wrote: JSON lines, parquet, or folders of them. They may also be runs in this
    machine's store, which are judged now; without RESULTS all stored runs are.
    What cannot be read is named on stderr, the rest is summed up, and the exit code is 1 at the end.
    """
    periods, versions = _periods(before, between, against, compare), _versions(compare)
    if fails_if_worse and periods is None and versions is None and not against:
        raise ConfigError(
            "--fail-if-worse compares with before, got nothing to compare. Add --before, --between, --compare or "
            "--against"
        )
    if wants_json and wants_markdown:
        raise ConfigError("expected --json or --markdown, got both. Leave one out")
    refused: list[UnreadableInput] = []
    older = _facts(against, refused) if against else None
    summed_up = sum_up(_facts(results, refused), against=older, periods=periods, versions=versions)
    if not summed_up.runs:
        if refused:
            sys.exit(1)
        raise UnreadableInput(
            f"{', '.join(results) or 'the store'}: expected results, got none. Make them with: "
            "blamespan analyze TRACES --json > results.jsonl"
        )
    if html is not None:
        from blamespan.analysis.summary.page import page_of  # loads Jinja, which tables do without

        _write(html, page_of(summed_up, title=_title(results)))
    if wants_json:
        click.echo(json.dumps(as_document(summed_up)))
    elif wants_markdown:
        click.echo(markdown_of(summed_up, title=_title(results), every=every), nl=False)
    else:
        print_summary(Console(), summed_up, every=every)
    _warn(summed_up, periods, versions)
    if refused:
        click.echo(
            f"blamespan: {counted(summed_up.runs, 'result')} summed up, {len(refused)} could not be read", err=True
        )
        sys.exit(1)
    if exceeded := _check_limits(summed_up, most_percent, fails_if_worse=fails_if_worse):
        click.echo(f"blamespan: {exceeded}", err=True)
        sys.exit(_TOO_MANY_FAILED)


def _periods(
    before: datetime | None, between: tuple[datetime, datetime] | None, against: Sequence[str], compare: str | None
) -> Periods | None:
    """Read what is to be compared.

    Raises:
        ConfigError: if that is two things at once, or a period that ends before it begins.
    """
    given = {"--before": before, "--between": between, "--against": against, "--compare": compare}
    options = [name for name, value in given.items() if value]
    if len(options) > 1:
        raise ConfigError(f"expected one of {', '.join(given)}, got {' and '.join(options)}. Leave one")
    if between is not None:
        since, until = between
        if since >= until:
            raise ConfigError(
                f"expected --between A B with A before B, got {since.isoformat()} and {until.isoformat()}"
            )
        return Periods(since, until)
    return None if before is None else Periods(before)


def _versions(compare: str | None) -> Versions | None:
    """Read which versions are to be compared.

    Raises:
        ConfigError: if it names none.
    """
    if compare is None or compare == "version":
        return None if compare is None else Versions()
    before, dots, after = compare.partition("..")
    if not (before and dots and after) or before == after:
        raise ConfigError(f"expected --compare version, or two versions as --compare 1.3..1.4, got {compare!r}")
    return Versions(before, after)


def _check_limits(summary: Summary, most_percent: float | None, *, fails_if_worse: bool) -> str:
    """Name the first limit on failed runs that is exceeded; empty where none is."""
    for judge in summary.judges:
        failed = Share(judge.tally.failed, judge.tally.judged)
        if most_percent is not None and failed.total and 100 * failed.value > most_percent:
            return (
                f"{percent(failed.value)} of {failed.total:,} runs failed, more than the {most_percent:g} % "
                "that --fail-above allows"
            )
        for change in judge.changes:
            if fails_if_worse and change.part == "failed" and change.is_significant and change.difference > 0:
                return f"significantly more runs failed than before: {points(change)} points"
    return ""


def _facts(sources: Sequence[str], refused: list[UnreadableInput]) -> Iterator[Fact]:
    """Read every row that is one, and judge stored runs; say which file or row cannot be read."""
    for source in sources or [""]:
        try:
            for number, row in enumerate(_rows(source, refused), 1):
                try:
                    yield fact_of(row)
                except UnreadableInput as error:
                    _refuse(UnreadableInput(f"{source}, row {number}: {error}"), refused)
        except UnreadableInput as error:
            _refuse(error, refused)


def _rows(source: str, refused: list[UnreadableInput]) -> Iterator[Mapping[str, Any]]:
    """Read the rows of a file of results; make those of stored runs."""
    if source and not is_stored_name(source) and store_in(Path(source)) is None:
        yield from read_rows(Path(source))
        return
    with analyze([source] if source else []) as results:
        for result in results:
            yield result.row()
        for error in results.unreadable:
            _refuse(error, refused)


def _refuse(error: UnreadableInput, refused: list[UnreadableInput]) -> None:
    refused.append(error)
    if len(refused) <= _MOST_NAMED:
        message = str(error).removesuffix(".")
        notice(f"{message}{'' if 'blamespan analyze TRACES' in message else _HINT}")


def _title(results: Sequence[str]) -> str:
    names = [Path(source).name for source in results] or ["stored runs"]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"expected a file to write to, got --html {str(path)!r}: {error.strerror}") from error


def _warn(summary: Summary, periods: Periods | None, versions: Versions | None) -> None:
    if versions is not None and all(judge.before is None for judge in summary.judges):
        click.echo(
            "blamespan: no service has runs of both versions: nothing is compared. Programs say theirs by "
            "OTEL_RESOURCE_ATTRIBUTES=service.version=1.4",
            err=True,
        )
    if periods is not None and summary.outside == summary.runs:
        click.echo(
            "blamespan: no run says when it began, or all began after both periods: nothing is compared",
            err=True,
        )
