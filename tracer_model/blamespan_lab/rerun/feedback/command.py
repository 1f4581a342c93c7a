"""What `blamespan show --advice` prints; everything heavy is imported when it runs."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from blamespan.errors import UnreadableInput
from blamespan.tracers import DEFAULT_TRACER

if TYPE_CHECKING:
    from blamespan.attribution import Attribution
    from blamespan.importing.recorded import RecordedRun
    from blamespan_lab.rerun.feedback.judged import JudgedAdvice
    from blamespan_lab.rerun.feedback.writing import Feedback


def print_advice(
    source: str,
    which: str | None,
    *,
    tracer_name: str | None,
    has_failed: bool,
    as_json: bool,
) -> None:
    """Print what the next attempt at a task should be told, for every failed run in *source*.

    The LLM at `BLAMESPAN_JUDGE_URL` words the advice where that is set, else a template. Runs known to have succeeded
    need none. Where nobody recorded how a run ended, nobody is blamed unless more likely at fault than not.

    Args:
        source: As for `blamespan analyze`: a file, a stored run, or empty for all stored runs.
        which: Of several runs this one alone: its number, from 1, or its trace id.
        tracer_name: Who says who is to blame; None for the default tracer.
        has_failed: Whether runs whose outcome nobody recorded have failed.
        as_json: Whether each run is one JSON object on a line.

    Raises:
        UnreadableInput: if there is no failed run.
        ConfigError: if *which* names none.
    """
    from blamespan.analysis.outcomes import attribute_recorded
    from blamespan.analysis.showing.notices import readable
    from blamespan.analysis.sources import runs_in
    from blamespan.importing.selection import list_named
    from blamespan.tracers import load_tracer
    from blamespan_lab.rerun.feedback.writing import feedback_on, is_known_to_have_failed, is_suspected

    tracer = load_tracer(tracer_name or DEFAULT_TRACER)
    is_judged = bool(os.environ.get("BLAMESPAN_JUDGE_URL", "").strip())
    advice = _load_judge() if is_judged else None  # after the tracer: a judge's account is for both
    n_written = 0
    refused: list[UnreadableInput] = []
    runs = list(readable(runs_in([source] if source else []), refused))
    for run in list_named(runs, which):
        if run.trace.outcome == "succeeded":
            _say(f"{run.source}: this run succeeded, so there is nothing to put right")
        else:
            judged = replace(run, trace=replace(run.trace, outcome="failed")) if has_failed else run
            verdict = attribute_recorded([judged], tracer)[0].verdict
            if not is_known_to_have_failed(judged.trace) and not is_suspected(verdict):
                _say(f"{run.source}: {_describe_unsuspected(verdict)}. Give --failed if it has failed")
                continue
            written = feedback_on(judged.trace, verdict)
            _print(run, _improve(written, run, advice), as_json, is_first=n_written == 0)
            n_written += 1
    if not n_written and not refused:
        raise UnreadableInput(
            f"{source or 'the store'}: expected a failed run, got none to write feedback on. Check TRACE, or "
            "give --failed"
        )
    if refused:
        sys.exit(1)


def _describe_unsuspected(verdict: Attribution) -> str:
    if verdict.abstained is not None:
        return f"there is no verdict on this run, of which nobody said that it failed: {verdict.abstained}"
    return f"nobody said that this run failed, and nobody seems at fault (failure score {verdict.failure_score:.2f})"


def _load_judge() -> JudgedAdvice:
    from blamespan.plugins import require

    require("httpx", "collector")
    from blamespan_lab.rerun.feedback.judged import JudgedAdvice
    from blamespan_tracer.alternatives.llm_judge.settings import JudgeSettings

    return JudgedAdvice(JudgeSettings.from_environment())


def _improve(plain: Feedback, run: RecordedRun, advice: JudgedAdvice | None) -> Feedback:
    if advice is None:
        return plain
    from blamespan_tracer.alternatives.llm_judge.budget import Unanswered

    try:
        return advice.improve(run.trace, plain)
    except Unanswered as error:
        _say(f"{run.source}: {error}; the advice is the template's")
        return plain


def _print(run: RecordedRun, written: Feedback, wants_json: bool, *, is_first: bool) -> None:
    if not wants_json:
        click.echo(("" if is_first else "\n") + written.text.encode("utf-8", "replace").decode())
        return
    document = {
        "source": run.source,
        "trace_id": written.trace_id,
        "agent": written.agent,
        "step": written.step,
        "mode": str(written.mode) if written.mode is not None else None,
        "share": round(written.share, 6),
        "suspects": [
            {"agent": suspect.agent, "step": suspect.step, "share": round(suspect.share, 6)}
            for suspect in written.suspects
        ],
        "quote": written.quote,
        "contradicted_by": None if written.source is None else asdict(written.source),
        "broken_rule": written.broken_rule or None,
        "taken_over_by": written.taken_over_by,
        "advice": written.advice,
        "by": written.by,
        "reason": written.reason or None,
        "outcome": "failed" if written.is_known else "unknown",
        "text": written.text,
    }
    click.echo(json.dumps(document))


def _say(text: str) -> None:
    from blamespan.analysis.showing.legible import printable

    click.echo(f"blamespan: {printable(text)}", err=True)
