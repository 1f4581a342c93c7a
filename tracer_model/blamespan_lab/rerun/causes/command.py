"""The command `blamespan verify`; everything heavy is imported when it runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from blamespan.errors import BlamespanError, ConfigError, reason_of
from blamespan.tracers import DEFAULT_TRACER

if TYPE_CHECKING:
    from blamespan.analysis.summary.statistics import Share
    from blamespan.attribution import Attribution
    from blamespan_lab.rerun.causes.corrections import Repairs
    from blamespan_lab.rerun.causes.shapley import ShapleyShares
    from blamespan_lab.rerun.causes.verify import VerifiedSuspect
    from blamespan_lab.rerun.recorded_run import ReplayableRun
    from blamespan_lab.rerun.user_program import Ran

BY = "verify"
"""Who says so, of labels that this command writes."""
_NARROWEST = 140
"""Columns of output that goes to a file."""
_BUDGET, _REPEATS = 200, 3
_SHARES_BUDGET, _SHARES_REPEATS = 400, 1
"""Model calls, and runs of each trial or coalition, where the user names none."""


@click.command(
    epilog="""\b
What a step says instead comes from --correction; else from the LLM at BLAMESPAN_JUDGE_URL, where that is set; else
its agent's own model is asked again, told what is wrong. Everything before the step is answered from the recording;
after it the program runs live, with its own models and tools.

\b
With --shares coalitions of agents are put right instead of single suspects. An agent's Shapley share is what putting
it right brings, in the mean over all orders in which agents can be put right. Up to six agents all coalitions are
tried; beyond, orders are drawn, and the standard error is printed. Without MODULE:FACTORY the tracer says how sound
it finds the run with the blamed steps masked: that is its opinion, and nothing is run.

\b
Examples:
  blamespan verify traces.jsonl my_team.app:make --check my_team.app:is_right
  blamespan verify traces.jsonl my_team.app:make --check my_team.app:is_right --correction "3=The total is 48."
  blamespan verify traces.jsonl my_team.app:make --repeats 5 --budget 400 --out verified.jsonl --labels labels.jsonl
  blamespan verify traces.jsonl my_team.app:make --check my_team.app:is_right --shares
  blamespan verify traces.jsonl --shares
