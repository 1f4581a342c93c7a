"""What `bench_causal` measures: what a language model's replies earn before and after each stage, and what others earn.

Dims: N runs.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.trainer_utils import get_last_checkpoint

from blamespan.attribution import Attribution
from blamespan.tracers import load_tracer
from blamespan_lab.corpus.storage import read_corpus
from blamespan_lab.language_model.examples import Example, examples_of, read_examples
from blamespan_lab.language_model.recipe import CausalRecipe
from blamespan_lab.language_model.rewards import chance_of_step, step_reward
from blamespan_lab.language_model.stages import reply_of
from blamespan_lab.language_model.training import train_causal
from blamespan_tracer.causal.loading import Model, Tokenizer, load_model, load_tokenizer
from blamespan_tracer.causal.prompt_builder import PromptBuilder
from blamespan_tracer.causal.prompts import StepAnswer, read_step
from blamespan_tracer.causal.scoring import pad_left
from blamespan_tracer.causal.settings import CausalSettings
from blamespan_tracer.causal.tracer import CausalTracer

__all__ = ["Earned", "Seeded", "Sides", "best_constant", "interval", "of_tracer", "of_uniform", "read_sides", "trained"]

_BATCH = 32
_MOST_FITTED = 200
"""Runs of the training that are measured."""

_REPLIES = 4
"""Replies drawn for each run, at the temperature that GRPO draws at."""

_DRAWS = 2_000
"""Of the bootstrap."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sides:
    """The runs, parted by task: to train on, to calibrate on, and held out of both. All failed."""

    fitted: list[Example]
    calibrated: list[Example]
    held: list[Example]


@dataclass(frozen=True, slots=True)
class Earned:
    """What answers earned.

    Attributes:
        by_run: (N,) the reward of each run's answer, or the mean over its replies.
        in_format: Percent of the replies that can be read.
    """

    by_run: Floats
    in_format: float = 100.0

    @property
    def mean(self) -> float:
        """The mean over the runs."""
        return float(self.by_run.mean())


@dataclass(frozen=True, slots=True)
class Seeded:
    """One training.

    Attributes:
        seed: Of weights, order, replies, and of what is kept for calibration.
        fitted: What replies to runs of the training earned before, after SFT, after GRPO.
        held: The same of held-out runs.
        verdict: What the tracer's verdicts on held-out runs earn, with the finished model.
        constant: Percent of GRPO's groups whose replies all earned the same.
        cpu_s: Processor time of the training.
    """

    seed: int
    fitted: dict[str, Earned]
    held: dict[str, Earned]
    verdict: Earned
    constant: float
    cpu_s: float


def read_sides(recipe: CausalRecipe, data: Path) -> Sides:
    """Read the runs that *recipe* names in *data*: what the corpus holds out is seen by nothing but the measurement."""
    fitted, calibrated = read_examples(recipe, data)
    kept = (run for name in recipe.data.corpora for run in read_corpus(data / name, "held-out"))
    return Sides(fitted, calibrated, [each for each in examples_of(kept, recipe) if not each.is_sound])


def trained(recipe: CausalRecipe, data: Path, sides: Sides, out: Path) -> Seeded:
    """Train by *recipe* as `blamespan train` does, and measure what the model writes before, between and after."""
    start_s = time.process_time()
    found = train_causal(recipe, data, out)
    cpu_s = time.process_time() - start_s
    after_sft = get_last_checkpoint(str(out / "sft"))
    assert after_sft is not None  # a stage keeps its last state
    folders = {"before": str(out / "base"), "SFT": after_sft, "GRPO": str(found.folder)}
    tokenizer = load_tokenizer(folders["before"])
    models = {name: load_model(folder, dtype=torch.float32) for name, folder in folders.items()}
    return Seeded(
        recipe.seed,
        {name: replied(recipe, model, tokenizer, sides.fitted[:_MOST_FITTED]) for name, model in models.items()},
        {name: replied(recipe, model, tokenizer, sides.held) for name, model in models.items()},
        of_tracer(str(found.folder), sides.held),
        found.stages[-1].constant,
        cpu_s,
    )


