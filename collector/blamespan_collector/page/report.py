"""What `blamespan show --html` writes: recorded runs as one HTML file, for an e-mail or a ticket."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import click
from markupsafe import Markup

from blamespan.analysis.outcomes import attribute_recorded
from blamespan.analysis.showing.claims import answer_of
from blamespan.analysis.showing.findings import known_failures_of, rules_of
from blamespan.analysis.showing.legible import counted
from blamespan.analysis.showing.notices import readable
from blamespan.analysis.showing.run_view import RunView, view_of
from blamespan.analysis.sources import runs_in
from blamespan.annotate import annotate
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import list_named
from blamespan.otlp import spans_to_json
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.runs import split_runs
from blamespan.tracers import DEFAULT_TRACER, load_tracer
from blamespan_collector.page.rendering import asset_policy, render

_MOST_RUNS = 50
"""Runs shown: a browser opens that many at once."""
_IN_MARKUP = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""What could end a script element, as JSON writes it: the same document without."""


@dataclass(frozen=True, slots=True)
class _Reported:
    """A run in the file.

    Attributes:
        source: Where it was read, without its folder: the file may be sent to anybody.
        view: As it is looked at.
        document: As OTLP-JSON, with its verdict, that can stand in a script element.
    """

    source: str
    view: RunView
    document: Markup


def write_report(source: str, which: str | None, out: Path, *, tracer_name: str | None) -> None:
    """Write the recorded runs in *source*, with who is to blame, as one HTML file that needs nothing else.

    What cannot be read is named on stderr, the others are still written, and the process ends with 1.

    Args:
        source: As for `blamespan analyze`: a file, folder or pattern, a stored run, or empty for all stored runs.
        which: Of several runs this one alone: its number, from 1, or its trace id.
        out: The file to write.
        tracer_name: Who says who is to blame; None for the default tracer.

    Raises:
        UnreadableInput: if there is no run.
        ConfigError: if *which* names none, or the file cannot be written.
    """
    refused: list[UnreadableInput] = []
    runs = list(readable(runs_in([source] if source else []), refused))
    if not runs:
        raise UnreadableInput(f"{source or 'the store'}: expected recorded runs, got none. Check the path")
    runs = list_named(runs, which)
    shown = _make_reports(runs[:_MOST_RUNS], tracer_name or DEFAULT_TRACER)
    title = Path(source).name or "stored runs"
    text = render("report.html", runs=shown, title=title, left_out=len(runs) - len(shown), policy=asset_policy())
    try:
        out.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"expected a file to write to, got --html {str(out)!r}: {error.strerror}") from error
    left = f"; {len(runs) - len(shown)} are left out: name fewer runs" if len(runs) > len(shown) else ""
    click.echo(f"{out}: {counted(len(shown), 'run')}, {out.stat().st_size / 1e6:.1f} MB{left}", err=True)
    if refused:
        sys.exit(1)


def _make_reports(runs: list[RecordedRun], tracer_name: str) -> list[_Reported]:
    verdicts = [result.verdict for result in attribute_recorded(runs, load_tracer(tracer_name))]
    reports: list[_Reported] = []
    for number, run, verdict in zip(itertools.count(1), runs, verdicts, strict=False):
        checked = rules_of(run.trace, may_take_long=True)
        answer = answer_of(run.trace, verdict, checked.rules, may_take_long=True)
        known = () if checked.failure else known_failures_of(run.trace)  # which build on what checks find
        view = view_of(
            *(run.trace, verdict, checked.rules, answer, known),
            check_failure=checked.failure,
            prefix=f"run-{number}-",
        )
        spans = [span for part in split_runs(emit(run.trace)) for span in annotate(part, verdict)]
        document = json.dumps(json.loads(spans_to_json(spans)), ensure_ascii=True)
        reports.append(_Reported(run.source.rpartition("/")[2], view, Markup(document.translate(_IN_MARKUP))))  # noqa: S704  # escaped
    return reports
