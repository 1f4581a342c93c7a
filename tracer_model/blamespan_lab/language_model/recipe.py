"""What decides which language model comes out: one frozen record and a TOML file with the same names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from blamespan.errors import ConfigError
from blamespan_lab.toml_records import Count, Listed, Number, PositiveCount, PositiveNumber, read_record
from blamespan_tracer.causal.prompts import QUESTIONS, Question

__all__ = ["CausalData", "CausalRecipe", "Grpo", "Lora", "Scratch", "Sft", "read_causal_recipe"]

_STAGES = ("sft", "grpo")
_REWARDS = ("agentracer", "aegis")
_THOUGHTS = ("none", "label")


@dataclass(frozen=True, slots=True)
class CausalData:
    """What to train on.

    Attributes:
        corpora: Folders that `blamespan generate` made, relative to the data folder; what their recipes hold out is
            not read.
        aegis: AEGIS files, relative to the data folder; for the question `pairs`.
        question: `step` or `pairs`; see `blamespan_tracer.causal.prompts`.
        is_brief: Whether the question is one line, without the format and the kinds of errors: for small models.
        contracts: Whether runs are shown with the contracts that each decision breaks.
        held_out_percent: Share of the tasks kept aside for calibration and figures.
        most_runs: Train on so many, the first by a draw; 0 for all.
        sound_percent: Most runs without a failure, of all; more are left out. GRPO as published knows none.
        context: Tokens of prompt and reply; runs that do not fit are cut, and left out where that is not enough.
    """

    corpora: Listed[str] = ()
    aegis: Listed[str] = ()
    question: str = "step"
    is_brief: bool = False
    contracts: bool = False
    held_out_percent: Count = 12
    most_runs: Count = 0
    sound_percent: Count = 30
    context: PositiveCount = 8_192


@dataclass(frozen=True, slots=True)
class Scratch:
    """A Qwen3 built from nothing, with a tokenizer learnt from the training runs; used where no `base` is named."""

    vocabulary: PositiveCount = 4_096
    width: PositiveCount = 128
    layers: PositiveCount = 4
    heads: PositiveCount = 4
    kv_heads: PositiveCount = 2
    inner_width: PositiveCount = 384


@dataclass(frozen=True, slots=True)
class Lora:
    """A PEFT adapter on every linear layer; a rank of 0 trains the whole model."""

    rank: Count = 0
    alpha: PositiveCount = 32
    dropout: Number = 0.0


@dataclass(frozen=True, slots=True)
class Sft:
    """Supervised fine-tuning, by TRL's `SFTTrainer`.

    Attributes:
        epochs: Passes over the runs.
        steps: Updates in place of so many passes; 0 for the passes.
        learning_rate: At its peak; cosine to 0 after a warm-up over a tenth of the steps.
        batch_runs: Runs for each update, over all devices.
        device_runs: Of these, how many one device reads at a time; fewer after an out-of-memory.
        thought: What stands in the thought that is taught: `none`, or what the `label` says in words.
    """

    epochs: PositiveCount = 2
    steps: Count = 0
    learning_rate: PositiveNumber = 3e-6
    batch_runs: PositiveCount = 64
    device_runs: PositiveCount = 1
    thought: str = "none"


@dataclass(frozen=True, slots=True)
class Grpo:
    """Group-relative policy optimisation, by TRL's `GRPOTrainer`.

    Attributes:
        reward: `agentracer` (for the question `step`) or `aegis` (for `pairs`).
        sigma: Of the step kernel, in decisions.
        step_weight: Of the step against the agent.
        steps: Updates.
        learning_rate: Constant.
        batch_runs: Runs for each generation, over all devices, and
        rollouts: replies to each.
        updates: Over how many updates a generation's replies are spread; from 2 on the clip matters.
        device_replies: Replies that one device reads at a time; fewer after an out-of-memory.
        max_new_tokens: Of a reply.
        temperature: Of sampling.
        kl: Weight of the divergence from where training began; 0 for none.
        clip: Bound of the ratio at the beginning.
        is_tightening: Whether the bound falls to a fifth in the course of training.
    """

    reward: str = "agentracer"
    sigma: PositiveNumber = 1.0
    step_weight: Number = 0.5
    steps: PositiveCount = 300
    learning_rate: PositiveNumber = 1e-6
    batch_runs: PositiveCount = 32
    rollouts: PositiveCount = 8
    updates: PositiveCount = 2
    device_replies: PositiveCount = 4
    max_new_tokens: PositiveCount = 1_024
    temperature: PositiveNumber = 1.0
    kl: Number = 0.0
    clip: PositiveNumber = 0.2
    is_tightening: bool = True


@dataclass(frozen=True, slots=True)
class CausalRecipe:
    """Everything that decides what weights come out.

    Attributes:
        name: Names the run directory.
        model: `causal`: tells these recipes from those of other models.
        seed: Chooses what is held out and every draw.
        base: Folder or Hugging Face id of the model to start from; empty builds one by `scratch`.
        stages: `sft`, `grpo`, or both in this order.
        save_every: Updates between checkpoints.
        checkpointing: Whether activations are computed again rather than kept: slower, and fits.
        max_false_alarms: Percent of sound held-out runs that may be called failed.
        coverage: Percent of failed held-out runs whose decisive step the step set is to hold.
    """

    name: str
    model: str = "causal"
    seed: Count = 0
    base: str = ""
    stages: Listed[str] = _STAGES
    save_every: PositiveCount = 50
    checkpointing: bool = True
    max_false_alarms: Number = 5.0
    coverage: Number = 90.0
    data: CausalData = field(default_factory=CausalData)
    scratch: Scratch = field(default_factory=Scratch)
    lora: Lora = field(default_factory=Lora)
    sft: Sft = field(default_factory=Sft)
    grpo: Grpo = field(default_factory=Grpo)

    @property
    def question(self) -> Question:
        """What is asked."""
        return cast(Question, self.data.question)


def read_causal_recipe(path: Path) -> CausalRecipe:
    """Read the recipe at *path*; its name is the file's.

    Raises:
        ConfigError: if it is missing, no TOML, or has a key or a value that does not fit.
    """
    advice = "Those that come with blamespan are tracer_model/recipes/causal-*.toml"
    recipe = read_record(CausalRecipe, path, advice=advice, example="recipes/causal-8b-lora.toml")
    _one_of(path, "data.question", recipe.data.question, QUESTIONS)
    _one_of(path, "grpo.reward", recipe.grpo.reward, _REWARDS)
    _one_of(path, "sft.thought", recipe.sft.thought, _THOUGHTS)
    if list(recipe.stages) not in (["sft"], ["grpo"], ["sft", "grpo"]):
        raise ConfigError(f'{path.name}: expected stages as ["sft"], ["grpo"] or both, got {list(recipe.stages)!r}')
    _check_pairs(path, recipe)
    return recipe


def _check_pairs(path: Path, recipe: CausalRecipe) -> None:
    asks_pairs = recipe.data.question == "pairs"
    if "grpo" in recipe.stages and asks_pairs != (recipe.grpo.reward == "aegis"):
        raise ConfigError(
            f"{path.name}: expected grpo.reward as {'aegis' if asks_pairs else 'agentracer'!r} for the question "
            f"{recipe.data.question!r}, got {recipe.grpo.reward!r}. Correct one of them"
        )
    if not asks_pairs and recipe.data.aegis:
        raise ConfigError(
            f"{path.name}: AEGIS labels no steps, got data.aegis with the question 'step'. Ask for 'pairs'"
        )
    if not (recipe.data.corpora or recipe.data.aegis):
        raise ConfigError(f"{path.name}: expected data.corpora or data.aegis, got neither. Name what to train on")
    size = recipe.scratch
    if size.width % (2 * size.heads) or size.heads % size.kv_heads:
        raise ConfigError(
            f"{path.name}: expected scratch.width as an even multiple of heads, and heads of kv_heads, got "
            f"{size.width}, {size.heads}, {size.kv_heads}. Correct the recipe"
        )


def _one_of(path: Path, key: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ConfigError(
            f"{path.name}: expected {key} as one of {', '.join(choices)}, got {value!r}. Correct the recipe"
        )
