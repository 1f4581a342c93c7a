"""What it takes to make labelled runs, and what comes out.

    scripts/bench faults [--quick] [--programs N] [--json] [--corpus FOLDER]

Faults are put into bundled teams of every family, topology and framework, and verified by replay; then once more, in
other processes: the digests of both rounds must be the same. Decisive steps, lengths and modes are those of a small
corpus of the bundled recipe (quick: of these runs, whose places nobody balances), beside Who&When's runs where these
are there. Exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
from tests.benchmarks.faults_figures import (
    MIN_RUNS_PER_S,
    Failure,
    Shape,
    flips_by,
    mode_shares,
    same,
    shape_of,
    speed_of,
)
from tests.benchmarks.faults_work import Examined, cells, examined
from tests.benchmarks.machine import describe, versions

from blamespan.errors import ConfigError
from blamespan_lab.make.corpus.generate import generate_corpus
from blamespan_lab.make.corpus.recipe import find_recipe
from blamespan_lab.make.corpus.storage import LABELS, read_corpus
from blamespan_lab.make.run_labels import RunLabel
from blamespan_lab.measure.who_and_when import SUBSETS, read_subset
from blamespan_lab.rerun.stress.figures import Rate

ROOT = Path(__file__).parents[2]
PROCESSES = 2
CORPUS_RUNS = 600
FRAMEWORKS = ("langgraph", "langchain-core", "autogen-agentchat")


def main() -> None:
    parser = argparse.ArgumentParser("scripts/bench faults", description="What it takes to make labelled runs.")
    parser.add_argument("--quick", action="store_true", help="few programs and no corpus: about two minutes, rough")
    parser.add_argument(
        "--programs", type=int, metavar="N", help="of each family, topology and framework (12; quick: 2)"
    )
    parser.add_argument(
        "--corpus", type=Path, metavar="FOLDER", help="look at this corpus instead of making a small one"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    arguments = parser.parse_args()
    programs = arguments.programs or (2 if arguments.quick else 12)
    if programs < 1:
        parser.error(f"expected --programs >= 1, got {programs}")
    work = cells(programs)
    click.echo(f"{len(work)} cells of {programs} programs, twice, in {PROCESSES} processes", err=True)
    first = examined(work, PROCESSES)
    second = examined(work[::-1], PROCESSES)
    corpus = _kept_of(first) if arguments.quick and arguments.corpus is None else _corpus(arguments.corpus)
    document = _document(first, second, corpus)
    click.echo(json.dumps(document, indent=2) if arguments.json else "\n".join(_lines(document)))
    sys.exit(0 if document["bars"]["speed"] and document["bars"]["determinism"] else 1)


def _kept_of(done: Sequence[Examined]) -> dict[str, Any]:
    clean = sum(one.kept.get("clean", 0) for one in done)
    failures = [Failure(*each) for one in done for each in one.failures]
    return {"made": None, "failures": failures, "clean": Rate(clean, sum(sum(one.kept.values()) for one in done))}


def _corpus(folder: Path | None) -> dict[str, Any]:
    """Read the failures of a corpus; of one made for this where none is named."""
    if folder is not None:
        return {"made": None, **_failures_of(folder)}
    with tempfile.TemporaryDirectory() as made:
        recipe = replace(find_recipe("default"), runs=CORPUS_RUNS)
        click.echo(f"a corpus of {CORPUS_RUNS} runs of the recipe {recipe.name!r}", err=True)
        start_s = time.monotonic()
        generate_corpus(recipe, Path(made) / "corpus", processes=PROCESSES)
        took = {"runs": CORPUS_RUNS, "wall_s": time.monotonic() - start_s}
        return {"made": took, **_failures_of(Path(made) / "corpus")}


def _failures_of(folder: Path) -> dict[str, Any]:
    lengths = {run.trace.trace_id: len(run.trace.steps) for run in read_corpus(folder)}
    lines = (folder / LABELS).read_text(encoding="utf-8").splitlines()
    labels = [RunLabel.from_json(json.loads(line)) for line in lines]
    failures = [
        Failure(one.decisive.step, lengths[one.trace_id], one.decisive.modes)
        for one in labels
        if one.decisive is not None
    ]
    clean = sum(one.purpose == "clean" for one in labels)
    return {"failures": failures, "clean": Rate(clean, len(labels))}


def _who_and_when() -> dict[str, list[Failure]]:
    """Read Who&When's labelled runs by subset; nothing where they are not there."""
    data = Path(os.environ.get("BLAMESPAN_TEST_DATA", ROOT.parent / "shared" / "data")) / "who_and_when_dev"
    found = {}
    for subset in SUBSETS:
        try:
            runs = read_subset(data / subset)
        except ConfigError:
            continue
        steps = ((run.faults[0].step, len(run.trace.steps)) for run in runs if run.faults)
        found[subset] = [Failure(step, length) for step, length in steps if step is not None]
    return found


