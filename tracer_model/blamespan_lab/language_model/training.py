"""Train a language model by a recipe: runs, model, stages, calibration, and what the tracer needs to load it."""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch

from blamespan.errors import ConfigError
from blamespan_lab.language_model.examples import Example, read_examples
from blamespan_lab.language_model.measuring import CausalFigures, embedded_beside, measure_held_out
from blamespan_lab.language_model.recipe import CausalRecipe
from blamespan_lab.language_model.scratch import build_model, build_tokenizer
from blamespan_lab.language_model.stages import METRICS, StageFigures, run_grpo, run_sft
from blamespan_lab.network.calibrating import Pointed, alarm_for, mass_for, temperature_of
from blamespan_lab.network.examples import SOUND
from blamespan_tracer.causal.loading import (
    Model,
    Tokenizer,
    check_config,
    fingerprint,
    load_model,
    load_tokenizer,
)
from blamespan_tracer.causal.model_checks import check_pair, check_template
from blamespan_tracer.causal.prompt_builder import PromptBuilder
from blamespan_tracer.causal.prompts import build_messages
from blamespan_tracer.causal.settings import CausalSettings, Learnt
from blamespan_tracer.causal.tracer import CausalPrediction, CausalTracer

__all__ = ["TrainedLanguageModel", "train_causal", "train_causal_on"]

_BASE, _MODEL, _ADAPTER = "base", "model", "adapter"
"""Folders of a run: a model built from nothing, the trained model, the trained adapter."""

_MOST_HELD = 400
"""Runs that calibration and figures are taken from: more cost time and change little."""

_STAGES = {"sft": run_sft, "grpo": run_grpo}

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainedLanguageModel:
    """What training made, and how it went.

    Attributes:
        folder: Of the model or the adapter.
        is_adapter: Which of them it is.
        stages: How each went.
        held_out: How it does on held-out tasks.
        wall_s: Seconds it took.
        most_gib: Most memory that this process ever held: of the GPU where there is one, else resident. NaN where the
            system does not say.
    """

    folder: Path
    is_adapter: bool
    stages: tuple[StageFigures, ...]
    held_out: CausalFigures
    wall_s: float = float("nan")
    most_gib: float = float("nan")


def train_causal(recipe: CausalRecipe, data: Path, out: Path) -> TrainedLanguageModel:
    """Train by *recipe* on the runs under *data*; leave recipe, metrics, checkpoints and weights in *out*.

    Stopped and started again with the same *out*, it goes on from its last checkpoint.

    Raises:
        ConfigError: if the data is missing or too small, or *out* holds another recipe's run.
        TracerUnavailable: if the base cannot be loaded.
        BlamespanError: if it does not fit into memory.
    """
    if len(recipe.stages) > 1 and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            f"expected one stage at a time on several devices, got {list(recipe.stages)!r}. Train the first alone, "
            "then the second with what it left as base"
        )
    _claim(out, recipe)
    return train_causal_on(*read_examples(recipe, data), recipe, out)


def train_causal_on(
    fitted: Sequence[Example], held_out: Sequence[Example], recipe: CausalRecipe, out: Path
) -> TrainedLanguageModel:
    """Train on runs in memory, *held_out* ones kept for calibration and figures."""
    start_s = time.perf_counter()
    out.mkdir(parents=True, exist_ok=True)
    model, tokenizer, base = _start(recipe, fitted, out)
    reader = PromptBuilder(
        tokenizer, recipe.data.context, _thinks(recipe), recipe.question, is_brief=recipe.data.is_brief
    )
    base_print = fingerprint(model)
    if recipe.lora.rank:
        model = _with_lora(model, recipe, base)
    figures: list[StageFigures] = []
    for stage in recipe.stages:
        trainer, stage_figures = _STAGES[stage](recipe, model, tokenizer, reader, fitted, out)
        model = trainer.model
        _log.info("%s", stage_figures)
        figures.append(stage_figures)
    learnt = Learnt(
        question=recipe.question,
        is_brief=recipe.data.is_brief,
        contracts=recipe.data.contracts,
        thinks=_thinks(recipe),
        context=recipe.data.context,
        base=base_print if recipe.lora.rank else "",
    )
    learnt, held_out_figures = _calibrate(model, tokenizer, learnt, recipe, held_out)
    folder = out / (_ADAPTER if recipe.lora.rank else _MODEL)
    trainer.save_model(str(folder))  # by all processes: each may hold a part of the weights
    trained = TrainedLanguageModel(
        folder,
        bool(recipe.lora.rank),
        tuple(figures),
        held_out_figures,
        round(time.perf_counter() - start_s, 1),
        round(_most_gib(), 2),
    )
    if _is_first():
        learnt.save(folder)
        with (out / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps({**asdict(trained), "folder": str(folder)}) + "\n")
    return trained


