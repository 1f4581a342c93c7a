"""How well causes are found, by putting steps right and without.

    scripts/bench causes [--quick] [--only PART] [--failures N] [--data FOLDER] [--json]

Failures of simulated teams, on tasks of a family and in words that no bundled tracer learnt from, are verified and
shared out. Conflicts of instructions are played as `blamespan lab generate conflicts` does; with a folder of recorded
runs, sound ones are counted in which a lower instruction is said to be obeyed. One run of 1,000 agents and 20,000 steps
is analyzed in a process of its own, and looked at on the page. Exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import httpx
from tests.benchmarks.causes_figures import ShapleyFigures, VerifyFigures, measure_shapley, measure_verify
from tests.benchmarks.causes_simulated import simulated_failures
from tests.benchmarks.conflict_figures import measure_conflicts, measure_sound_runs
from tests.benchmarks.large_runs import make_large_run, write_large_run
from tests.benchmarks.machine import describe, versions
from tests.collector.paging import annotated, stored

from blamespan.analysis.summary.statistics import Share
from blamespan.tracers import load_tracer
from blamespan_collector.page import page_application
from blamespan_collector.settings import ListenAddress
from blamespan_lab.make import RECIPES
from blamespan_lab.make.conflicts import ConflictRecipe, played_conflicts
from blamespan_lab.make.corpus.recipe import find_recipe
from blamespan_lab.make.recording import Recording
from blamespan_lab.recipes import read_recipe

FAMILIES = ("tables",)
"""What `default.toml` holds out."""
BARS = {
    "gain": 10.0,
    "confirmed": 95.0,
    "largest share": 90.0,
    "conflicts": 85.0,
    "false alarms": 3.0,
    "analyze, s": 20.0,
    "analyze, MB": 1_000.0,
    "first view, s": 1.0,
}
PARTS = ("failures", "conflicts", "large")


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        what: What is measured.
        value: What it comes to.
        interval: Its 95 % interval; None for what is measured once.
        n: Of how many.
        bar: What it must reach, in words; empty where it is only stated.
        is_met: Whether it does.
        unit: Of value and interval.
    """

    what: str
    value: float
    interval: tuple[float, float] | None
    n: int
    bar: str = ""
    is_met: bool = True
    unit: str = "%"

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
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="with tau_bench and outcomes: recorded runs")
    parser.add_argument("--only", choices=PARTS, action="append", help="measure this part; repeatable (all)")
    arguments = parser.parse_args()
    count = arguments.failures or (18 if arguments.quick else 150)
    parts = arguments.only or PARTS
    rows: list[Row] = []
    if "failures" in parts:
        rows += _failure_rows(count)
    if "conflicts" in parts:
        rows += _conflict_rows(arguments.data)
    if "large" in parts:
        rows += _large_rows()
    machine = {**describe(), **versions(("langgraph", "autogen-agentchat"))}
    if arguments.json:
        click.echo(json.dumps({"machine": machine, "rows": [_as_json(row) for row in rows]}))
    else:
        _print(rows)
        click.echo(f"measured on {machine}", err=True)
    sys.exit(0 if all(row.is_met for row in rows) else 1)


def _failure_rows(count: int) -> list[Row]:
    auto = load_tracer("auto")
    with Recording() as recording:
        failures = list(simulated_failures(find_recipe("heldout"), FAMILIES, count, recording))
        verified = measure_verify(failures, auto, recording)
        shared = measure_shapley(failures, auto, recording)
    return [*_verify_rows(verified), *_shapley_rows(shared)]


def _conflict_rows(data: Path | None) -> Iterator[Row]:
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
    yield _alarm_row("said of sound simulated runs", alarms)
    if data is not None:
        yield _alarm_row("said of sound recorded runs", Share(*measure_sound_runs(data)))


