"""The command `blamespan learn`; everything heavy is imported when it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from blamespan.errors import ConfigError
from blamespan.learning import LearnSettings
from blamespan.learning import learn as teach

_PATH = click.Path(path_type=Path)


@click.command(
    epilog="""\b
Examples:
  blamespan learn my_team:make --tasks tasks.jsonl --check my_team:is_right
  blamespan learn my_team:make --tasks tasks.jsonl --check my_team:is_right --dry-run
  blamespan learn my_team:make --tasks tasks.jsonl --check my_team:is_right --budget 600 --minutes 20
  blamespan learn --runs traces/ --labels labels.jsonl
"""
)
@click.argument("program", metavar="[MODULE:FACTORY]", required=False)
@click.option("--tasks", "tasks_file", type=_PATH, metavar="FILE", help='A task on each line; .jsonl: {"task": ...}.')
@click.option("--check", metavar="MODULE:FUNCTION", help="Tells of (answer, task) whether the answer is right.")
@click.option("--runs", type=_PATH, multiple=True, metavar="TRACES", help="Learn from these, too; repeatable.")
@click.option("--labels", type=_PATH, metavar="FILE", help="The labels of --runs.  [default: labels.jsonl beside them]")
@click.option(
    "--budget", type=click.IntRange(1), default=300, show_default=True, metavar="N", help="Runs with a fault."
)
@click.option("--tokens", type=click.IntRange(1), metavar="N", help="Most tokens of models.")
@click.option("--max-cost", type=click.FloatRange(min=0, min_open=True), metavar="USD",
              help="Most money for models, by the prices in BLAMESPAN_PRICES.")  # fmt: skip
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), metavar="N", help="Most minutes of runs.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(min=0, min_open=True), default=120.0, show_default=True,
              metavar="S", help="For one run, in seconds.")  # fmt: skip
@click.option("--writer", type=click.Choice(["operators", "model"]), default="operators", show_default=True,
              help="Who writes faults; a model at BLAMESPAN_MANIPULATOR_URL.")  # fmt: skip
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Runs at once; all cores by default.")
@click.option("--model", metavar="NAME", help="A causal language model to teach too: a folder, or a Hugging Face id.")
@click.option("--out", type=_PATH, metavar="FOLDER", help="Keep the campaign in FOLDER.  [default: runs/learn/PROGRAM]")
@click.option("--use/--no-use", default=True, help="Whether what is better is used from now on.")
@click.option("--dry-run", is_flag=True, help="Run one task once, say the plan and its price, and stop.")
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
def learn(
    program: str | None,
    tasks_file: Path | None,
    check: str | None,
    *,
    dry_run: bool,
    wants_json: bool,
    **settings: Any,
) -> None:
    """Teach the tracer the failures of your own team.

    MODULE:FACTORY takes no argument and gives an AutoGen team or agent, a compiled LangGraph graph, an Agent
    Framework workflow or agent, or a function of the task. Every task is run as it is; then again with a fault put in,
    as the budget lasts. Of each failure, the earliest step whose repair makes the run succeed is found by running it
    again from there. What is learnt is used where it is measurably better on tasks that it has not seen. A killed
    command goes on where it was.

    With --model a language model is taught the same, too, and measured beside the small one; --dry-run says its time.

    Tools run in faulty runs only where the factory says `sandbox = True`; else they are answered from recordings.
    """
    from blamespan_lab.console import log_to_stderr, open_bar
    from blamespan_lab.learn.teaching import plan_lines
    from blamespan_lab.rerun.user_program import read_tasks

    tasks = read_tasks(tasks_file) if tasks_file is not None else []
    if dry_run:
        if program is None:
            raise ConfigError("expected a program to plan for, got --dry-run alone. Name it as module:factory")
        click.echo("\n".join(plan_lines(program, tasks, check, LearnSettings(**settings))))
        return
    with log_to_stderr("learning"), open_bar() as show:
        learnt = teach(program, tasks, check, on_progress=show, **settings)
    click.echo(json.dumps(learnt.figures) if wants_json else "\n".join(learnt.lines))
