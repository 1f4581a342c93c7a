"""What the guard stops and what it costs, in AutoGen and LangGraph.

    scripts/bench guard [--quick] [--only ROW] [--policy FILE] [--json]

Rows: `forbidden` (ways to a forbidden tool) and `time`. What it is worth in solved tasks is measured by
`scripts/bench learn`. Exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from tests.benchmarks.guard_figures import gather_bars, sum_up_timings, sum_up_tries
from tests.benchmarks.guard_rows import FRAMEWORKS, RULES, hush_frameworks, time_messages, try_ways
from tests.benchmarks.machine import describe, versions

from blamespan.guarding.policy import parse_policy, read_policy

ROOT = Path(__file__).parents[2]
POLICY = ROOT / "examples" / "guard" / "findings.toml"
ROWS = ("forbidden", "time")
PACKAGES = ("langgraph", "langchain-core", "autogen-agentchat")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("scripts/bench guard", description="What the guard stops and what it costs.")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, rough")
    parser.add_argument("--only", action="append", choices=ROWS, help="only this row")
    parser.add_argument("--tries", type=int, metavar="N", help="tries of forbidden tools (1,000; quick: 96)")
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="rounds of timing (1)")
    parser.add_argument("--steps", type=int, default=200, metavar="N", help="messages of the runs that are timed (200)")
    parser.add_argument("--policy", type=Path, default=POLICY, metavar="FILE", help=f"({POLICY.relative_to(ROOT)})")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    arguments = parser.parse_args()
    for name in ("tries", "rounds", "steps"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            parser.error(f"expected --{name} >= 1, got {value}")
    hush_frameworks()
    document = _measure(arguments)
    document["bars"] = gather_bars(document)
    click.echo(json.dumps(document, indent=2) if arguments.json else "\n".join(_write_lines(document)))
    sys.exit(0 if all(document["bars"].values()) else 1)


def _measure(arguments: argparse.Namespace) -> dict[str, Any]:
    policy = read_policy(arguments.policy)
    rows, is_quick = arguments.only or ROWS, arguments.quick
    document: dict[str, Any] = {"machine": describe(), "versions": versions(PACKAGES), "policy": arguments.policy.name}
    if "forbidden" in rows:
        _tell("forbidden tools")
        document["forbidden"] = sum_up_tries(list(try_ways(arguments.tries or (96 if is_quick else 1_000))))
    if "time" in rows:
        policies = {arguments.policy.stem: policy, "no findings": parse_policy(RULES)}
        _tell("time")
        longest = min(arguments.steps, 50) if is_quick else arguments.steps
        timings = [
            timing
            for framework in FRAMEWORKS
            for steps in dict.fromkeys((max(1, longest // 4), longest))
            for timing in time_messages(framework, steps, policies, arguments.rounds)
        ]
        document["time"] = sum_up_timings(timings, arguments.policy.stem)
    return document


def _tell(what: str) -> None:
    click.echo(what, err=True)


def _write_lines(found: dict[str, Any]) -> Iterator[str]:
    machine = found["machine"]
    used = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    yield (
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}, "
        f"load {machine['load']}; {used}"
    )
    yield f"policy {found['policy']}"
    bars = found["bars"]
    if "forbidden" in found:
        tries = found["forbidden"]
        ways = ", ".join(f"{count} ways in {name}" for name, count in tries["ways"].items())
        yield ""
        through = _percent(tries["through"])
        yield f"  {_bar(bars['forbidden'])}  forbidden tool calls that got through, % (95 %): {through}; {ways}"
    if "time" in found:
        yield from _write_timings(found["time"], bars)


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


def _percent(rate: dict[str, Any]) -> str:
    low, high = rate["interval"]
    return f"{rate['percent']:.1f} ({low:.1f} to {high:.1f}) of {rate['n']}"


def _bar(is_met: bool) -> str:
    return "met   " if is_met else "MISSED"


if __name__ == "__main__":
    main()
