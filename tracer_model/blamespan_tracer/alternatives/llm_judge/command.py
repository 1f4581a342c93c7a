"""`blamespan judge`: a second opinion on recorded runs, or what asking for it would send and cost."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from blamespan.analysis.showing.legible import printable
from blamespan.analysis.showing.notices import readable
from blamespan.tracers import tracer_options

if TYPE_CHECKING:
    from blamespan.attribution import Attribution
    from blamespan.importing.recorded import RecordedRun
    from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
    from blamespan_tracer.alternatives.llm_judge.shown_run import ShownRun
    from blamespan_tracer.alternatives.llm_judge.tracer import JudgeTracer, Worth


class _TakesJudgeOptions(click.Command):
    """A command that takes the flags of the tracer `judge`."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Ask the tracers for their flags, too."""
        return [*super().get_params(ctx), *tracer_options()]


@click.command(cls=_TakesJudgeOptions)
@click.argument("traces", nargs=-1)
@click.option("--dry-run", is_flag=True, help="Ask nobody: print what would be sent, its tokens and what it may cost.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object per run, each on a line.")
def judge(traces: tuple[str, ...], dry_run: bool, wants_json: bool) -> None:
    """Ask an LLM about runs where that pays, beside the embedded verdict.

    TRACES are as for `blamespan analyze`: files, folders, or runs in this machine's store; without any, all of the
    store. The endpoint is that of BLAMESPAN_JUDGE_URL; docs/how-to/judge.md has all settings. The exit code is 1 if a
    file could not be read, or no answer came.

    Example:  blamespan judge --dry-run traces.jsonl

    Example:  blamespan judge last --judge-url http://localhost:8000/v1 --judge-model qwen3-32b
    """
    from blamespan.analysis.sources import runs_in
    from blamespan.errors import UnreadableInput
    from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings
    from blamespan_tracer.alternatives.llm_judge.tracer import JudgeTracer

    settings = JudgeSettings.from_environment(needs_endpoint=not dry_run)
    tracer = JudgeTracer.with_settings(settings)
    has_failed = False
    refused: list[UnreadableInput] = []
    for run in readable(runs_in(traces), refused):
        if dry_run:
            _print_question(run, tracer, settings, wants_json=wants_json)
        else:
            verdict = _attribute(tracer, run)
            has_failed |= any(opinion.note and opinion.step is None for opinion in verdict.opinions[1:])
            _print_verdict(run, verdict, wants_json=wants_json)
    if not dry_run:
        click.echo(f"blamespan: {tracer.account}", err=True)
    if refused or has_failed:
        sys.exit(1)


def _attribute(tracer: Any, run: RecordedRun) -> Attribution:
    from blamespan.tracers import ask_tracer

    [verdict] = ask_tracer(tracer, [run.trace])
    return verdict


def _print_question(run: RecordedRun, tracer: JudgeTracer, settings: JudgeSettings, *, wants_json: bool) -> None:
    first = _attribute(tracer.first, run) if tracer.first is not None else None
    worth = tracer.worth(run.trace, first)
    shown = tracer.show(run.trace, first) if worth.is_asked else None
    described = _describe(run, worth, shown, settings)
    if wants_json:
        click.echo(json.dumps(described))
        return
    click.echo(f"{printable(run.source)} {run.trace.trace_id}")
    click.echo(f"{'asked about' if worth.is_asked else 'not asked about, nothing is sent'}: {printable(worth.reason)}")
    if shown is None:
        return
    tokens, answer, cost = described["tokens"], settings.answer_tokens, described["cost"]
    first_of = "" if shown.is_whole else f", the first of {described['questions']} questions at most"
    n_steps = len(run.trace.steps)
    click.echo("shown whole" if shown.is_whole else f"shown in full: {described['steps']} of {n_steps} steps")
    click.echo(f"tokens: {tokens:,} asked, estimated from above; {answer:,} answered at most{first_of}")
    click.echo(
        f"cost: ${cost:.4f} at most" if cost is not None else "cost: unknown, as no price is known of this model"
    )
    for message in described["messages"]:
        click.echo(f"\n--- {message['role']}\n{message['content']}")


def _describe(run: RecordedRun, worth: Worth, shown: ShownRun | None, settings: JudgeSettings) -> dict[str, Any]:
    from blamespan_tracer.alternatives.llm_judge.prompts import VERSION
    from blamespan_tracer.alternatives.llm_judge.tracer import MOST_QUESTIONS
    from blamespan_tracer.alternatives.rendering import estimated_tokens

    described: dict[str, Any] = {
        "source": run.source,
        "trace_id": run.trace.trace_id,
        "asked": worth.is_asked,
        "gain": worth.gain,
        "reason": worth.reason,
        "prompts": VERSION,
    }
    if shown is None:
        return described
    question = shown.question()
    told = question.prompt(settings.taxonomy)
    tokens = estimated_tokens(told + question.document)
    n_questions = 1 if shown.is_whole else MOST_QUESTIONS
    read, written = settings.price or (0.0, 0.0)
    most = n_questions * (tokens * read + settings.answer_tokens * written)
    return {
        **described,
        "whole": shown.is_whole,
        "steps": len(shown.about),
        "questions": n_questions,
        "tokens": tokens,
        "answer_tokens": settings.answer_tokens,
        "cost": None if settings.price is None else most,
        "messages": [{"role": "system", "content": told}, {"role": "user", "content": question.document}],
    }


def _print_verdict(run: RecordedRun, verdict: Attribution, *, wants_json: bool) -> None:
    from blamespan.analysis.results.rows import row_of
    from blamespan.analysis.showing.verdicts import lead_text, opinion_text

    if wants_json:
        click.echo(json.dumps(row_of(run, verdict)))
        return
    click.echo(f"{printable(run.source)} {run.trace.trace_id} {verdict.word}")
    if verdict.names_suspects and verdict.decisive_step is not None:
        blamed = verdict.steps[verdict.decisive_step]
        click.echo(f"  {lead_text(verdict)}: {printable(blamed.agent)} at step {blamed.index}, {blamed.score:.2f}")
    elif verdict.abstained is not None:
        click.echo(f"  no verdict: {printable(verdict.abstained)}")
    for opinion in verdict.opinions:
        click.echo(f"  {printable(opinion_text(opinion))}")
    if not verdict.opinions:
        click.echo("  not asked about; `blamespan judge --dry-run` says why")