"""
)
@click.argument("trace", metavar="TRACE")
@click.argument("program", metavar="[MODULE:FACTORY]", required=False)
@click.option("--shares", "wants_shares", is_flag=True, help="Share the failure out among the agents: Shapley shares.")
@click.option("--check", metavar="MODULE:FUNCTION", help="Tells of (answer, task) whether it is right.")
@click.option("--correction", "given", metavar="STEP=TEXT", multiple=True, help="What a step says instead; repeatable.")
@click.option(
    "--corrections", "file", metavar="FILE", type=click.Path(path_type=Path), help='Lines of {"step", "text"}.'
)
@click.option(
    "--suspects", type=click.IntRange(1), default=5, show_default=True, metavar="N", help="Most that are tried."
)
@click.option(
    "--repeats",
    type=click.IntRange(1, 100),
    metavar="N",
    help=f"Of each trial.  [default: {_REPEATS}; with --shares: {_SHARES_REPEATS}]",
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="N",
    help=f"Of model calls.  [default: {_BUDGET}; with --shares: {_SHARES_BUDGET}]",
)
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), default=120.0, show_default=True,
              metavar="S", help="For one run, in seconds.")  # fmt: skip
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Suspects tried at once; all cores by default.")
@click.option("--task", help="What the program is asked; the recorded task if not given.")
@click.option("--run", "which", metavar="ID|N", help="Which of several runs: its number, from 1, or its trace id.")
@click.option(
    "--tracer", "tracer_name", metavar="NAME", help="Whose suspects.  [default: the verdict in TRACE, or auto]"
)
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="FILE", help="Write the run with the later verdict (OTLP)."
)
@click.option("--write-back", metavar="URL", help="Where the later verdict goes as a span or annotation.")
@click.option("--labels", type=click.Path(path_type=Path), metavar="FILE", help="Add what was confirmed to this file.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def verify(
    trace: str,
    program: str | None,
    wants_shares: bool,
    check: str | None,
    given: tuple[str, ...],
    file: Path | None,
    suspects: int,
    repeats: int | None,
    budget: int | None,
    timeout_s: float,
    processes: int | None,
    task: str | None,
    which: str | None,
    tracer_name: str | None,
    out: Path | None,
    write_back: str | None,
    labels: Path | None,
    wants_json: bool,
) -> None:
    """Put suspects right, and say whether the run then succeeds.

    TRACE is as for `blamespan analyze`: a file, or a run in this machine's store.
    MODULE:FACTORY takes no argument and gives an AutoGen team or agent, a compiled LangGraph graph, an Agent
    Framework workflow or agent, or a function of the task. A suspect is confirmed if the run succeeds with its step put
    right, and fails with it as it was.
    """
    from blamespan.cores import cores
    from blamespan.labels.file import LabelsFile
    from blamespan_lab.rerun.causes.corrections import correction_sources, read_corrections
    from blamespan_lab.rerun.causes.verify import CallBudget, list_suspects, verified_verdict
    from blamespan_lab.rerun.causes.verify import verify as verify_suspects
    from blamespan_lab.rerun.recorded_run import read_replayable, verdict_on
    from blamespan_lab.rerun.trials import ProgramTrials

    if wants_shares and any((out, write_back, labels)):
        raise ConfigError("expected --shares without --out, --write-back and --labels: shares are no later verdict")
    if program is None and not wants_shares:
        raise ConfigError("expected MODULE:FACTORY after TRACE, got none. Name the program, or ask for --shares")
    run = read_replayable(trace, which)
    repairs = read_corrections(given, file, run.recorded.trace.trace_id, takes_given=wants_shares)
    texts = dict(repairs.texts)
    run = replace(run, recorded=replace(run.recorded, trace=replace(run.recorded.trace, outcome="failed")))
    if wants_shares:
        _share_out(
            *(run, verdict_on(run, tracer_name), program, check, repairs, task, repeats or _SHARES_REPEATS),
            *(budget or _SHARES_BUDGET, timeout_s, processes, tracer_name),
            wants_json=wants_json,
        )
        return
    assert program is not None
    repeats, budget = repeats or _REPEATS, budget or _BUDGET
    if labels is not None:
        LabelsFile(labels).check()
    verdict = verdict_on(run, tracer_name)
    chosen = list_suspects(run.script, verdict, suspects, texts)
    if not chosen:
        raise ConfigError(
            f"expected suspects, got none: {verdict.abstained or 'nobody is blamed'}. "
            'Name one with --correction "STEP=TEXT", or another --tracer'
        )
    writers = correction_sources(texts, run.script.trace, verdict)
    asked = task if task is not None else run.script.trace.task
    count = min(processes or cores(), len(chosen))
    with ProgramTrials(program, check, run.script, asked, timeout_s) as trials:
        require_failure(trials.original().ran)
        results = verify_suspects(
            chosen,
            run.script,
            writers,
            trials,
            repeats=repeats,
            budget=(spending := CallBudget(budget)),
            at_once=count,
            on_result=lambda result: _tell(result, wants_json),
        )
    later = verified_verdict(run.recorded.trace, verdict, results)
    if out is not None:
        _write_spans(out, run, later)
    if write_back is not None:
        _write_back(write_back, run, later)
    if labels is not None:
        _add_label(LabelsFile(labels), run, verdict, later)
    if wants_json:
        click.echo(json.dumps(_as_json(run, verdict, later, results, budget, spending.left)))
    else:
        _print(verdict, later, results, repeats, budget - spending.left)


def _write_spans(out: Path, run: ReplayableRun, verdict: Attribution) -> None:
    """Write the run's spans with the later verdict on them, and the span that stands for it, as OTLP-JSON lines."""
    from blamespan.annotate import annotate, verdict_span, without_verdict
    from blamespan.otlp import spans_to_json
    from blamespan.rebuilding.emit import emit
    from blamespan.rebuilding.runs import split_runs

    [spans] = [run.spans] if run.spans is not None else split_runs(emit(run.recorded.trace))
    spans = replace(spans, spans=tuple(map(without_verdict, spans.spans)))
    lines = [spans_to_json(part) for part in (annotate(spans, verdict), [verdict_span(spans, verdict)])]
    try:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--out must be a file that can be written, got {str(out)!r}: {reason_of(error)}") from error
    click.echo(f"blamespan: wrote {out}", err=True)


