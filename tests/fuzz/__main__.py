"""Fuzz everything that reads what others wrote, by coverage, and say how many inputs it took.

scripts/fuzz [--inputs 1000000] [--only TARGET] [--jobs 2] [--json]
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import click

from tests.fuzz.targets import TARGETS

ROOT = Path(__file__).parents[2]
_FINAL = {
    "inputs": r"number_of_executed_units:\s*(\d+)",
    "peak_mb": r"peak_rss_mb:\s*(\d+)",
    "slowest_s": r"slowest_unit_time_sec:\s*(\d+)",
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What fuzzing one target gave.

    Attributes:
        finding: What libFuzzer said last before it gave up; empty where nothing was found.
    """

    target: str
    inputs: int
    took_s: float
    peak_mb: int
    slowest_s: int
    features: int
    finding: str = ""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--inputs", default=1_000_000, show_default=True, help="In all.")
@click.option("--only", type=click.Choice(list(TARGETS)), multiple=True, help="Only these targets.")
@click.option("--jobs", default=2, show_default=True, help="Targets at once.")
@click.option("--seed", default=1, show_default=True)
@click.option(
    "--folder", type=click.Path(path_type=Path), default=ROOT / "runs" / "fuzz", help="Findings, grown corpus."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
def main(*, inputs: int, only: tuple[str, ...], jobs: int, seed: int, folder: Path, as_json: bool) -> None:
    """Fuzz every target; exit 0 if none of them crashed, hung or grew without bound."""
    names = only or tuple(TARGETS)
    shares = sum(TARGETS[name].share for name in names)
    counts = {name: -(-inputs * TARGETS[name].share // shares) for name in names}
    longest_first = sorted(names, key=lambda name: -TARGETS[name].share)
    began_s = time.monotonic()
    with ThreadPoolExecutor(jobs) as pool:
        outcomes = list(pool.map(partial(_fuzz, counts=counts, seed=seed, folder=folder), longest_first))
    took_s = time.monotonic() - began_s
    click.echo(_document(outcomes, took_s) if as_json else _table(outcomes, took_s))
    sys.exit(any(outcome.finding for outcome in outcomes))


def _fuzz(name: str, *, counts: dict[str, int], seed: int, folder: Path) -> Outcome:
    folders = ("--findings", str(folder / "findings"), "--grown", str(folder / "corpus" / name))
    command = [
        *(sys.executable, "-m", "tests.fuzz.engine", name, "--inputs", str(counts[name]), "--seed", str(seed)),
        *folders,
    ]
    began_s = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd=ROOT)
    said = done.stdout.decode(errors="replace")
    numbers = {key: int(found[1]) if (found := re.search(text, said)) else 0 for key, text in _FINAL.items()}
    features = re.findall(r"ft: (\d+)", said)
    if done.returncode:
        (folder / f"{name}.log").write_text(said)
        numbers["inputs"] = numbers["inputs"] or int((re.findall(r"#(\d+)", said) or ["0"])[-1])
    return Outcome(
        target=name,
        took_s=round(time.monotonic() - began_s, 1),
        features=int(features[-1]) if features else 0,
        finding=_finding(said, folder) if done.returncode else "",
        **numbers,
    )


def _finding(said: str, folder: Path) -> str:
    error = re.search(r"=== Uncaught Python exception: ===\n(.*)", said) or re.search(r"SUMMARY: (.*)", said)
    written = re.search(r"Test unit written to (\S+)", said)
    what = error[1] if error else said[-300:]
    return f"{what} (input: {written[1] if written else f'none written, see {folder}'})"


def _table(outcomes: list[Outcome], took_s: float) -> str:
    lines = [f"{'target':<18}{'inputs':>10}{'inputs/s':>10}{'peak MB':>10}{'slowest s':>11}{'features':>10}"]
    for one in sorted(outcomes, key=lambda one: one.target):
        rate = one.inputs / max(one.took_s, 0.1)
        lines.append(
            f"{one.target:<18}{one.inputs:>10}{rate:>10.0f}{one.peak_mb:>10}{one.slowest_s:>11}{one.features:>10}"
        )
        lines += [f"    FOUND {one.finding}"] if one.finding else []
    total = sum(one.inputs for one in outcomes)
    found = sum(bool(one.finding) for one in outcomes)
    return "\n".join([*lines, f"{total:,} inputs in {took_s:.0f} s, {found} of {len(outcomes)} targets broken"])


def _document(outcomes: list[Outcome], took_s: float) -> str:
    total = sum(one.inputs for one in outcomes)
    return json.dumps({"inputs": total, "took_s": round(took_s, 1), "targets": [asdict(o) for o in outcomes]}, indent=2)


if __name__ == "__main__":
    main()
