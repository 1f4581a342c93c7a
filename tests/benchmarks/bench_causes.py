"""How well causes are found, by putting steps right and without.

    scripts/bench causes [--quick] [--only PART] [--failures N] [--json]

Failures of simulated teams, on tasks of a family and in words that no bundled tracer learnt from, are verified and
shared out. Conflicts of instructions are played as `blamespan lab generate conflicts` does. Exit code 1 where a bar is
missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

import click
from tests.benchmarks.causes_figures import VerifyFigures, measure_shapley, measure_verify
from tests.benchmarks.causes_simulated import simulated_failures
from tests.benchmarks.conflict_figures import measure_conflicts
from tests.benchmarks.machine import describe, versions

from blamespan.analysis.summary.statistics import Share
from blamespan.tracers import load_tracer
from blamespan_lab.make import RECIPES
from blamespan_lab.make.conflicts import ConflictRecipe, played_conflicts
from blamespan_lab.make.corpus.recipe import find_recipe
from blamespan_lab.make.recording import Recording
from blamespan_lab.recipes import read_recipe

FAMILIES = ("tables",)
"""What `default.toml` holds out."""
BARS = {"gain": 10.0, "confirmed": 95.0, "largest share": 90.0, "conflicts": 85.0, "false alarms": 3.0}
PARTS = ("failures", "conflicts")


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        what: What is measured.
        value: What it comes to, in percent.
        interval: Its 95 % interval.
        n: Of how many.
        bar: What it must reach, in words; empty where it is only stated.
        is_met: Whether it does.
    """

    what: str
    value: float
    interval: tuple[float, float]
    n: int
    bar: str = ""
    is_met: bool = True

    @classmethod
    def of(cls, what: str, share: Share, bar: str = "", is_met: bool = True) -> Row:
        """State how often something is so."""
        low, high = share.interval
        return cls(what, 100 * share.value, (100 * low, 100 * high), share.total, bar, is_met)


def main() -> None:
    parser = argparse.ArgumentParser("scripts/bench causes", description="How well causes are found.")
    parser.add_argument("--quick", action="store_true", help="few failures: a minute or two, rough")
    parser.add_argument("--failures", type=int, metavar="N", help="to verify and to share out (150; quick: 18)")
    parser.add_argument("--json", action="store_true", help="one JSON document")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part; repeatable (all)")
    arguments = parser.parse_args()
    count = arguments.failures or (18 if arguments.quick else 150)
    parts = arguments.only or PARTS
    rows: list[Row] = []
    if "failures" in parts:
        rows += _failure_rows(count)
    if "conflicts" in parts:
        rows += _conflict_rows()
    machine = {**describe(), **versions(("langgraph", "autogen-agentchat"))}
    if arguments.json:
        click.echo(json.dumps({"machine": machine, "rows": list(map(asdict, rows))}))
    else:
        _print(rows)
        click.echo(f"measured on {machine}", err=True)
    sys.exit(0 if all(row.is_met for row in rows) else 1)


def _failure_rows(count: int) -> list[Row]:
    auto = load_tracer("auto")
    with Recording() as recording:
        failures = list(simulated_failures(find_recipe("heldout"), FAMILIES, count, recording))
        verified = measure_verify(failures, auto, recording)
        culprit = measure_shapley(failures, recording)
    is_met = 100 * culprit.value >= BARS["largest share"]
    return [*_verify_rows(verified), Row.of("culprit has the largest share", culprit, ">= 90 %", is_met)]


def _conflict_rows() -> Iterator[Row]:
    with Recording() as recording:
        played = measure_conflicts(played_conflicts(read_recipe(ConflictRecipe, "conflicts", RECIPES), recording))
    for what, figures, has_bar in (
        ("lower instruction obeyed, at this step: F1", played.all_kinds, True),
        ("... of kinds of rules that were developed on, other words", played.developed, False),
        ("... of kinds of rules that were not", played.held_out, False),
    ):
        bar = f">= {BARS['conflicts']:.0f} %" if has_bar else ""
        yield Row(what, figures.f1, figures.interval, figures.n_runs, bar, not bar or figures.f1 >= BARS["conflicts"])
    alarms = Share(played.all_kinds.false_alarms, played.all_kinds.n_sound)
    is_met = 100 * alarms.value <= BARS["false alarms"]
    yield Row.of("said of sound simulated runs", alarms, f"<= {BARS['false alarms']:.0f} %", is_met)


def _verify_rows(figures: VerifyFigures) -> Iterator[Row]:
    gain = 100 * (figures.after.value - figures.before.value)
    worse, confirmed = figures.worse, figures.confirmed
    yield Row.of("top-1 step before verifying", figures.before)
    yield Row.of("top-1 step after 5 interventions", figures.after, "+10 points", gain >= BARS["gain"])
    yield Row.of("right before, wrong after", worse, "never", worse.count == 0)
    is_met = 100 * confirmed.value >= BARS["confirmed"]
    yield Row.of("confirmed suspects that are the step or carry it", confirmed, ">= 95 %", is_met)
    yield Row.of("other suspects that were confirmed", figures.chance)


def _print(rows: Sequence[Row]) -> None:
    width = max(len(row.what) for row in rows)
    click.echo(f"{'':{width}}                95 % interval      n  bar")
    for row in rows:
        low, high = row.interval
        bar = f"{row.bar}{'' if row.is_met else ': MISSED'}"
        click.echo(f"{row.what:{width}}  {row.value:7.1f} %   {low:5.1f} to {high:5.1f}  {row.n:5d}  {bar}".rstrip())


if __name__ == "__main__":
    main()