def _document(first: Sequence[Examined], second: Sequence[Examined], corpus: dict[str, Any]) -> dict[str, Any]:
    speed = speed_of(first, PROCESSES)
    agree, of = same(first, second)
    dropped: dict[str, int] = {}
    for one in first:
        for why, count in one.dropped.items():
            dropped[why] = dropped.get(why, 0) + count
    theirs = {f"Who&When, {subset}": shape_of(failures) for subset, failures in _who_and_when().items()}
    return {
        "machine": describe(),
        "versions": versions(FRAMEWORKS),
        "speed": {**asdict(speed), "per_s": speed.per_s, "per_s_idle": speed.per_s_idle},
        "dropped": dropped,
        "flipped": {
            "all": _rate(Rate(sum(one.flipped for one in first), sum(one.written for one in first))),
            "family": {name: _rate(rate) for name, rate in flips_by(first, lambda one: one.cell.family).items()},
            "topology": {
                name: _rate(rate)
                for name, rate in flips_by(first, lambda one: f"{one.cell.topology}, {one.cell.framework}").items()
            },
        },
        "determinism": {"same": agree, "of": of},
        "corpus": {"made": corpus["made"], "clean": _rate(corpus["clean"])},
        "shapes": {
            name: asdict(shape) if shape is not None else None
            for name, shape in {"corpus": shape_of(corpus["failures"]), **theirs}.items()
        },
        "modes": dict(mode_shares(corpus["failures"])),
        "bars": {"speed": speed.is_met, "determinism": agree == of},
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {"hits": rate.hits, "n": rate.n, "percent": 100 * rate.share, "interval": [100 * x for x in rate.interval]}


def _lines(found: dict[str, Any]) -> list[str]:
    machine, speed, bars, twice = found["machine"], found["speed"], found["bars"], found["determinism"]
    used = ", ".join(f"{name} {each}" for name, each in found["versions"].items())
    lines = [
        f"{machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}, "
        f"load {machine['load']}; {used}",
        "",
        f"  {_bar(bars['speed'])}  >= {MIN_RUNS_PER_S:g} verified labelled runs per second in {speed['processes']} "
        f"processes: {speed['per_s']:.1f} on the wall's clock, {speed['per_s_idle']:.1f} by processor time "
        f"({speed['runs']} runs, {speed['failures']} of them failures, {speed['wall_s']:.0f} s, "
        f"{speed['cpu_s']:.0f} CPU s)",
        f"  {_bar(bars['determinism'])}  the same twice: {twice['same']} of {twice['of']} cells to the byte",
        "",
        "Faults that flip the outcome, % (95 % interval) of those written",
        f"{'all':34}{_percent(found['flipped']['all'])}",
    ]
    for part in ("family", "topology"):
        lines += ["", *(f"{name:34}{_percent(rate)}" for name, rate in found["flipped"][part].items())]
    dropped = ", ".join(f"{why} {count}" for why, count in sorted(found["dropped"].items())) or "none"
    lines += ["", f"programs of which nothing was kept: {dropped}", "", *_shapes(found)]
    return lines


def _shapes(found: dict[str, Any]) -> list[str]:
    made, clean = found["corpus"]["made"], found["corpus"]["clean"]
    took = f"A corpus of {made['runs']} runs in {made['wall_s']:.0f} s, " if made else "These runs: "
    lines = [
        f"{took}clean {_percent(clean)}",
        "Decisive steps by fifth of the run, %; steps of failed runs",
        f"{'':34}{'1st':>6}{'2nd':>6}{'3rd':>6}{'4th':>6}{'5th':>6}   {'steps: min, middle, max':26}{'n':>5}",
    ]
    for name, shape in found["shapes"].items():
        lines.append(f"{name:34}{_shape(shape)}")
    if not any(name.startswith("Who&When") for name in found["shapes"]):
        lines.append("Who&When's runs are not here: set BLAMESPAN_TEST_DATA to compare with them")
    modes = ", ".join(f"{mode} {share:.0f}" for mode, share in found["modes"].items())
    return [*lines, "", f"modes of the corpus's failures, % (Who&When labels none): {modes}"]


def _shape(shape: dict[str, Any] | Shape | None) -> str:
    if not isinstance(shape, dict):
        return f"{'none':>6}"
    fifths = "".join(f"{share:6.0f}" for share in shape["fifths"])
    least, middle, most = shape["steps"]
    return f"{fifths}   {f'{least}, {middle:g}, {most}':26}{shape['n']:>5}"


def _percent(rate: dict[str, Any]) -> str:
    low, high = rate["interval"]
    return f"{rate['percent']:5.1f} ({low:.1f} to {high:.1f}) of {rate['n']}"


def _bar(is_met: bool) -> str:
    return "met   " if is_met else "MISSED"


if __name__ == "__main__":
    main()
