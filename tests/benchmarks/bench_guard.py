"""What the guard is worth and what it costs, in AutoGen and LangGraph.

    scripts/bench guard [--quick] [--only ROW ...] [--trials N] [--policy FILE] [--recipe NAME] [--json]

Rows: `solved` (tasks under faults with no guard, with one that asks again at random, and with ours; sound runs that are
disturbed; unsupported claims in final answers), `forbidden` (ways to a forbidden tool), `time`, `budgets`, `same` (what
an observing guard changes). docs/why/benchmarks.md says how to read them. Exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from tests.benchmarks.guard_figures import (
    ARMS,
    gather_bars,
    sum_up_mechanisms,
    sum_up_overruns,
    sum_up_same,
    sum_up_solved,
    sum_up_timings,
    sum_up_tries,
)
from tests.benchmarks.guard_rows import (
    FRAMEWORKS,
    OBSERVES_EVERYTHING,
    count_overruns,
    find_changed_runs,
    hush_frameworks,
    time_messages,
    try_ways,
)
from tests.benchmarks.guard_work import Trial, plan_trials, run_trials
from tests.benchmarks.machine import describe, versions

from blamespan.guarding.policy import Policy, parse_policy, read_policy
from blamespan_lab.make.corpus.recipe import CorpusRecipe, find_recipe

ROOT = Path(__file__).parents[2]
POLICY = ROOT / "examples" / "guard" / "findings.toml"
ROWS = ("solved", "forbidden", "time", "budgets", "same")
LOADS = {"once": 0.0, "often": 0.3}
"""How often a fault is written: once in the run, or at each place with this probability."""
NEW_FAMILY, NEW_TOPOLOGY = "tables", "debate"
"""What the recipe `default` holds out: nothing of it was trained on or chosen by."""
PACKAGES = ("langgraph", "langchain-core", "autogen-agentchat")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("scripts/bench guard", description="What the guard is worth and what it costs.")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything: some three minutes, rough")
    parser.add_argument("--only", action="append", choices=ROWS, help="only this row; several times")
    parser.add_argument("--trials", type=int, metavar="N", help="programs with a fault, both loads (240; quick: 24)")
    parser.add_argument("--minutes", type=float, default=60.0, metavar="N", help="begin no trial after that (60)")
    parser.add_argument("--tries", type=int, metavar="N", help="tries of forbidden tools (1,000; quick: 96)")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="rounds of timing (1)")
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="messages of the runs that are timed (200)")
    parser.add_argument("--policy", type=Path, default=POLICY, metavar="FILE", help=f"({POLICY.relative_to(ROOT)})")
    parser.add_argument("--recipe", default="heldout", metavar="NAME", help="whose teams, words and faults (heldout)")
    parser.add_argument("--processes", type=int, default=2, metavar="N", help="for the trials (2)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    arguments = parser.parse_args()
    for name in ("trials", "tries", "rounds", "steps", "processes"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            parser.error(f"expected --{name} >= 1, got {value}")
    hush_frameworks()
    document = _measure(arguments)
    document["bars"] = gather_bars(document)
    click.echo(json.dumps(document, indent=2) if arguments.json else "\n".join(_write_lines(document)))
    sys.exit(0 if all(document["bars"].values()) else 1)


def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    recipe, policy = find_recipe(arguments.recipe), read_policy(arguments.policy)
    rows, is_quick = arguments.only or ROWS, arguments.quick
    document: dict[str, Any] = {
        "machine": describe(),
        "versions": versions(PACKAGES),
        "recipe": recipe.name,
        "policy": arguments.policy.name,
    }
    if "solved" in rows:
        trials = _run_loads(
            recipe, policy, arguments.trials or (24 if is_quick else 240), arguments.processes, arguments.minutes
        )
        everything = [trial for row in trials.values() for trial in row]
        document["all"] = sum_up_solved(everything)
        document["loads"] = {load: _without_bars(sum_up_solved(row)) for load, row in trials.items()}
        document["mechanisms"] = sum_up_mechanisms(everything)
        new = [t for t in everything if t.plan.family == NEW_FAMILY or t.plan.topology == NEW_TOPOLOGY]
        document["new_families"] = _without_bars(sum_up_solved(new))
    if "forbidden" in rows:
        _tell("forbidden tools")
        document["forbidden"] = sum_up_tries(list(try_ways(arguments.tries or (96 if is_quick else 1_000))))
    if "time" in rows:
        without_findings = {name: rules for name, rules in OBSERVES_EVERYTHING.items() if name != "findings"}
        policies = {arguments.policy.stem: policy, "no findings": parse_policy(without_findings)}
        _tell("time")
        longest = min(arguments.steps, 50) if is_quick else arguments.steps
        timings = [
            timing
            for framework in FRAMEWORKS
            for steps in dict.fromkeys((max(1, longest // 4), longest))
            for timing in time_messages(framework, steps, policies, arguments.rounds)
        ]
        document["time"] = sum_up_timings(timings, arguments.policy.stem)
    if "budgets" in rows:
        _tell("budgets")
        document["budgets"] = sum_up_overruns(list(count_overruns(3 if is_quick else 24)))
    if "same" in rows:
        _tell("an observing guard")
        document["same"] = sum_up_same(*find_changed_runs(recipe, 1))
    return document


def _run_loads(
    recipe: CorpusRecipe, policy: Policy, count: int, processes: int, minutes: float
) -> dict[str, list[Trial]]:
    plans = plan_trials(recipe, count, tuple(LOADS.values()))
    done: list[Trial] = []
    until_s = time.monotonic() + 60 * minutes
    trials = run_trials(recipe, plans, policy, processes)
    for trial in trials:
        done.append(trial)
        if len(done) % 20 == 0:
            _tell(f"trials: {len(done)} of {len(plans)}")
        if time.monotonic() > until_s:
            break
    trials.close()
    return {load: [t for t in done if t.plan.rate == rate] for load, rate in LOADS.items()}


def _without_bars(part: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in part.items() if name != "bars"}


def _tell(what: str) -> None:
    click.echo(what, err=True)


def _write_lines(found: dict[str, Any]) -> Iterator[str]:
    machine = found["machine"]
    used = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    yield (
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}, "
        f"load {machine['load']}; {used}"
    )
    yield f"policy {found['policy']}, recipe {found['recipe']}"
    bars = found["bars"]
    if "all" in found:
        yield from _write_solved(found, bars)
    if "forbidden" in found:
        tries = found["forbidden"]
        ways = ", ".join(f"{count} ways in {name}" for name, count in tries["ways"].items())
        yield ""
        through = _percent(tries["through"])
        yield f"  {_bar(bars['forbidden'])}  forbidden tool calls that got through, % (95 %): {through}; {ways}"
    if "time" in found:
        yield from _write_timings(found["time"], bars)
    if "budgets" in found:
        yield ""
        worst = found["budgets"]["worst_calls"]
        yield f"  {_bar(bars['budgets'])}  calls beyond a budget, agents side by side, at worst: {worst}"
        for row in found["budgets"]["rows"]:
            yield (
                f"          {row['framework']:11}{row['unit']:13}{row['worst_calls']} in {row['runs']} runs of "
                f"{row['agents']} agents"
            )
    if "same" in found:
        same = found["same"]
        yield ""
        yield (
            f"  {_bar(bars['same'])}  runs that an observing guard changes, % (95 %): {_percent(same['changed'])}; "
            f"{same['decisions']} decisions of agents, {same['observed']} of the guard"
        )
        yield from (f"          {program}" for program in same["programs"])


def _write_solved(found: dict[str, Any], bars: dict[str, bool]) -> Iterator[str]:
    every = found["all"]
    yield ""
    heads = "".join(f"{head:28}" for head in ("no guard", "random retries", "guard"))
    yield f"{'Tasks solved under faults, % (95 %)':38}{heads}gain over no guard, points"
    parts = {
        "all": every,
        **{f"faults {name}": part for name, part in found["loads"].items()},
        "family or topology held out": found["new_families"],
    }
    for name, part in parts.items():
        cells = "".join(f"{_percent(part['solved'][arm]):28}" for arm in ARMS)
        yield f"{name:38}{cells}{_points(part['gain'])}"
    for mechanism, rates in found["mechanisms"].items():
        yield f"{'  written into ' + mechanism:38}{''.join(f'{_percent(rates[arm]):28}' for arm in ARMS)}"
    averted = "".join(f"{_percent(every['averted'][arm]):28}" for arm in ARMS)
    yield f"{'of those not solved without a guard':38}{averted}"
    yield ""
    yield (
        f"  {_bar(bars['solved'])}  gain over no guard {_points(every['gain'])}, over random retries "
        f"{_points(every['gain_over_random'])}; harmed {_percent(every['harmed'])}"
    )
    by = _counts(every["disturbed_by"])
    yield f"  {_bar(bars['disturbed'])}  sound runs disturbed, % (95 %): {_percent(every['disturbed'])}; by {by}"
    claims, share = every["claims"], every["claims"]["share"]
    left = "none to halve" if share is None else f"{100 * share:.0f} % left"
    having = ", ".join(_percent(every["answers_with_claims"][arm]) for arm in ARMS)
    yield (
        f"  {_bar(bars['claims'])}  unsupported claims in final answers: {claims['none']} without a guard, "
        f"{claims['random']} with random retries, {claims['guard']} with the guard ({left}); "
        f"answers with any, %: {having}"
    )
    yield (
        f"          asked again {every['retries']['guard']} times, {every['repaired']['guard']} answers repaired: "
        f"{_counts(every['asked_again_by'])}; errors of the guard: {every['errors']}"
    )
    yield f"          left out: {_counts(every['left_out'])}"


def _write_timings(found: dict[str, Any], bars: dict[str, bool]) -> Iterator[str]:
    yield ""
    yield f"Added time a message, ms{'':22}steps     n   p50     p99   of the CPU: p50     p99"
    for row in found["rows"]:
        yield (
            f"{row['framework'] + ', ' + row['policy']:44}{row['steps']:7}{row['n']:6}{row['p50_ms']:6.2f}"
            f"{row['p99_ms']:8.2f}{row['cpu_p50_ms']:18.2f}{row['cpu_p99_ms']:8.2f}"
        )
    growth = ", ".join(
        f"{name} {'unknown' if value is None else f'{value:+.2f}'}" for name, value in found["growth"].items()
    )
    yield f"  {_bar(bars['time_p50'])}  CPU p50 at {found['judged_steps']} steps   {_bar(bars['time_p99'])}  p99"
    yield f"  {_bar(bars['time_growth'])}  power of the length by which it grows (1 is linear): {growth}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _points(part: dict[str, Any]) -> str:
    low, high = part["interval"]
    return f"{part['points']:+.1f} ({low:+.1f} to {high:+.1f})"


def _percent(rate: dict[str, Any]) -> str:
    low, high = rate["interval"]
    return f"{rate['percent']:.1f} ({low:.1f} to {high:.1f}) of {rate['n']}"


def _bar(is_met: bool) -> str:
    return "met   " if is_met else "MISSED"


if __name__ == "__main__":
    main()
