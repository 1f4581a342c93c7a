"""What recording costs a program, ours and the peers', in one table.

    scripts/bench sdk [--quick] [--rounds N] [--json]

A LangGraph loop of 200 nodes and an AutoGen chat of 30 turns, 1 KB a message. Each recorder runs in fresh processes
of one interpreter with the same packages, in turn with the others, so that noise hits all alike. docs/why/benchmarks.md
says how to read the figures. Exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

import click
from tests.benchmarks.machine import describe, versions
from tests.benchmarks.recorded_once import TOOL_TURNS
from tests.benchmarks.recorders import RECORDERS
from tests.benchmarks.sdk_figures import NAMES, Bar, Row, autogen_bars, langgraph_bars, memory_bars, row

ROOT = Path(__file__).parents[2]
STEPS = {"langgraph": 200, "autogen": 30}
TITLES = {"langgraph": "LangGraph, a loop of {} nodes", "autogen": "AutoGen AgentChat, a chat of {} turns"}
MEMORY_AT, QUICK_MEMORY_AT = (1_000, 5_000, 10_000), (200, 300, 500)
"""After how many runs memory is read."""
FRAMEWORKS = ("langgraph", "langchain-core", "autogen-agentchat", "opentelemetry-sdk")

Memory = dict[str, dict[str, list[dict[str, int]]]]


def main() -> None:
    parser = argparse.ArgumentParser("scripts/bench sdk", description="What recording costs a program.")
    parser.add_argument("--quick", action="store_true", help="one round, side by side, few runs: under a minute, rough")
    parser.add_argument("--rounds", type=int, default=4, metavar="N", help="fresh processes per recorder (4; quick: 1)")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    arguments = parser.parse_args()
    if arguments.rounds < 1:
        parser.error(f"expected --rounds >= 1, got {arguments.rounds}")
    rows = {framework: _rows(framework, arguments) for framework in STEPS}
    memory = _memory(QUICK_MEMORY_AT if arguments.quick else MEMORY_AT)
    bars = {
        "langgraph": list(langgraph_bars(rows["langgraph"], steps=STEPS["langgraph"])),
        "autogen": list(autogen_bars(rows["autogen"], turns=STEPS["autogen"])),
        "memory": list(memory_bars(memory)),
    }
    click.echo((_document if arguments.json else _table)(rows, memory, bars))
    sys.exit(0 if all(bar.is_met for group in bars.values() for bar in group) else 1)


def _rows(framework: str, arguments: argparse.Namespace) -> dict[str, Row]:
    names = [name for name, recorder in RECORDERS.items() if framework in recorder.packages] + ["floor"]
    limits = ["--most-runs", "2", "--most-s", "0.3"] if arguments.quick else []
    samples: dict[str, list[Any]] = {name: [] for name in names}
    rounds, at_once = (1, os.cpu_count()) if arguments.quick else (arguments.rounds, 1)
    for number in range(rounds):
        click.echo(f"{NAMES[framework]}: round {number + 1} of {rounds}", err=True)
        turns = names[number % len(names) :] + names[: number % len(names)]
        once = ["tests.benchmarks.recorded_once", framework]
        with ThreadPoolExecutor(at_once) as pool:
            commands = [[*once, name, "--steps", str(STEPS[framework]), *limits] for name in turns]
            for name, sample in zip(turns, pool.map(_printed, commands, turns), strict=True):
                samples[name].append(sample)
    return {
        name: row(name, samples[name], samples["none"], steps=STEPS[framework], tool_calls=TOOL_TURNS) for name in names
    }


def _memory(at: Sequence[int]) -> Memory:
    click.echo(f"memory: {at[-1]:,} runs of each framework, with and without recording", err=True)
    pairs = [(framework, recorder) for framework in STEPS for recorder in ("none", "blamespan")]
    arguments = [["tests.benchmarks.recorded_long", *pair, "--at", *map(str, at)] for pair in pairs]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # sizes, not times: these may run side by side
        figures = list(pool.map(_printed, arguments, [recorder for _, recorder in pairs]))
    memory: Memory = {framework: {} for framework in STEPS}
    for (framework, recorder), each in zip(pairs, figures, strict=True):
        memory[framework][recorder] = each
    return memory


def _printed(arguments: Sequence[str], recorder: str) -> Any:
    """Run a module in a fresh process and read the JSON it prints; its last line, as peers print too."""
    settings = RECORDERS[recorder].environment if recorder in RECORDERS else {}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "BLAMESPAN_"))}
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env={**kept, **settings},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(arguments)} ended with exit code {done.returncode}:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def _document(rows: Mapping[str, Mapping[str, Row]], memory: Memory, bars: Mapping[str, Sequence[Bar]]) -> str:
    packages = [package for recorder in RECORDERS.values() for package in recorder.packages.values()]
    document = {
        "machine": describe(),
        "versions": versions([*FRAMEWORKS, *packages]),
        "programs": {name: {key: asdict(each) for key, each in of.items()} for name, of in rows.items()},
        "memory": memory,
        "bars": {name: [asdict(bar) for bar in group] for name, group in bars.items()},
    }
    return json.dumps(document, indent=2)


def _table(rows: Mapping[str, Mapping[str, Row]], memory: Memory, bars: Mapping[str, Sequence[Bar]]) -> str:
    machine = describe()
    used = ", ".join(f"{name} {each}" for name, each in versions(FRAMEWORKS).items())
    lines = [
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}, "
        f"load {machine['load']}; {used}"
    ]
    for framework, of in rows.items():
        lines += ["", TITLES[framework].format(STEPS[framework]) + ", 1 KB messages", *_rows_as_text(framework, of)]
        lines += ["", *(_bar(bar) for bar in bars[framework])]
    lines += ["", "Memory in MiB, and objects tracked by Python", *_memory_as_text(memory)]
    lines += ["", *(_bar(bar) for bar in bars["memory"]), "", *_notes(rows)]
    return "\n".join(lines)


def _rows_as_text(framework: str, rows: Mapping[str, Row]) -> list[str]:
    lines = [
        f"{'':32}{'CPU s (min to max)':>26}{'added s (min to max)':>27}{'n':>4}"
        f"{'spans':>7}{'agents':>8}{'traces':>8}{'doubled':>9}{'MB':>8}"
    ]
    for name, recorder in RECORDERS.items():
        if name in rows:
            lines.append(f"{_title(recorder.title, recorder.packages[framework]):32}{_figures(rows[name])}")
        elif name != "own":
            lines.append(f"{recorder.title:32}{'no support':>16}")
    return [*lines, f"{'floor: the same spans alone':32}{_figures(rows['floor'])}"]


def _title(title: str, package: str) -> str:
    return f"{title} {versions([package]).get(package, '')}".rstrip()


def _figures(row: Row) -> str:
    doubled = f"{row.shape['duplicate_agents']} / {row.shape['duplicate_tools']}"
    added = _spread(row.added) if row.shape["spans"] else ""
    return (
        f"{_spread(row.seconds):>26}{added:>27}{row.runs:>4}{row.shape['spans']:>7}{row.shape['agent_spans']:>8}"
        f"{row.shape['traces']:>8}{doubled:>9}{row.shape['attribute_bytes'] / 1e6:>8.2f}"
    )


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.4f} ({min(values):.4f} to {max(values):.4f})"


def _memory_as_text(memory: Memory) -> list[str]:
    counts = [figure["runs"] for figure in next(iter(memory.values()))["none"]]
    lines = [f"{'':32}" + "".join(f"{f'{count:,} runs':>22}" for count in counts)]
    for framework, of in memory.items():
        for recorder, figures in of.items():
            texts = (f"{each['rss_bytes'] / 2**20:.1f} / {each['objects']:,}" for each in figures)
            lines.append(f"{NAMES[framework] + ', ' + recorder:32}" + "".join(f"{text:>22}" for text in texts))
    return lines


def _bar(bar: Bar) -> str:
    return f"  {'met   ' if bar.is_met else 'MISSED'}  {bar.says}: {bar.got}"


def _notes(rows: Mapping[str, Mapping[str, Row]]) -> list[str]:
    every = [each for of in rows.values() for each in of.values()]
    waited = max(wall / cpu for each in every for wall, cpu in zip(each.wall_seconds, each.seconds, strict=True))
    floor = rows["langgraph"]["floor"]
    return [
        "CPU s: processor time of one run, the middle round's; the wall clock showed at most "
        f"{100 * (waited - 1):.0f} % more in any round. n: runs over all rounds.",
        f"floor: {1e6 * floor.added_s / floor.shape['spans']:.0f} us a span in the loop. agents: spans about the node "
        "or about an agent's message; a recorder with fewer than the program has does not record each.",
        "doubled: agent / tool spans beyond one per message and per tool call (the latter in a chat of "
        f"{TOOL_TURNS} tool calls). MB: attribute keys and values of spans and their events.",
    ]


if __name__ == "__main__":
    main()
