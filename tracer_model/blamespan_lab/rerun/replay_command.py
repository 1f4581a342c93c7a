"""`blamespan lab replay`: run a program again as it was recorded, with one step put right."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from blamespan.analysis.showing.legible import printable
from blamespan.errors import ConfigError
from blamespan.importing.files import read_bytes
from blamespan_lab.rerun.playback import Correction
from blamespan_lab.rerun.recorded_run import original_run, read_replayable, recording_quietly
from blamespan_lab.rerun.script import Script
from blamespan_lab.rerun.trials import Trial, try_corrections
from blamespan_lab.rerun.user_program import Ran, load_program

_MOST_SHOWN = 400
"""Characters of an answer that are shown; --json gives all."""


@click.command(
    epilog="""\b
Everything before the step is answered from the recording: no model is asked and no tool is called. From the
step on the program runs live, with its own models and tools.

\b
Examples:
  blamespan lab replay traces.jsonl --step 3 --with "The total is 48." my_team.app:make --check my_team.app:is_right
  blamespan lab replay traces.jsonl --run 2 --step 5 --with @corrected.txt my_team.app:make --json
"""
)
@click.argument("trace", metavar="TRACE")
@click.argument("program", metavar="MODULE:FACTORY")
@click.option("--step", type=int, required=True, help="Index of the step to put right, as `analyze` shows it.")
@click.option("--with", "text", metavar="TEXT", help="What it says instead; @FILE reads it from a file.")
@click.option("--run", "which", metavar="ID|N", help="Which of several runs: its number, from 1, or its trace id.")
@click.option("--task", help="What the program is asked; the recorded task if not given.")
@click.option("--check", metavar="MODULE:FUNCTION", help="Tells of (answer, task) whether it is right.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON object.")
def replay(
    trace: str,
    program: str,
    step: int,
    text: str | None,
    which: str | None,
    task: str | None,
    check: str | None,
    wants_json: bool,
) -> None:
    """Say whether a run ends otherwise if one step is put right.

    TRACE is as for `blamespan analyze`: a file, or a run in this machine's store.
    MODULE:FACTORY takes no argument and gives an AutoGen team or agent, a compiled LangGraph graph, an Agent
    Framework workflow or agent, or a function of the task. Whether an answer is right says --check, or the factory's
    attribute `check`.
    """
    instead = _instead(text)
    script = read_replayable(trace, which).script
    asked = task if task is not None else script.trace.task
    for framework in ("autogen_core", "autogen_agentchat"):  # what they say of a replay that is refused is no news
        logging.getLogger(framework).addHandler(logging.NullHandler())
    with recording_quietly() as models:
        made = load_program(program, check)
        trial = try_corrections(made, script, [Correction(step, instead)], asked, models)
        if trial.trouble:
            raise ConfigError(
                f"the program {program!r} has changed since it was recorded: {trial.trouble}. "
                "Replay with the program as it was, or record it again"
            )
        original = original_run(made, script, asked, models)
    output = (
        json.dumps(_as_json(script, step, original, trial)) if wants_json else _as_text(script, step, original, trial)
    )
    click.echo(output.encode("utf-8", "replace").decode())  # a program may say what is no text


def _instead(text: str | None) -> str:
    if text is None:
        raise ConfigError(
            "--with must say what the step says instead, got nothing: a correction is not guessed. "
            'Write it like --with "The total is 48." or --with @corrected.txt'
        )
    if not text.startswith("@"):
        return text
    try:
        return read_bytes(Path(text[1:])).decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(f"--with must name a file of UTF-8 text, got {text!r}: {error}. Save it as UTF-8") from error


def _as_json(script: Script, step: int, original: Ran, trial: Trial) -> dict[str, object]:
    replaced = script.trace.steps[step]
    return {
        "trace_id": script.trace.trace_id,
        "step": step,
        "agent": replaced.agent,
        "kind": replaced.kind,
        "outcome_changed": _has_flipped(original, trial.ran),
        "answers_differ": _differs(original, trial.ran),
        "original": _ran(original),
        "replay": _ran(trial.ran),
        "answered_from_recording": trial.answered,
        "models_asked": trial.asked,
    }


def _has_flipped(original: Ran, replayed: Ran) -> bool | None:
    """Return whether the outcome changed; None where nobody can tell."""
    if original.succeeded is None or replayed.succeeded is None:
        return None
    return original.succeeded != replayed.succeeded


def _differs(original: Ran, replayed: Ran) -> bool:
    return original.answer.strip() != replayed.answer.strip()


def _ran(ran: Ran) -> dict[str, object]:
    return {"answer": ran.answer, "succeeded": ran.succeeded, "error": ran.error}


def _as_text(script: Script, step: int, original: Ran, trial: Trial) -> str:
    replaced = script.trace.steps[step]
    verdict = {
        True: "The outcome changes: this step alone decides it.",
        False: "The outcome stays as it was.",
        None: "Whether that is right nobody can tell: name a check with --check. "
        + ("The answers differ." if _differs(original, trial.ran) else "The answers are the same."),
    }[_has_flipped(original, trial.ran)]
    return "\n".join(
        [
            f"step {step} of {printable(replaced.agent)} put right "
            f"({trial.answered} answers from the recording, {trial.asked} models asked after it)",
            f"original  {_shorten(original)}",
            f"replay    {_shorten(trial.ran)}",
            verdict,
        ]
    )


def _shorten(ran: Ran) -> str:
    outcome = {True: "succeeded", False: "failed", None: "unchecked"}[ran.succeeded]
    answer = " ".join(printable(ran.answer).split())
    short = answer if len(answer) <= _MOST_SHOWN else answer[:_MOST_SHOWN] + "..."
    return f"{outcome:<10} {short}{f'  ({printable(ran.error)})' if ran.error else ''}".rstrip()
