"""The command `blamespan lab stress`; everything heavy is imported when it runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blamespan.errors import ConfigError, reason_of
from blamespan.tracers import DEFAULT_TRACER

if TYPE_CHECKING:
    from blamespan_lab.make.simulation.topologies import Framework
    from blamespan_lab.rerun.stress.campaign import StressCampaign
    from blamespan_lab.rerun.stress.recipe import StressRecipe
    from blamespan_lab.rerun.stress.subjects import SubjectSpec
    from blamespan_lab.rerun.stress.workers import Order, Result


@click.command(
    epilog="""\b
Examples:
  blamespan lab stress my_team.app:make --task "What is 12 times 12?" --check my_team.app:is_right
  blamespan lab stress --bundled round_robin --out report.html
  blamespan lab stress --bundled all --json > report.json
  blamespan lab stress --bundled all --byzantine 2
"""
)
@click.argument("program", required=False)
@click.option("--recipe", "recipe_name", default="default", show_default=True, metavar="NAME|FILE")
@click.option("--task", "tasks", multiple=True, metavar="TEXT", help="What PROGRAM is asked; may be given again.")
@click.option(
    "--tasks",
    "tasks_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help='A task on each line; .jsonl: {"task": ...}.',
)
@click.option("--check", metavar="MODULE:FUNCTION", help="Tells of (answer, task) whether the answer is right.")
@click.option("--bundled", metavar="TOPOLOGY|all", help="Stress a simulated team instead of PROGRAM.")
@click.option("--framework", type=click.Choice(["autogen", "langgraph"]), help="Only this one, of bundled teams.")
@click.option("--processes", type=click.IntRange(1), metavar="N", help="Runs at once; all cores by default.")
@click.option("--byzantine", type=click.IntRange(1, 9), metavar="K", help="Turn up to K agents instead: they lie.")
@click.option(
    "--tracer",
    "tracer_name",
    default=DEFAULT_TRACER,
    show_default=True,
    metavar="NAME",
    help="With --byzantine: who says who is to blame.",
)
@click.option("--json", "wants_json", is_flag=True, help="Print one JSON document.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with drawings (HTML).")
@click.option("--all", "every", is_flag=True, help="Leave nothing out of the tables.")
def stress(
    program: str | None,
    recipe_name: str,
    tasks: tuple[str, ...],
    tasks_file: Path | None,
    check: str | None,
    bundled: str | None,
    framework: str | None,
    processes: int | None,
    byzantine: int | None,
    tracer_name: str,
    wants_json: bool,
    out: Path | None,
    every: bool,
) -> None:
    """Put a team through faults, and say what it withstands.

    PROGRAM is module:factory: a function without arguments that gives an AutoGen team, a compiled LangGraph graph, an
    Agent Framework workflow or a function of the task. Each run is made anew, recorded, and held against the same run
    without a fault.

    With --byzantine some agents are turned: they lie, collude, accuse others or repeat noise. It says how many the team
    withstands, and whether blame finds them.
    """
    from blamespan_lab.rerun.stress.recipe import find_recipe
    from blamespan_lab.rerun.user_program import read_tasks

    recipe = find_recipe(recipe_name)
    read = read_tasks(tasks_file) if tasks_file is not None else ()
    specs = _specs(program, bundled, framework, (*tasks, *read), check, recipe)
    if byzantine is not None:
        if out is not None:
            raise ConfigError("--byzantine writes no page, got --out. Leave it out, or take --json")
        _run_byzantine(specs, recipe, byzantine, tracer_name, processes, wants_json)
        return
    if out is not None:
        _make_sure_of(out)
    done = [_run_campaign(spec, recipe, processes) for spec in specs]
    if out is not None:
        from blamespan_lab.rerun.stress.page import page

        out.write_text(page(done), encoding="utf-8", errors="replace")
        click.echo(f"blamespan: wrote {out}", err=True)
    _print(done, wants_json, every)


def _specs(
    program: str | None,
    bundled: str | None,
    framework: str | None,
    texts: tuple[str, ...],
    check: str | None,
    recipe: StressRecipe,
) -> list[SubjectSpec]:
    from blamespan_lab.rerun.stress.subjects import Bundled, Named

    if (program is None) == (bundled is None):
        raise ConfigError(
            f"expected either a program as module:factory or --bundled, got {program!r} and {bundled!r}. "
            "Try: blamespan lab stress --bundled round_robin"
        )
    if program is not None:
        if not texts:
            raise ConfigError("expected at least one task for the program, got none. Give one with --task TEXT")
        return [Named(program, check, texts)]
    if texts or check:
        raise ConfigError("bundled teams bring their own tasks and checks, got --task or --check. Leave them out")
    assert bundled is not None  # one of the two is there
    teams = _teams(bundled, framework)
    return [Bundled(topology, framework_name, recipe.tasks, recipe.seed) for topology, framework_name in teams]


def _teams(topology: str, framework: str | None) -> list[tuple[str, Framework]]:
    """List topologies and frameworks that are meant and go together."""
    from difflib import get_close_matches

    from blamespan_lab.make.simulation.topologies import TOPOLOGIES

    choices = [*TOPOLOGIES, "all"]
    if topology not in choices:
        near = get_close_matches(topology, choices, n=1, cutoff=0.0)[0]
        raise ConfigError(
            f"expected --bundled as one of {', '.join(choices)}, got {topology!r}. Did you mean {near!r}?"
        )
    linear_first = sorted(TOPOLOGIES, key=lambda name: not TOPOLOGIES[name].is_relay)  # others are held against it
    names = linear_first if topology == "all" else [topology]
    teams = [
        (name, framework_name)
        for name in names
        for framework_name in TOPOLOGIES[name].frameworks
        if framework is None or framework_name == framework
    ]
    if not teams:
        raise ConfigError(
            f"expected a framework that can build {topology!r}, got {framework!r}. "
            f"Ask for --framework {TOPOLOGIES[topology].frameworks[0]}"
        )
    return teams


def _run_campaign(spec: SubjectSpec, recipe: StressRecipe, processes: int | None) -> StressCampaign:
    from blamespan.cores import cores
    from blamespan_lab.rerun.stress.campaign import campaign

    return campaign(spec, recipe, count=processes or cores(), tracked=_show)


def _show(results: Iterator[tuple[Order, Result]], title: str, total: int) -> Iterator[tuple[Order, Result]]:
    from blamespan_lab.console import show_progress

    return show_progress(results, title, total=total)


def _run_byzantine(
    specs: list[SubjectSpec], recipe: StressRecipe, most: int, tracer: str, processes: int | None, wants_json: bool
) -> None:
    from blamespan.cores import cores
    from blamespan.tracers import load_tracer
    from blamespan_lab.rerun.stress.byzantine import SHAPES
    from blamespan_lab.rerun.stress.campaign import byzantine_study
    from blamespan_lab.rerun.stress.subjects import Bundled

    load_tracer(tracer)  # a wrong name is told before anything runs
    studied = [spec for spec in specs if not isinstance(spec, Bundled) or len(specs) == 1 or spec.topology in SHAPES]

    studies = [
        byzantine_study(spec, recipe, most, tracer, count=processes or cores(), tracked=_show) for spec in studied
    ]
    if wants_json:
        from blamespan_lab.rerun.stress.figures import byzantine_as_json

        click.echo(json.dumps([byzantine_as_json(study) for study in studies]))
        return
    from rich.console import Console

    from blamespan_lab.rerun.stress.table import print_byzantine

    print_byzantine(Console(), studies)


def _make_sure_of(out: Path) -> None:
    try:
        out.open("a", encoding="utf-8").close()
    except OSError as error:
        raise ConfigError(f"--out must be a file that can be written, got {str(out)!r}: {reason_of(error)}") from error


def _print(done: list[StressCampaign], wants_json: bool, every: bool) -> None:
    if wants_json:
        from blamespan_lab.rerun.stress.figures import as_json

        click.echo(json.dumps([as_json(campaign) for campaign in done]))
        return
    from rich.console import Console

    from blamespan_lab.rerun.stress.table import print_campaign, print_comparison

    console = Console()
    for campaign in done[: None if len(done) == 1 or every else 0]:
        print_campaign(console, campaign, every=every)
    if len(done) > 1:
        print_comparison(console, done)