def _large_rows() -> Iterator[Row]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "large.jsonl"
        write_large_run(path)
        command = (sys.executable, "-c", "from blamespan.cli import main; main()", "analyze", path, "--json")
        child = subprocess.Popen([*command, "--processes", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise click.ClickException(f"expected `blamespan analyze` to end with 0, got status {status}")
        first_s = _first_view_s(Path(folder) / "runs.db")
    cpu_s, memory_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1_024
    for what, value, unit, name in (
        ("1,000 agents, 20,000 steps: `analyze`, processor time", cpu_s, "s", "analyze, s"),
        ("... most memory", memory_mb, "MB", "analyze, MB"),
        ("... first view of the page", first_s, "s", "first view, s"),
    ):
        yield Row(what, value, None, 1, f"<= {BARS[name]:g} {unit}", value <= BARS[name], unit)


def _first_view_s(path: Path) -> float:
    """Return how long the page of the large run lets its first view wait, by the clock."""
    store = stored(path, *annotated(make_large_run()))
    app = page_application(store, ListenAddress("127.0.0.1", 4320))

    async def ask() -> float:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1:4320") as client:
            began_s = time.perf_counter()
            (await client.get(f"/run/{1:032x}")).raise_for_status()
            return time.perf_counter() - began_s

    return asyncio.run(ask())


def _alarm_row(what: str, alarms: Share) -> Row:
    return Row.of(what, alarms, f"<= {BARS['false alarms']:.0f} %", 100 * alarms.value <= BARS["false alarms"])


def _verify_rows(figures: VerifyFigures) -> Iterator[Row]:
    gain = 100 * (figures.after.value - figures.before.value)
    worse, confirmed = figures.worse, figures.confirmed
    yield Row.of("top-1 step before verifying", figures.before)
    yield Row.of("top-1 step after 5 interventions", figures.after, "+10 points", gain >= BARS["gain"])
    yield Row.of("right before, wrong after", worse, "never", worse.count == 0)
    is_met = 100 * confirmed.value >= BARS["confirmed"]
    yield Row.of("confirmed suspects that are the step or carry it", confirmed, ">= 95 %", is_met)
    yield Row.of("confirmed suspects that are the step", figures.confirmed_exactly)
    yield Row.of("the step, tried and not confirmed", figures.missed)
    yield Row.of("other suspects that were confirmed", figures.chance)


def _shapley_rows(figures: ShapleyFigures) -> Iterator[Row]:
    culprit, adds_up = figures.culprit, figures.adds_up
    yield Row.of("culprit has the largest share", culprit, ">= 90 %", 100 * culprit.value >= BARS["largest share"])
    yield Row.of("... and nobody as large a one", figures.culprit_alone)
    yield Row.of("shares add up to 1 +- 0.01", adds_up, "always", adds_up.count == adds_up.total)
    yield Row.of(
        "drawn shares within 2 standard errors of exact ones", figures.within, ">= 95 %", figures.within.value >= 0.95
    )
    yield Row.of("largest share, by the tracer's word", figures.by_tracer)
    yield Row.of("... nothing to share out", figures.unshared)
    yield Row.of("most blamed agent, by its verdict", figures.by_verdict)


def _as_json(row: Row) -> dict[str, object]:
    return {
        "what": row.what,
        "n": row.n,
        "value": row.value,
        "unit": row.unit,
        "interval": None if row.interval is None else list(row.interval),
        "bar": row.bar,
        "met": row.is_met,
    }


def _print(rows: Sequence[Row]) -> None:
    width = max(len(row.what) for row in rows)
    click.echo(f"{'':{width}}                95 % interval      n  bar")
    for row in rows:
        spread = "-" if row.interval is None else f"{row.interval[0]:5.1f} to {row.interval[1]:5.1f}"
        bar = f"{row.bar}{'' if row.is_met else ': MISSED'}"
        shown = f"{row.value:7.1f} {row.unit:2}  {spread:>16}  {row.n:5d}"
        click.echo(f"{row.what:{width}}  {shown}  {bar}".rstrip())


if __name__ == "__main__":
    main()
