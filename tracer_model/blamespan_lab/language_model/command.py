"""What `blamespan train` says of language models and encoders."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from blamespan.plugins import require

if TYPE_CHECKING:
    from blamespan_lab.language_model.recipe import CausalRecipe
    from blamespan_lab.language_model.training import Trained

__all__ = ["train_causal_model", "train_contrastive_model"]

_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "datasets")


def train_causal_model(path: Path, data: Path, out: Path, seed: int | None, updates: int | None = None) -> None:
    """Train by the recipe at *path* and say how it went.

    Args:
        path: Of the recipe.
        data: Folder that holds what it names.
        out: Of the run.
        seed: Instead of the recipe's.
        updates: Of each stage, instead of the recipe's: to see that it starts, and what it takes.

    Raises:
        BlamespanError: if a package, the recipe, the data or the model is wrong, or memory does not suffice.
    """
    from blamespan_lab.language_model.recipe import read_causal_recipe

    recipe = read_causal_recipe(path)
    _require_all()
    from blamespan_lab.language_model.training import train_causal

    if updates is not None:
        recipe = replace(recipe, sft=replace(recipe.sft, steps=updates), grpo=replace(recipe.grpo, steps=updates))
    trained = train_causal(recipe if seed is None else replace(recipe, seed=seed), data, out)
    _say(trained, recipe)


def _say(trained: Trained, recipe: CausalRecipe) -> None:
    for stage in trained.stages:
        what = "loss" if stage.stage == "sft" else "reward"
        chance = "" if math.isnan(stage.chance) else f" (chance {stage.chance:.3f})"
        click.echo(f"{stage.stage:<13}{what} {stage.first:.3f} to {stage.last:.3f}{chance} in {stage.updates} updates")
        if not math.isnan(stage.constant):
            click.echo(
                f"             {stage.constant:.1f} % of the groups earned the same throughout and taught nothing"
            )
        if stage.left_out:
            click.echo(f"             {stage.left_out} runs do not fit into {recipe.data.context} tokens: left out")
    held = trained.held_out
    if not math.isnan(held.step):
        click.echo(f"held out     {held.n} failed runs: step {held.step:.1f} %, chance {held.chance:.1f} %")
    click.echo(f"agent        {held.agent:.1f} %{f', chance {held.chance:.1f} %' if math.isnan(held.step) else ''}")
    if not math.isnan(held.embedded_step):
        beside = f"step {held.embedded_step:.1f} %, agent {held.embedded_agent:.1f} %"
        click.echo(f"embedded     {beside} on the same runs, by the tracer `network`, which may have learnt from them")
    click.echo(f"took         {trained.wall_s:.0f} s, {trained.most_gib:.1f} GiB at most")
    name = "ADAPTER" if trained.is_adapter else "MODEL"
    click.echo(f"use it       BLAMESPAN_CAUSAL_{name}={trained.folder} blamespan analyze FILE --tracer causal")


def train_contrastive_model(path: Path, data: Path, out: Path, seed: int | None, updates: int | None = None) -> None:
    """Train by the recipe at *path* and say how it went; see `train_causal_model`.

    Raises:
        BlamespanError: if a package, the recipe, the data or the encoder is wrong.
    """
    from blamespan_lab.language_model.contrastive.recipe import read_contrastive_recipe

    recipe = read_contrastive_recipe(path)
    _require_all()
    from blamespan_lab.language_model.contrastive.training import train_contrastive

    if updates is not None:
        recipe = replace(recipe, train=replace(recipe.train, updates=updates))
    trained = train_contrastive(recipe if seed is None else replace(recipe, seed=seed), data, out)
    held = trained.held_out
    click.echo(f"loss         {trained.first_loss:.3f} to {trained.last_loss:.3f} in {recipe.train.updates} updates")
    click.echo(f"held out     {held.n} runs, threshold {held.threshold:.2f} chosen on them")
    click.echo(f"pair F1      {held.pair:.1f} % (every agent, commonest mode: {held.guess:.1f})")
    click.echo(f"agent F1     {held.agent:.1f} %")
    click.echo(f"mode F1      {held.mode:.1f} %")
    click.echo(f"use it       BLAMESPAN_CONTRASTIVE_MODEL={trained.folder} blamespan analyze FILE --tracer contrastive")


def _require_all() -> None:
    for package in _PACKAGES:
        require(package, "llm")