def _write_back(url: str, run: ReplayableRun, verdict: Attribution) -> None:
    from blamespan.importing.backends import open_writer

    writer = open_writer(url, on_failure=lambda failure: click.echo(f"blamespan: {failure}", err=True))
    try:
        writer.write([(run.recorded, verdict)])
        for note in getattr(writer, "notes", ()):
            click.echo(f"blamespan: {note}", err=True)
    finally:
        writer.close()
    if writer.failed:
        raise click.exceptions.Exit(1)


def _add_label(file: Any, run: ReplayableRun, before: Attribution, verdict: Attribution) -> None:
    """Add a label of the confirmed step; without one nothing is known."""
    from blamespan.labels.people import PersonLabel, ShownVerdict

    confirmed = [item for item in verdict.verified if item.outcome == "confirmed"]
    if not confirmed or verdict.decisive_step is None:
        click.echo(f"blamespan: nothing was confirmed, so no label was added to {file.path}", err=True)
        return
    decisive = verdict.decisive_step
    item = next(item for item in confirmed if item.index == decisive)
    before_agent = "" if before.decisive_step is None else before.steps[before.decisive_step].agent
    mode = verdict.mode_of(verdict.steps[decisive].agent)
    file.add(
        PersonLabel.of(
            run.recorded.trace,
            "agrees" if before.decisive_step == decisive else "corrects",
            BY,
            step=decisive,
            modes=[mode.mode] if mode is not None and before.decisive_step == decisive else [],
            comment=f"put right, {item.succeeded} of {item.repeats} runs succeeded; as it was, "
            f"{item.unchanged_succeeded} of {item.unchanged_repeats}",
            shown=ShownVerdict(before.tracer, before_agent, before.decisive_step),
        )
    )
    click.echo(f"blamespan: a label was added to {file.path}", err=True)


def _tell(result: VerifiedSuspect, wants_json: bool) -> None:
    if not wants_json:
        click.echo(f"blamespan: step {result.suspect.step} {result.outcome}", err=True)


def _print(
    before: Attribution, verdict: Attribution, results: Sequence[VerifiedSuspect], repeats: int, spent: int
) -> None:
    from rich.console import Console
    from rich.table import Table

    from blamespan.analysis.showing.legible import printable

    table = Table(box=None, pad_edge=False)
    for name, justify in (("step", "right"), ("agent", "left"), ("blame", "right"), ("verdict", "left")):
        table.add_column(name, justify=justify, no_wrap=name == "verdict")  # type: ignore[arg-type]  # its type is not exported
    table.add_column("put right", no_wrap=True)
    table.add_column("as it was", no_wrap=True)
    table.add_column("by")
    table.add_column("why", overflow="fold")
    for result in results:
        table.add_row(
            str(result.suspect.step),
            printable(result.suspect.agent),
            f"{result.suspect.share:.2f}",
            result.outcome,
            _share_text(result.corrected),
            _share_text(result.unchanged),
            result.source,
            printable(result.reason),
        )
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, _NARROWEST)
    console.print(table)
    if verdict.decisive_step is not None:
        now = verdict.steps[verdict.decisive_step]
        changed = "" if before.decisive_step == verdict.decisive_step else f" (before: step {before.decisive_step})"
        click.echo(f"decisive: step {now.index} of {printable(now.agent)}{changed}, revision {verdict.revision}")
    chance = (
        "1 run each: what chance does is not known, give --repeats"
        if repeats == 1
        else f"{repeats} runs each; succeeded of all, with Wilson's 95 % interval in %"
    )
    click.echo(f"{chance}; models were asked {spent} times", err=True)


def _share_text(share: Share) -> str:
    """Write how many of how many succeeded, with Wilson's 95 % interval in percent; `-` of none."""
    if not share.total:
        return "-"
    low, high = share.interval
    return f"{share.count} of {share.total} ({100 * low:.0f}-{100 * high:.0f})"


