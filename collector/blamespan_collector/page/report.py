"""`blamespan report`: recorded runs as one HTML file, for an e-mail or a ticket."""

from __future__ import annotations

import itertools
import json
import sys
from dataclasses import dataclass
from pathlib import Path

import click
from markupsafe import Markup
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from blamespan.analysis.outcomes import attribute_recorded
from blamespan.analysis.showing.claims import answer_of
from blamespan.analysis.showing.judges import rules_of
from blamespan.analysis.showing.known_failures import known_failures_of
from blamespan.analysis.showing.notices import notice
from blamespan.analysis.sources import runs_in
from blamespan.annotate import annotate
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.otlp import request_to_json, spans_to_proto
from blamespan.rebuilding.emit import emit
from blamespan.rebuilding.runs import split_runs
from blamespan.tracers import DEFAULT_TRACER, load_tracer
from blamespan_collector.page.rendering import asset_policy, render
from blamespan_collector.page.view import RunView, view_of

__all__ = ["report"]

_DEFAULT_RUNS = 50
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


@click.command(
    epilog="""\b
Example:
  blamespan report traces.jsonl --out report.html
  blamespan report last --out report.html
"""
)
@click.argument("traces", nargs=-1)
@click.option("--out", required=True, metavar="FILE", type=click.Path(path_type=Path), help="The HTML file to write.")
@click.option("--format", "format_name", metavar="NAME", help="Read every file as NAME instead of telling by content.")
@click.option("--tracer", "tracer_name", default=DEFAULT_TRACER, show_default=True, metavar="NAME")
@click.option(
    "--most", type=click.IntRange(min=1), default=_DEFAULT_RUNS, show_default=True, metavar="RUNS", help="Runs shown."
)
def report(traces: tuple[str, ...], out: Path, format_name: str | None, tracer_name: str, most: int) -> None:
    """Write the recorded runs in TRACES, with who is to blame, as one HTML file that needs nothing else.

    TRACES are as for `blamespan analyze`: files, folders, runs in this machine's store, or nothing for all of these.
    What cannot be read is named on stderr, the others are still reported, and the exit code is 1 at the end.
    """
    runs, refused = _read(traces, format_name)
    if not runs:
        named = ", ".join(traces) or "the store"
        raise UnreadableInput(f"{named}: expected recorded runs, got none. Check the path, or record a run")
    shown = _make_reports(runs[:most], tracer_name)
    names = [Path(trace).name for trace in traces] or ["stored runs"]
    title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
    text = render("report.html", runs=shown, title=title, left_out=len(runs) - len(shown), policy=asset_policy())
    try:
        out.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise ConfigError(f"expected a file to write to, got --out {str(out)!r}: {error.strerror}") from error
    left = f"; {len(runs) - len(shown)} are left out, --most {len(runs)} shows them" if len(runs) > len(shown) else ""
    click.echo(f"{out}: {len(shown)} runs, {out.stat().st_size / 1e6:.1f} MB{left}", err=True)
    if refused:
        sys.exit(1)


def _read(traces: tuple[str, ...], format_name: str | None) -> tuple[list[RecordedRun], int]:
    """Read every run; what cannot be read is told and counted."""
    runs: list[RecordedRun] = []
    refused = 0
    for item in runs_in(traces, format_name=format_name):
        if isinstance(item, UnreadableInput):
            refused += 1
            notice(item)
        else:
            runs.append(item)
    return runs, refused


def _make_reports(runs: list[RecordedRun], tracer_name: str) -> list[_Reported]:
    verdicts = [result.verdict for result in attribute_recorded(runs, load_tracer(tracer_name))]
    reports: list[_Reported] = []
    for number, run, verdict in zip(itertools.count(1), runs, verdicts, strict=False):
        rules = rules_of(run.trace, may_take_long=True)
        answer = answer_of(run.trace, verdict, rules, may_take_long=True)
        known = known_failures_of(run.trace)
        view = view_of(run.trace, verdict, rules, answer, known, prefix=f"run-{number}-")
        spans = [span for part in split_runs(emit(run.trace)) for span in annotate(part, verdict)]
        request = ExportTraceServiceRequest(resource_spans=spans_to_proto(spans))
        document = json.dumps(json.loads(request_to_json(request)), ensure_ascii=True)
        reports.append(_Reported(run.source.rpartition("/")[2], view, Markup(document.translate(_IN_MARKUP))))  # noqa: S704  # escaped
    return reports