@torch.inference_mode()
def replied(recipe: CausalRecipe, model: Model, tokenizer: Tokenizer, examples: Sequence[Example]) -> Earned:
    """Let *model* write freely, as in GRPO, and reward what it writes; runs that do not fit earn nothing."""
    torch.manual_seed(recipe.seed)
    thinks = 0 if recipe.sft.thought == "none" else recipe.grpo.max_new_tokens
    reader = PromptBuilder(tokenizer, recipe.data.context, thinks, recipe.question, is_brief=recipe.data.is_brief)
    read = [(place, reader.whole(each.run)) for place, each in enumerate(examples)]
    shown = [(place, found[1]) for place, found in read if found is not None]
    shown.sort(key=lambda each: len(each[1].tokens))  # of like length together: padding costs time
    rewards, n_read = np.zeros(len(examples)), 0
    for start in range(0, len(shown), _BATCH):
        some = shown[start : start + _BATCH]
        ids, is_real, _ = pad_left([part.tokens for _, part in some], tokenizer.pad_token_id, model.device)
        written = model.generate(
            input_ids=ids,
            attention_mask=is_real,
            do_sample=True,
            temperature=recipe.grpo.temperature,
            top_k=0,
            top_p=1.0,
            num_return_sequences=_REPLIES,
            max_new_tokens=recipe.grpo.max_new_tokens,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )[:, ids.shape[1] :].tolist()
        for row, (place, part) in enumerate(some):
            label = examples[place].step
            assert label is not None  # the question is about steps
            own = written[row * _REPLIES : (row + 1) * _REPLIES]
            answers = [read_step(reply_of(tokenizer, each, opens_thought=part.opens_thought)) for each in own]
            rewards[place] = statistics.mean(step_reward(answer, label) for answer in answers)
            n_read += sum(answer is not None for answer in answers)
    return Earned(rewards, 100 * n_read / max(len(examples) * _REPLIES, 1))


def best_constant(fitted: Sequence[Example], held: Sequence[Example]) -> tuple[StepAnswer, Earned]:
    """Find the answer that earns most on *fitted* when it is always given, and what it earns on *held*."""
    labels = [each.step for each in fitted if each.step is not None]
    answers = dict.fromkeys(StepAnswer(label.agent, label.step) for label in labels)
    best = max(answers, key=lambda answer: sum(step_reward(answer, label) for label in labels))
    return best, _earned(held, [best] * len(held))


def of_uniform(held: Sequence[Example]) -> Earned:
    """Find what an answer drawn evenly from the possible ones earns, nobody among them."""
    return Earned(np.array([chance_of_step(each.decisions, each.step) for each in held if each.step is not None]))


def of_tracer(name: str, held: Sequence[Example], otherwise: StepAnswer | None = None) -> Earned:
    """Find what the verdicts of a tracer earn, the model in a folder or one by its name.

    Args:
        name: Of the tracer, or the folder of a causal model.
        held: The runs.
        otherwise: What is answered where it gives no verdict; None earns nothing.
    """
    tracer = _causal(name) if Path(name).is_dir() else load_tracer(name)
    verdicts = tracer.attribute([each.trace for each in held])
    return _earned(held, [_answer(each, found) or otherwise for each, found in zip(held, verdicts, strict=True)])


def interval(differences: Floats, *, seed: int = 0) -> tuple[float, float]:
    """Bootstrap the mean of (N,) *differences* over runs: its 2.5th and 97.5th percentile."""
    draw = np.random.default_rng(seed)
    means = differences[draw.integers(len(differences), size=(_DRAWS, len(differences)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def _causal(folder: str) -> CausalTracer:
    return CausalTracer.load(CausalSettings(model=folder, device="cpu", batch=_BATCH))


def _answer(example: Example, verdict: Attribution) -> StepAnswer | None:
    """Say a verdict with the numbers of the rendered run."""
    step = verdict.decisive_step
    where = (each for each in example.run.decisions if step in example.run.origins[each.step])
    found = next(where, None) if step is not None else None
    return StepAnswer(found.agent, found.step) if found is not None else None


def _earned(examples: Sequence[Example], answers: Iterable[StepAnswer | None]) -> Earned:
    both = zip(examples, answers, strict=True)
    return Earned(np.array([step_reward(answer, each.step) for each, answer in both if each.step is not None]))
