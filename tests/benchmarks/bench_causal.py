"""Whether a language model learns more than the best answer that is always the same, by SFT and then GRPO.

    scripts/bench causal [--seeds 3] [--runs FOLDER] [--recipe FILE] [--work FOLDER] [--json]

A Qwen3 of some hundred thousand parameters and its tokenizer are built from nothing and trained on short generated
runs (`causal_runs.toml`) by `tracer_model/recipes/causal-tiny-short.toml`, once for each seed, on a CPU and offline.
What it writes freely, sampled as in GRPO, is rewarded before, between and after, on runs of the training and on runs of
other tasks, beside what others earn there. Exit code 1 where the held-out reward after GRPO is not surely above the
best constant answer's.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from tests.benchmarks import causal_proof as proof
from tests.benchmarks.causal_proof import Earned, Seeded, Sides
from tests.benchmarks.machine import describe, versions

from blamespan_lab.corpus.generate import generate_corpus
from blamespan_lab.corpus.recipe import read_corpus_recipe
from blamespan_lab.language_model.recipe import CausalRecipe, read_causal_recipe

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "tracer_model" / "recipes" / "causal-tiny-short.toml"
RUNS = Path(__file__).parent / "causal_runs.toml"

_PACKAGES = ("torch", "transformers", "trl", "blamespan")


def main() -> None:
    arguments = _arguments()
    recipe = read_causal_recipe(arguments.recipe)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        work = arguments.work or Path(temporary)
        runs = (arguments.runs or _generated(work / "short")).resolve()
        recipe = replace(recipe, data=replace(recipe.data, corpora=(runs.name,)))
        sides = proof.read_sides(recipe, runs.parent)
        others = _others(sides)
        seeded = [_trained(replace(recipe, seed=seed), runs.parent, sides, work) for seed in range(arguments.seeds)]
    document = _document(recipe, sides, others, seeded)
    click.echo(json.dumps(document, indent=2) if arguments.json else _tables(document))
    for missed in document["missed"]:
        click.echo(f"missed: {missed}", err=True)
    sys.exit(bool(document["missed"]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("scripts/bench causal", description="Whether SFT and GRPO beat constant answers.")
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="how many trainings (3)")
    parser.add_argument("--runs", type=Path, metavar="FOLDER", help="what `blamespan generate` made; else it is made")
    parser.add_argument("--recipe", type=Path, default=RECIPE, metavar="FILE", help="for training (causal-tiny-short)")
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="where everything is kept; stopped, it goes on")
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the tables")
    return parser.parse_args()


def _generated(folder: Path) -> Path:
    click.echo(f"making runs by {RUNS.name}: some minutes", err=True)
    generate_corpus(read_corpus_recipe(RUNS), folder, processes=1)
    return folder


def _others(sides: Sides) -> dict[str, Earned]:
    """Find what others earn on the held-out runs; the first is the one to beat."""
    best, constant = proof.best_constant(sides.fitted, sides.held)
    return {
        f"always {best.agent}|{best.step}, the best on the training's runs": constant,
        "an even draw": proof.of_uniform(sides.held),
        "the tracer `contracts`, or else that constant": proof.of_tracer("contracts", sides.held, best),
        "the tracer `network`": proof.of_tracer("network", sides.held),
    }


def _trained(recipe: CausalRecipe, data: Path, sides: Sides, work: Path) -> Seeded:
    click.echo(f"seed {recipe.seed}", err=True)
    return proof.trained(recipe, data, sides, work / f"seed-{recipe.seed}")


def _document(
    recipe: CausalRecipe, sides: Sides, others: dict[str, Earned], seeded: Sequence[Seeded]
) -> dict[str, Any]:
    constant = next(iter(others.values()))
    rows = [_row(each, constant) for each in seeded]
    mean = np.mean([each.held["GRPO"].by_run for each in seeded], axis=0)
    pooled = proof.interval(mean - constant.by_run)
    missed = [
        f"seed {row['seed']}: {row['held']['GRPO']['reward']:.3f} is not surely above {constant.mean:.3f}"
        for row in rows
        if row["above_constant"][0] <= 0
    ]
    return {
        "machine": describe(),
        "versions": versions(_PACKAGES),
        "recipe": recipe.name,
        "runs": {"fitted": len(sides.fitted), "calibrated": len(sides.calibrated), "held_out": len(sides.held)},
        "others": {
            name: {"reward": each.mean, "interval": proof.interval(each.by_run)} for name, each in others.items()
        },
        "seeds": rows,
        "above_constant": {"reward": float((mean - constant.by_run).mean()), "interval": pooled},
        "missed": missed,
    }


def _row(seeded: Seeded, constant: Earned) -> dict[str, Any]:
    return {
        "seed": seeded.seed,
        "fitted": {name: _figures(each) for name, each in seeded.fitted.items()},
        "held": {name: _figures(each) for name, each in seeded.held.items()},
        "verdict": _figures(seeded.verdict),
        "above_constant": proof.interval(seeded.held["GRPO"].by_run - constant.by_run),
        "above_sft": proof.interval(seeded.held["GRPO"].by_run - seeded.held["SFT"].by_run),
        "constant_groups": seeded.constant,
        "cpu_s": seeded.cpu_s,
    }


def _figures(earned: Earned) -> dict[str, object]:
    return {"reward": earned.mean, "interval": proof.interval(earned.by_run), "in_format": earned.in_format}


def _tables(document: dict[str, Any]) -> str:
    runs = document["runs"]
    lines = [
        ", ".join(f"{key} {value}" for key, value in document["machine"].items()),
        f"{document['recipe']}: {runs['fitted']} runs to train on, {runs['calibrated']} to calibrate on, "
        f"{runs['held_out']} held out by task",
        "",
        "| reward, held out (95 % over runs) | before | after SFT | after GRPO | its verdicts | over the constant |",
        "|---|---|---|---|---|---|",
    ]
    for row in document["seeds"]:
        held = row["held"]
        cells = [_cell(held[name]) for name in ("before", "SFT", "GRPO")] + [_cell(row["verdict"])]
        low, high = row["above_constant"]
        lines.append(f"| seed {row['seed']} | {' | '.join(cells)} | {low:+.3f} to {high:+.3f} |")
    for name, each in document["others"].items():
        lines.append(f"| {name} | | | | {_cell(each)} | |")
    lines += ["", "| seed | reward, trained on | replies in the format, held out | groups that taught nothing | CPU |"]
    lines.append("|---|---|---|---|---|")
    for row in document["seeds"]:
        rewards = ", ".join(f"{each['reward']:.3f}" for each in row["fitted"].values())
        shares = ", ".join(f"{each['in_format']:.0f} %" for each in row["held"].values())
        lines.append(
            f"| {row['seed']} | {rewards} | {shares} | {row['constant_groups']:.0f} % | {row['cpu_s']:.0f} s |"
        )
    low, high = document["above_constant"]["interval"]
    lines.append(
        f"\nover the constant, all seeds: {document['above_constant']['reward']:+.3f} ({low:+.3f} to {high:+.3f})"
    )
    return "\n".join(lines)


def _cell(figures: dict[str, Any]) -> str:
    low, high = figures["interval"]
    return f"{figures['reward']:.3f} ({low:.3f} to {high:.3f})"


if __name__ == "__main__":
    main()
