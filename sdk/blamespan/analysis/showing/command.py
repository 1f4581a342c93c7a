"""`blamespan show`: draw one run with who is to blame, write runs as a page, or print advice for the next attempt."""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from rich.console import Console, ConsoleDimensions

from blamespan.analysis.outcomes import attribute_recorded
from blamespan.analysis.showing.claims import claims_as_json, print_answer, read_answer
from blamespan.analysis.showing.drawing import Picture
from blamespan.analysis.showing.findings import BrokenRule, known_failures_of, rules_of
from blamespan.analysis.showing.marks import line, marks_of, shortened
from blamespan.analysis.showing.notices import readable
from blamespan.analysis.showing.run_view import view_of
from blamespan.analysis.showing.shown_run import SeveralRuns, ShownRun, chosen, found_runs
from blamespan.attribution import Attribution
from blamespan.errors import BlamespanError, ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.pipeline import format_error
from blamespan.plugins import load_part
from blamespan.tracers import DEFAULT_TRACER, load_tracer

_TASK_CHARS = 60


@click.command(
    epilog="""\b
Examples:
  blamespan show traces.jsonl
  blamespan show traces.jsonl --run 2 --step 5
  blamespan show last
  blamespan show 4bf92f3577b34da6
  blamespan show "When is invoice 7 due"
  blamespan show traces.jsonl --run 2 --claims
  blamespan show traces.jsonl --html runs.html
  blamespan show traces.jsonl --run 2 --advice > feedback.txt
"""
)
@click.argument("trace", metavar="[TRACE]", default="")
@click.option("--run", "which", metavar="ID|N", help="Which of several runs: its number, from 1, or its trace id.")
@click.option("--step", "index", type=click.IntRange(min=0), metavar="N", help="Show this step with all of its text.")
@click.option("--all", "every", is_flag=True, help="Leave no step out.")
@click.option("--suspects", is_flag=True, help="Name suspects also where there is no sign of failure.")
@click.option("--claims", "wants_claims", is_flag=True, help="Say where each claim of the answer comes from.")
@click.option("--html", metavar="FILE", type=click.Path(path_type=Path), help="Write the runs in TRACE as one page to "
              "hand on, and draw nothing.")  # fmt: skip
@click.option("--advice", "wants_advice", is_flag=True, help="Print what the next attempt at the task should be told.")
@click.option("--failed", "has_failed", is_flag=True, help="With --advice: runs of unknown outcome have failed.")
@click.option("--json", "as_json", is_flag=True, help="With --claims or --advice: print JSON and nothing else.")
@click.option("--tracer", "tracer_name", metavar="NAME", help=f"Ask this tracer.  [default: the verdict on the spans, "
              f"else {DEFAULT_TRACER}]")  # fmt: skip
def show(
    trace: str,
    which: str | None,
    index: int | None,
    every: bool,
    suspects: bool,
    wants_claims: bool,
    html: Path | None,
    wants_advice: bool,
    has_failed: bool,
    as_json: bool,
    tracer_name: str | None,
) -> None:
    """Draw one run: who did what, who is to blame, and why.

    TRACE is a file, folder, pattern or URL as `blamespan analyze` reads them, or a run in this machine's store: its id
    or the first digits, the beginning of its task, or `last`. Without TRACE the stored runs are listed. NO_COLOR and
    FORCE_COLOR are honoured; what is piped is plain text, as wide as COLUMNS says, else 80. With --html and --advice
    TRACE may hold several runs.
    """
    if as_json and not (wants_claims or wants_advice):
        raise ConfigError(
            "expected --claims or --advice beside --json, got --json alone. For verdicts: blamespan analyze --json"
        )
    if html is not None or wants_advice:
        if html is not None:
            load_part("write_report")(trace, which, html, tracer_name=tracer_name)
        if wants_advice:
            load_part("print_advice")(trace, which, tracer_name=tracer_name, has_failed=has_failed, as_json=as_json)
        return
    _draw(trace, which, index, every, suspects, wants_claims, as_json, tracer_name)