def _thinks(recipe: CausalRecipe) -> int:
    """Return how many tokens of thought a tracer should allow: as GRPO did, unless SFT taught to have none."""
    taught_none = recipe.stages[0] == "sft" and recipe.sft.thought == "none"
    return 0 if taught_none else recipe.grpo.max_new_tokens


def _claim(out: Path, recipe: CausalRecipe) -> None:
    """Take *out* over, for this recipe alone."""
    about = json.dumps(asdict(recipe), indent=1)
    path = out / "recipe.json"
    try:
        if path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("recipe") != json.loads(about):
            raise ConfigError(
                f"expected --out to be new, empty or a run of this recipe, got {str(out)!r} with another. "
                "Name another folder"
            )
        if _is_first():
            out.mkdir(parents=True, exist_ok=True)
            packages = ("torch", "transformers", "trl", "peft", "blamespan")
            versions = {"python": platform.python_version(), **{name: version(name) for name in packages}}
            path.write_text(json.dumps({"recipe": json.loads(about), "versions": versions}) + "\n", encoding="utf-8")
    except (OSError, ValueError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"expected --out as a folder that can be written, got {error}. Name another") from error


def _start(recipe: CausalRecipe, fitted: Sequence[Example], out: Path) -> tuple[Model, Tokenizer, str]:
    """Load the base, or build it; gives model, tokenizer and where the base lies."""
    if recipe.base:
        dtype = torch.bfloat16 if recipe.lora.rank and torch.cuda.is_available() else torch.float32
        check_config(recipe.base)
        tokenizer = load_tokenizer(recipe.base)
        check_template(tokenizer, recipe.base)
        model = load_model(recipe.base, dtype=dtype)
        check_pair(model, tokenizer, recipe.base)
        return model, tokenizer, recipe.base
    folder = out / _BASE
    if not (folder / "model.safetensors").is_file():
        texts = (
            build_messages(example.run.text(), recipe.question, is_brief=recipe.data.is_brief) for example in fitted
        )
        asked = (message["content"] for text in texts for message in text)
        tokenizer = build_tokenizer(asked, recipe.scratch, recipe.data.context)
        model = build_model(tokenizer, recipe.scratch, recipe.data.context, recipe.seed)
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
        _log.info(
            "a model of %.1f million parameters was built",
            sum(parameter.numel() for parameter in model.parameters()) / 1e6,
        )
    return load_model(str(folder), dtype=torch.float32), load_tokenizer(str(folder)), str(folder)


def _with_lora(model: Model, recipe: CausalRecipe, base: str) -> Model:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(recipe.seed)
    lora = recipe.lora
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
    )
    return get_peft_model(model, config)


def _calibrate(
    model: Model, tokenizer: Tokenizer, learnt: Learnt, recipe: CausalRecipe, held_runs: Sequence[Example]
) -> tuple[Learnt, CausalFigures]:
    """Ask about held-out runs, and make the probabilities mean what they say there."""
    model.eval()
    some = held_runs[:_MOST_HELD]
    tracer = CausalTracer(model, tokenizer, CausalSettings(batch=max(recipe.sft.device_runs, 1)), learnt)
    judged = tracer.judge([example.trace for example in some])
    judged_runs = [
        (example, judgement)
        for example, judgement in zip(some, judged, strict=True)
        if isinstance(judgement, CausalPrediction)
    ]
    held_out = measure_held_out(judged_runs)
    if learnt.question == "step" and _is_first():
        held_out = embedded_beside(held_out, [example for example, _ in judged_runs])
    if learnt.question == "pairs" or not judged_runs:
        return learnt, held_out
    pointed = [Pointed(judgement.scores, _place(example)) for example, judgement in judged_runs]
    temperature = temperature_of(pointed)
    return replace(
        learnt,
        temperature=temperature,
        set_mass=mass_for(pointed, temperature, recipe.coverage),
        alarm=alarm_for(pointed, temperature, recipe.max_false_alarms),
    ), held_out


def _place(example: Example) -> int:
    assert example.step is not None  # the question is about steps
    return SOUND if example.is_sound else example.decisions.index((example.step.agent, example.step.step))


def _most_gib() -> float:
    """Tell the most memory this process ever held, in GiB."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    try:
        import resource
    except ImportError:  # not on Windows
        return float("nan")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most / 2**30 if sys.platform == "darwin" else most / 2**20)


def _is_first() -> bool:
    """Whether this process, of however many, is the one that writes."""
    return int(os.environ.get("RANK", "0")) == 0