def _as_json(
    run: ReplayableRun,
    before: Attribution,
    verdict: Attribution,
    results: Sequence[VerifiedSuspect],
    budget: int,
    left: int,
) -> dict[str, object]:
    decisive = verdict.decisive_step
    return {
        "trace_id": run.recorded.trace.trace_id,
        "tracer": verdict.tracer.name,
        "revision": verdict.revision,
        "decisive_before": before.decisive_step,
        "decisive": decisive,
        "agent": None if decisive is None else verdict.steps[decisive].agent,
        "suspects": [suspect_json(result) for result in results],
        "models_asked": budget - left,
        "budget": budget,
    }


def suspect_json(result: VerifiedSuspect) -> dict[str, object]:
    """Lay out what came of a suspect for JSON."""
    return {
        "step": result.suspect.step,
        "agent": result.suspect.agent,
        "share": round(result.suspect.share, 6),
        "verified": result.outcome,
        "reason": result.reason,
        "by": result.source,
        "says": result.says,
        "corrected": _share_json(result.corrected),
        "unchanged": _share_json(result.unchanged),
        "models_asked": result.asked,
        "from_checkpoint": result.is_from_checkpoint,
    }


def _share_json(share: Share) -> dict[str, object]:
    return {"succeeded": share.count, "repeats": share.total, "interval": list(share.interval)}


def _share_out(
    run: ReplayableRun,
    verdict: Attribution,
    program: str | None,
    check: str | None,
    repairs: Repairs,
    task: str | None,
    repeats: int,
    budget: int,
    timeout_s: float,
    processes: int | None,
    tracer_name: str | None,
    *,
    wants_json: bool,
) -> None:
    """Share the failure out among the agents, and print the shares.

    Raises:
        BlamespanError: if there is no failure that can be shared out.
    """
    from blamespan_lab.rerun.causes.shapley import NoShares

    if verdict.decisive_step is None and not repairs.texts:
        raise ConfigError(
            f"expected somebody to share the failure among, got nobody: {verdict.abstained or 'nobody is blamed'}. "
            'Name a step with --correction "STEP=TEXT", or another --tracer'
        )
    lacking: dict[str, str] = {}
    spent: int | None = None
    try:
        if program is None:
            if repairs.texts or check:
                raise ConfigError("expected MODULE:FACTORY with --correction or --check, got none. Name it after TRACE")
            shares = _masked_shares(run, verdict, tracer_name)
        else:
            asked = task if task is not None else run.script.trace.task
            shares, lacking, spent = _replayed_shares(
                run, verdict, program, check, repairs, asked, repeats, budget, timeout_s, processes
            )
    except NoShares as error:
        raise BlamespanError(f"expected a failure that can be shared out, got none: {error}") from error
    if wants_json:
        click.echo(json.dumps(_shares_as_json(run, shares, lacking, spent)))
    else:
        _print_shares(shares, lacking, spent, budget, is_replayed=program is not None)


def _masked_shares(run: ReplayableRun, verdict: Attribution, tracer_name: str | None) -> ShapleyShares:
    from blamespan.tracers import load_tracer
    from blamespan_lab.rerun.causes.shapley import shapley
    from blamespan_lab.rerun.causes.worth import MaskedWorth

    members = [item.agent for item in verdict.agents]
    worth = MaskedWorth(run.script.trace, verdict, load_tracer(tracer_name or DEFAULT_TRACER))
    return shapley(members, worth)