def _draw(
    trace: str,
    which: str | None,
    index: int | None,
    every: bool,
    suspects: bool,
    wants_claims: bool,
    as_json: bool,
    tracer_name: str | None,
) -> None:
    """Draw the one run that is meant, one step of it, or its claims; list the runs where several are there."""
    console = _console()
    try:
        run = chosen(readable(found_runs(trace), []), which)
    except SeveralRuns as several:
        _list(console, several)
        if not trace and which is None:
            return
        raise
    verdict, checked = _verdict(run, tracer_name, suspects=suspects), rules_of(run.trace, may_take_long=True)
    if wants_claims:
        if checked.failure:
            click.echo(checked.failure, err=True)
        _show_claims(console, run, verdict, checked.rules, as_json=as_json)
        return
    known = () if checked.failure else known_failures_of(run.trace)  # which build on what checks find
    view = view_of(
        run.trace, verdict, checked.rules, known=known, check_failure=checked.failure, with_idle_suspects=suspects
    )
    picture = Picture(console, run, view)
    if index is None:
        picture.print_run(every=every)
        return
    if index >= len(run.trace.steps):
        raise ConfigError(f"expected a step from 0 to {len(run.trace.steps) - 1}, got --step {index}")
    picture.print_step(index)


def _show_claims(
    console: Console, run: ShownRun, verdict: Attribution, rules: Sequence[BrokenRule] | None, *, as_json: bool
) -> None:
    """Print where the claims of a run's answer come from.

    Raises:
        MissingExtra: if the package that follows them is not installed.
        BlamespanError: if it raises.
    """
    try:
        answer = read_answer(run.trace, verdict, rules, may_take_long=True)
    except BlamespanError:
        raise
    except Exception as error:  # what came from outside may break anything
        raise BlamespanError(
            f"expected a run whose claims can be followed, got {format_error(error)}. "
            "This is a mistake in blamespan: please report it. `blamespan show` without --claims shows the run"
        ) from error
    assert answer is not None, "only who waits is told of no answer"
    if as_json:
        click.echo(json.dumps(claims_as_json(run.trace, answer)))
    else:
        print_answer(console, answer)


def _console() -> Console:
    """Open the terminal; without colours also nothing bold or dim, and signs that its encoding lacks become `?`."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, markup=False, emoji=False)
    if console.no_color:
        console = Console(highlight=False, markup=False, emoji=False, color_system=None)
    if console.is_dumb_terminal:
        console.size = ConsoleDimensions(*shutil.get_terminal_size())  # Rich takes a dumb one to have 80 columns
    return console


def _verdict(run: ShownRun, tracer_name: str | None, *, suspects: bool) -> Attribution:
    """Return the verdict on the spans; ask a tracer where there is none, or it names no suspects that are wanted."""
    names_them = run.verdict is not None and (run.verdict.decisive_step is not None or run.verdict.abstained)
    if run.verdict is not None and tracer_name is None and (names_them or not suspects):
        return run.verdict
    recorded = RecordedRun(run.source, run.trace, waits=run.waits)
    [result] = attribute_recorded([recorded], load_tracer(tracer_name or DEFAULT_TRACER))
    return result.verdict


def _list(console: Console, several: SeveralRuns) -> None:
    """Print which runs there are, a line each."""
    for number, run in enumerate(several.runs, 1):
        task = shortened(line(run.trace.task), _TASK_CHARS, marks_of(console))
        facts = f"{number:>5}  {run.trace.trace_id}  {len(run.trace.steps):>4} steps  {run.trace.outcome:9}  {task}"
        console.print(facts.rstrip(), no_wrap=True, crop=False, overflow="ignore", soft_wrap=True)
    if several.has_more:
        console.print(f"      and more: {len(several.runs)} are listed")
