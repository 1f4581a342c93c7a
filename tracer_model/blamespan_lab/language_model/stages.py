"""The stages of training, each a trainer of TRL: supervised fine-tuning and group-relative policy optimisation."""

from __future__ import annotations

import json
import logging
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

from blamespan.errors import BlamespanError, ConfigError
from blamespan_lab.language_model.examples import Example, thought_about
from blamespan_lab.language_model.recipe import CausalRecipe, Grpo
from blamespan_lab.language_model.rewards import aegis_reward, chance_of_step, clip_bound, step_reward
from blamespan_tracer.causal.loading import Model, Tokenizer, is_out_of_memory
from blamespan_tracer.causal.prompt_builder import Prompt, PromptBuilder
from blamespan_tracer.causal.prompts import OPEN, StepAnswer, read_pairs, read_step

__all__ = ["METRICS", "StageFigures", "TrainingLog", "reply_of", "reward_function", "run_grpo", "run_sft"]

METRICS = "metrics.jsonl"
"""What every stage logs, one JSON object a line."""

_WARM_UP = 0.1
_ENDS = 5
"""A first and a last figure are means over a fifth of the updates."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StageFigures:
    """How a stage went: the mean of the first and of the last fifth of its updates.

    Attributes:
        stage: `sft` or `grpo`.
        updates: How many there were.
        first: Loss of SFT, reward of GRPO.
        last: Likewise.
        chance: GRPO: the mean reward of an answer drawn evenly from the possible ones; NaN where not known.
        constant: GRPO: percent of the groups whose replies all earned the same and taught nothing.
        left_out: Runs that did not fit into the context.
    """

    stage: str
    updates: int
    first: float
    last: float
    chance: float = float("nan")
    constant: float = float("nan")
    left_out: int = 0


class TrainingLog(TrainerCallback):  # type: ignore[misc]  # transformers' types say nothing
    """Writes what a trainer logs to a file, and keeps it; going on from a checkpoint, what led there, too."""

    def __init__(self, stage: str, path: Path) -> None:
        self._stage = stage
        self._path = path
        self.rows: list[dict[str, float]] = []

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Read what was written up to where training goes on."""
        self.rows = [row for row in self._read_rows() if row["update"] <= state.global_step]

    def _read_rows(self) -> list[dict[str, float]]:
        lines = self._path.read_text(encoding="utf-8").splitlines() if self._path.is_file() else []
        by_update: dict[float, dict[str, float]] = {}
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:  # cut off when the process was killed
                continue
            if row.get("stage") == self._stage:
                by_update[row["update"]] = row
        return list(by_update.values())

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        """Take down one update."""
        if not state.is_world_process_zero or not logs or "train_runtime" in logs:
            return
        row = {key: value for key, value in logs.items() if isinstance(value, int | float)}
        self.rows.append({"update": state.global_step, **row})
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"stage": self._stage, **self.rows[-1]}) + "\n")

    def ends(self, key: str) -> tuple[float, float]:
        """Return the mean of *key* over the first and the last fifth of the updates; NaN where there is none."""
        values = [row[key] for row in self.rows if key in row]
        if not values:
            return float("nan"), float("nan")
        some = max(len(values) // _ENDS, 1)
        return sum(values[:some]) / some, sum(values[-some:]) / some


class _Tightening(TrainerCallback):  # type: ignore[misc]
    """Tightens a GRPO trainer's clip before every update."""

    def __init__(self, first: float) -> None:
        self._first = first
        self.trainer: GRPOTrainer | None = None

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Set the bound of this update."""
        assert self.trainer is not None  # set right after the trainer is made
        bound = clip_bound(state.global_step, state.max_steps, self._first)
        self.trainer.epsilon_low = self.trainer.epsilon_high = bound


def run_sft(
    recipe: CausalRecipe,
    model: Model,
    tokenizer: Tokenizer,
    reader: PromptBuilder,
    examples: Sequence[Example],
    out: Path,
) -> tuple[Any, StageFigures]:
    """Teach *model* to write the labels of *examples*; only the reply is learnt from. Gives the trainer back.

    Raises:
        BlamespanError: if memory does not even suffice for one run at a time.
    """
    shown = [(example, reader.whole(example.run)) for example in examples]
    rows = [_teach_row(recipe, reader, example, rendered[1]) for example, rendered in shown if rendered is not None]
    dataset, ledger = Dataset.from_list(rows), TrainingLog("sft", out / METRICS)
    device_runs = recipe.sft.device_runs

    def trainer(device_runs: int) -> SFTTrainer:
        args = SFTConfig(
            **_common(recipe, out / "sft"),
            num_train_epochs=recipe.sft.epochs,
            max_steps=recipe.sft.steps or -1,
            learning_rate=recipe.sft.learning_rate,
            lr_scheduler_type="cosine",
            warmup_steps=_WARM_UP,
            per_device_train_batch_size=device_runs,
            gradient_accumulation_steps=_accumulation(recipe.sft.batch_runs, device_runs, "sft.batch_runs"),
            max_length=None,
            dataset_kwargs={"skip_prepare_dataset": True},
        )
        return SFTTrainer(model, args, train_dataset=dataset, processing_class=tokenizer, callbacks=[ledger])

    trained = _train(trainer, device_runs, out / "sft")
    first, last = ledger.ends("loss")
    return trained, StageFigures("sft", trained.state.global_step, first, last, left_out=len(shown) - len(rows))


def run_grpo(
    recipe: CausalRecipe,
    model: Model,
    tokenizer: Tokenizer,
    reader: PromptBuilder,
    examples: Sequence[Example],
    out: Path,
) -> tuple[Any, StageFigures]:
    """Let *model* answer, and reward it by the labels of *examples*. Gives the trainer back.

    Raises:
        BlamespanError: if memory does not even suffice for one reply at a time.
    """
    grpo = recipe.grpo
    shown = [(example, reader.whole(example.run)) for example in examples]
    rows = [_ask_row(example, *rendered) for example, rendered in shown if rendered is not None]
    ledger, tightening = TrainingLog("grpo", out / METRICS), _Tightening(grpo.clip)

    def trainer(device_replies: int) -> GRPOTrainer:
        accumulation = _accumulation(grpo.batch_runs * grpo.rollouts, device_replies * grpo.updates, "grpo.batch_runs")
        args = GRPOConfig(
            **_common(recipe, out / "grpo"),
            max_steps=grpo.steps,
            learning_rate=grpo.learning_rate,
            lr_scheduler_type="constant",
            per_device_train_batch_size=device_replies,
            gradient_accumulation_steps=accumulation,
            steps_per_generation=accumulation * grpo.updates,
            num_generations=grpo.rollouts,
            max_completion_length=grpo.max_new_tokens,
            temperature=grpo.temperature,
            loss_type="dapo",  # every token counts the same, as in verl, which AgenTracer trained with
            beta=grpo.kl,
            epsilon=grpo.clip,
        )
        grpo_trainer = GRPOTrainer(
            model,
            reward_funcs=[reward_function(grpo, tokenizer)],
            args=args,
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer,
            callbacks=[ledger, *([tightening] if grpo.is_tightening else [])],
        )
        tightening.trainer = grpo_trainer
        return grpo_trainer

    trained = _train(trainer, grpo.device_replies, out / "grpo")
    first, last = ledger.ends("reward")
    constant = [row["frac_reward_zero_std"] for row in ledger.rows if "frac_reward_zero_std" in row]
    chances = [
        chance_of_step(example.decisions, example.step, sigma=grpo.sigma, step_weight=grpo.step_weight)
        for example, rendered in shown
        if rendered is not None and example.step is not None
    ]
    return trained, StageFigures(
        "grpo",
        trained.state.global_step,
        first,
        last,
        chance=sum(chances) / len(chances) if chances else float("nan"),
        constant=100 * sum(constant) / len(constant) if constant else float("nan"),
        left_out=len(shown) - len(rows),
    )


def reward_function(grpo: Grpo, tokenizer: Tokenizer) -> Callable[..., list[float]]:
    """Make the reward as TRL calls it: by tokens, since its texts come without what a tokenizer holds special."""

    def reward(completion_ids: list[list[int]], label: list[str], opens_thought: list[bool], **_: Any) -> list[float]:
        return [
            _earn(grpo, reply_of(tokenizer, tokens, opens_thought=is_open), json.loads(label_text))
            for tokens, label_text, is_open in zip(completion_ids, label, opens_thought, strict=True)
        ]

    reward.__name__ = grpo.reward
    return reward


def reply_of(tokenizer: Tokenizer, tokens: Sequence[int], *, opens_thought: bool) -> str:
    """Read written *tokens* as a whole reply; *opens_thought*: the prompt has opened its thought already."""
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}
    text = str(tokenizer.decode([token for token in tokens if token not in ends], clean_up_tokenization_spaces=False))
    return f"{OPEN}{text}" if opens_thought else text


def _earn(grpo: Grpo, reply: str, label: list[Any]) -> float:
    if grpo.reward == "aegis":
        return aegis_reward(read_pairs(reply), frozenset((agent, code) for agent, code in label))
    agent, step = label
    return step_reward(read_step(reply), StepAnswer(agent, step), sigma=grpo.sigma, step_weight=grpo.step_weight)


def _teach_row(recipe: CausalRecipe, reader: PromptBuilder, example: Example, part: Prompt) -> dict[str, list[int]]:
    """Lay out one run for SFT: tokens, and which of them are learnt from."""
    thought = thought_about(example) if recipe.sft.thought == "label" else ""
    if example.step is not None:
        tokens = reader.taught_step(part, example.step, thought)
    else:
        pairs = list(example.pairs or ())
        random.Random(example.trace.trace_id).shuffle(pairs)  # noqa: S311  # so that the first one named may be any
        tokens = reader.taught_pairs(part, pairs, thought)
    n_asked = len(part.tokens)
    return {"input_ids": tokens, "labels": [-100] * n_asked + tokens[n_asked:]}


def _ask_row(example: Example, messages: list[dict[str, str]], part: Prompt) -> dict[str, Any]:
    label = [example.step.agent, example.step.step] if example.step is not None else list(example.pairs or ())
    return {"prompt": messages, "label": json.dumps(label), "opens_thought": part.opens_thought}


def _common(recipe: CausalRecipe, out: Path) -> dict[str, Any]:
    has_gpu = torch.cuda.is_available()
    return {
        "output_dir": str(out),
        "seed": recipe.seed,
        "bf16": has_gpu,
        "use_cpu": not has_gpu,
        "activation_checkpointing": recipe.checkpointing,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": recipe.save_every,
        "save_total_limit": 1,
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_pin_memory": has_gpu,
    }


def _accumulation(wanted: int, at_once: int, key: str) -> int:
    """Find over how many passes an update is spread."""
    devices = int(os.environ.get("WORLD_SIZE", "1"))
    if wanted % (at_once * devices):
        raise ConfigError(
            f"expected {key}, with its replies, to be a multiple of what {devices} devices read at once "
            f"({at_once * devices}), got {wanted}. Correct the recipe"
        )
    return wanted // (at_once * devices)


def _train(make: Callable[[int], Any], at_once: int, out: Path) -> Any:
    """Train, from the last checkpoint where there is one; after an out-of-memory with half as much at a time."""
    while True:
        try:
            trainer = make(at_once)
            checkpoint = get_last_checkpoint(str(out)) if out.is_dir() else None
            if checkpoint is not None:
                _log.info("going on from %s", checkpoint)
            trainer.remove_callback(PrinterCallback)  # it prints to stdout; ours writes it down
            trainer.train(resume_from_checkpoint=checkpoint)
            return trainer
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            alone = int(os.environ.get("WORLD_SIZE", "1")) == 1
            if at_once == 1 or not alone:
                raise BlamespanError(
                    f"expected training to fit into memory, got out of memory with {at_once} at a time on each device. "
                    "Lower data.context, take a LoRA (lora.rank), set checkpointing = true, or use more devices"
                ) from error
        _log.warning("out of memory with %d at a time: going on with %d", at_once, at_once // 2)
        at_once //= 2
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