def _replayed_shares(
    run: ReplayableRun,
    verdict: Attribution,
    program: str,
    check: str | None,
    repairs: Repairs,
    task: str,
    repeats: int,
    budget: int,
    timeout_s: float,
    processes: int | None,
) -> tuple[ShapleyShares, dict[str, str], int]:
    from blamespan.analysis.showing.legible import printable
    from blamespan.cores import cores
    from blamespan_lab.rerun.causes.corrections import correction_sources
    from blamespan_lab.rerun.causes.shapley import MOST_EXACT, NoShares, ShapleyShares, shapley
    from blamespan_lab.rerun.causes.verify import CallBudget, list_suspects
    from blamespan_lab.rerun.causes.worth import ReplayedWorth, correct_agents
    from blamespan_lab.rerun.trials import ProgramTrials

    texts = dict(repairs.texts)
    list_suspects(run.script, verdict, 0, texts)  # refuses corrections of nobody's steps
    spending = CallBudget(budget)
    writers = correction_sources(texts, run.script.trace, verdict)
    corrections, lacking = correct_agents(run.script.trace, verdict, texts, writers, spending)
    if not corrections:
        if not lacking:
            raise NoShares("no agent can be put right: nobody is blamed")
        return ShapleyShares({}, {}, True, 0, 0, 0.0, 0.0), lacking, budget - spending.left
    put_right = {item.step for items in corrections.values() for item in items}
    if lost := sorted({step for steps in repairs.given.values() for step in steps} - put_right):
        raise ConfigError(f'"given" names step {lost[0]}, which nobody puts right. Give a line for it, or leave it out')
    count = processes or cores()
    with ProgramTrials(program, check, run.script, task, timeout_s) as trials:
        require_failure(trials.original().ran)
        worth = ReplayedWorth(corrections, run.script, trials, repeats, spending, count, repairs.given)
        worth, causes = worth.without_consequences()
        is_exact = len(worth.corrections) <= MOST_EXACT and worth.estimate_all() <= spending.left
        shares = shapley(list(worth.corrections), worth, is_exact=is_exact)
    for agent, cause in causes.items():
        click.echo(f"{printable(agent)} went on with what {printable(cause)} had got wrong, and has no share", err=True)
    none = dict.fromkeys(causes, 0.0)
    shares = replace(shares, shares={**shares.shares, **none}, errors={**shares.errors, **none})
    return shares, lacking, budget - spending.left


def require_failure(ran: Ran) -> None:
    """Make sure that the recorded run is known to have failed.

    Raises:
        ConfigError: if it succeeded, or nobody can tell.
    """
    if ran.succeeded is None:
        raise ConfigError(
            "expected a check that tells whether an answer is right, got none. "
            "Name one with --check MODULE:FUNCTION, or as the factory's attribute `check`"
        )
    if ran.succeeded:
        raise ConfigError(
            f"expected a run that failed, got one that the check calls right ({ran.answer[:80]!r}): "
            "nothing went wrong in it. Name another with --run"
        )


def _print_shares(
    shares: ShapleyShares, lacking: dict[str, str], spent: int | None, budget: int, *, is_replayed: bool
) -> None:
    from rich.console import Console
    from rich.table import Table

    from blamespan.analysis.showing.legible import printable

    table = Table(box=None, pad_edge=False)
    table.add_column("share", justify="right")
    if not shares.is_exact:
        table.add_column("+-", justify="right")
    table.add_column("agent")
    for agent, share in sorted(shares.shares.items(), key=lambda item: -item[1]):
        error = [] if shares.is_exact else [f"{100 * shares.errors[agent]:.1f}"]
        table.add_row(f"{100 * share:.1f} %", *error, printable(agent))
    for agent in lacking:
        table.add_row("-", *([] if shares.is_exact else ["-"]), printable(agent))
    Console().print(table)
    for agent, reason in lacking.items():
        click.echo(f"not put right: {printable(agent)}: {printable(reason)}", err=True)
    if not shares.shares:
        click.echo('nothing was tried. Say what a step says instead: --correction "STEP=TEXT"', err=True)
        return
    how = (
        f"all {shares.coalitions} coalitions tried"
        if shares.is_exact
        else f"{shares.pairs} orders and their reverses: {shares.coalitions} coalitions; +- is one standard error"
    )
    click.echo(f"{how}; nobody put right {shares.nobody:.2f}, everybody {shares.everybody:.2f}", err=True)
    if is_replayed:
        click.echo(f"models were asked {spent} times, of {budget}", err=True)
    else:
        click.echo("by the tracer's word, not by running anything: name MODULE:FACTORY to try it", err=True)


def _shares_as_json(
    run: ReplayableRun, shares: ShapleyShares, lacking: dict[str, str], spent: int | None
) -> dict[str, object]:
    ranked = sorted(shares.shares.items(), key=lambda item: -item[1])
    return {
        "trace_id": run.recorded.trace.trace_id,
        "method": "shapley",
        "by": "tracer" if spent is None else "replay",
        "agents": [{"agent": agent, "share": share, "error": shares.errors[agent]} for agent, share in ranked],
        "not_put_right": lacking,
        "exact": shares.is_exact,
        "pairs": shares.pairs,
        "coalitions": shares.coalitions,
        "nobody": shares.nobody,
        "everybody": shares.everybody,
        "models_asked": spent,
    }
