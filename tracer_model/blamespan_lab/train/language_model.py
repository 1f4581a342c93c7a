"""Training of the tracer `language-model`: a LoRA by PEFT, taught by TRL's SFT and then by TRL's GRPO.

    labelled runs -> examples -> SFT on the right answers -> GRPO by AgenTracer's reward -> calibration -> adapter

Trainers, generation and checkpoints are those of TRL and transformers; ours are the examples, the reward (AgenTracer,
arXiv 2509.03312), the tightening clip, and the calibration on tasks held out.
"""

from __future__ import annotations

import json
import logging
import math
import random
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from safetensors import SafetensorError

from blamespan.errors import BlamespanError, ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.plugins import require
from blamespan.taxonomy import canonical
from blamespan.trace import MessageActionTrace
from blamespan.tracers import load_tracer
from blamespan_lab.console import show_progress
from blamespan_lab.make.corpus.storage import read_corpus
from blamespan_lab.recipes import Count, Listed, Number, PositiveCount, PositiveNumber
from blamespan_lab.recorded_runs import is_held_out, read_recorded
from blamespan_lab.statistics import percent
from blamespan_lab.train import LANGUAGE_MODEL_PACKAGES
from blamespan_lab.train.calibrating import SOUND, Pointed, alarm_for, blamed, mass_for, temperature_of
from blamespan_lab.train.step_head import Hits
from blamespan_tracer.abstention import abstention_reason
from blamespan_tracer.alternatives.language_model import (
    MODE_OF,
    NOBODY,
    Calibration,
    LanguageModelTracer,
    Model,
    ModelAnswer,
    Prompts,
    Tokenizer,
    fingerprint,
    is_out_of_memory,
    load_base,
    most_context,
    parse_reply,
    write_question,
    write_reply,
)
from blamespan_tracer.alternatives.rendering import ANSWER_TAGS, RenderedRun, render_run
from blamespan_tracer.numeric import softmax

History: TypeAlias = list[dict[str, Any]]
"""What a trainer logged, one row for each update."""

_MOST_HELD_OUT = 400
"""Runs that calibration and figures are taken from: more cost time and change little."""
_MAX_FALSE_ALARMS, _COVERAGE = 5.0, 90.0
"""Percent of sound held-out runs that may be called failed, and of failures whose step set is to hold the step."""
_UPDATES_PER_GENERATION = 2
"""Over how many updates the replies of one generation are spread: from 2 on the clip matters."""
_VOCABULARY, _WIDTH, _LAYERS = 512, 64, 2
"""Of the model that is built where no base is named: 0.2 million parameters."""
_INIT_RANGE = 0.25
"""Deviation of drawn weights: the adapter leaves the embedding, so this bounds how sure the model can be."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LanguageModelData:
    """What to train on.

    Attributes:
        runs: Folders that `blamespan lab generate` made, without what their recipes hold out, or files of labelled
            runs; relative to the data folder.
        context: Tokens of prompt and reply; runs that do not fit are cut, and left out where that is not enough.
        most_runs: Train on so many, the first by a draw; 0 for all.
        sound_percent: Most runs without a failure, of all; more are left out.
        held_out_percent: Share of the tasks kept aside for calibration and figures.
    """

    runs: Listed[str]
    context: PositiveCount = 4_096
    most_runs: Count = 0
    sound_percent: Count = 30
    held_out_percent: Count = 12


@dataclass(frozen=True, slots=True)
class SftRecipe:
    """Supervised fine-tuning; the learning rate falls by a cosine after a warm-up over a tenth of the updates.

    Attributes:
        epochs: Passes over the runs.
        updates: Instead of so many passes; 0 for the passes.
        learning_rate: At its peak.
        batch_runs: Runs for each update.
        device_runs: Of these, how many are read at a time.
    """

    epochs: PositiveCount = 2
    updates: Count = 0
    learning_rate: PositiveNumber = 1e-4
    batch_runs: PositiveCount = 32
    device_runs: PositiveCount = 1


@dataclass(frozen=True, slots=True)
class GrpoRecipe:
    """Group-relative policy optimisation, with no divergence from where it began, as AgenTracer has it.

    Attributes:
        updates: How many; 0 leaves it out.
        learning_rate: Constant.
        batch_runs: Runs for each generation.
        rollouts: Replies to each of them.
        device_replies: Replies that are read at a time.
        max_new_tokens: Of a reply.
        clip: Bound of the ratio at the beginning; it falls to a fifth in the course of training.
    """

    updates: Count = 300
    learning_rate: PositiveNumber = 5e-6
    batch_runs: PositiveCount = 8
    rollouts: PositiveCount = 8
    device_replies: PositiveCount = 8
    max_new_tokens: PositiveCount = 64
    clip: Number = 0.2


@dataclass(frozen=True, slots=True)
class LanguageModelRecipe:
    """Everything that decides what adapter comes out.

    Attributes:
        name: Names the run directory.
        data: What to train on.
        model: `language-model`: tells these recipes from those of other models.
        seed: Chooses what is held out and every draw.
        base: Folder or Hugging Face id of the model to adapt; empty builds a tiny one.
        rank: Of the adapter, which is on every linear layer.
        checkpointing: Whether activations are computed again rather than kept: slower, and fits.
    """

    name: str
    data: LanguageModelData
    model: str = "language-model"
    seed: Count = 0
    base: str = ""
    rank: PositiveCount = 16
    checkpointing: bool = True
    sft: SftRecipe = field(default_factory=SftRecipe)
    grpo: GrpoRecipe = field(default_factory=GrpoRecipe)

    def __post_init__(self) -> None:
        replies, at_once = self.grpo.batch_runs * self.grpo.rollouts, self.grpo.device_replies * _UPDATES_PER_GENERATION
        for key, whole, part in (
            ("sft.batch_runs", self.sft.batch_runs, self.sft.device_runs),
            ("grpo.batch_runs, with its rollouts,", replies, at_once),
        ):
            if whole % part:
                raise ConfigError(
                    f"{self.name}: expected {key} as a multiple of {part}, got {whole}. Correct the recipe"
                )


@dataclass(frozen=True, slots=True)
class Example:
    """One run to learn from: as it is shown, and the right answer."""

    trace: MessageActionTrace
    run: RenderedRun
    answer: ModelAnswer

    @property
    def answers(self) -> list[ModelAnswer]:
        """What an answer may be: each decision that can be blamed, in order, then nobody."""
        return [*(ModelAnswer(decision.agent, decision.step) for decision in self.run.decisions), NOBODY]

    @property
    def label(self) -> int:
        """Index of the right one among the decisions that can be blamed, or `SOUND`."""
        if self.answer == NOBODY:
            return SOUND
        return [decision.step for decision in self.run.decisions].index(self.answer.step)


@dataclass(frozen=True, slots=True)
class HeldOutFigures:
    """Figures on held-out failures, in percent; calibration saw the same runs, which flatters.

    Attributes:
        n: How many.
        step: Whose decisive step is named.
        agent: Whose agent is named.
        chance: Whose step an even draw from the decisions names.
        auto_step: Whose step the default tracer names.
        auto_agent: Likewise its agent.
        named: Of each of them, by trace id, whether its step and its agent are named.
    """

    n: int
    step: float
    agent: float
    chance: float
    auto_step: float
    auto_agent: float
    named: Mapping[str, Hits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TrainedLanguageModel:
    """What training made, and how it went.

    Attributes:
        adapter: Folder of the adapter.
        loss: Of SFT: the mean of the first and of the last fifth of its updates.
        reward: Of GRPO, likewise; NaN where it was left out.
        reward_of_chance: Mean reward of an even draw from the possible answers.
        constant_groups: Share of GRPO's groups whose replies all earned the same, which teach nothing.
        left_out: Runs that did not fit into the context.
        held_out: How it does on held-out tasks.
        wall_s: Seconds it took.
        gpu_gib: Most memory of the GPU that it held; NaN without one.
    """

    adapter: Path
    loss: tuple[float, float]
    reward: tuple[float, float]
    reward_of_chance: float
    constant_groups: float
    left_out: int
    held_out: HeldOutFigures
    wall_s: float
    gpu_gib: float


def reward_answer(answer: ModelAnswer | None, label: ModelAnswer) -> float:
    """Return AgenTracer's reward: 1[format] (0.5 exp(-(t - t*)^2 / 2) + 0.5 [i = i*]), from 0 to 1.

    The kind of error earns nothing, as published. One case is ours, as the paper knows no sound runs: where the label
    or the answer is nobody, only the same answer earns anything.

    Args:
        answer: None where the reply is not in the format; steps are merged decisions.
        label: Who decided the failure.
    """
    if answer is None:
        return 0.0
    if NOBODY.numbers in (answer.numbers, label.numbers):
        return float(answer.numbers == label.numbers)
    return 0.5 * math.exp(-((answer.step - label.step) ** 2) / 2) + 0.5 * (answer.agent == label.agent)


def bound_clip(update: int, updates: int, first: float) -> float:
    """Return the bound of GRPO's ratio at an update, which tightens as AgenTracer's: max(0.2 B0, B0 (1 - s / S))."""
    return max(0.2 * first, first * (1 - update / updates))


def train_language_model(
    recipe: LanguageModelRecipe,
    data: Path,
    out: Path,
    runs: Iterable[RecordedRun] | None = None,
    held_out_tasks: Set[str] | None = None,
) -> TrainedLanguageModel:
    """Train an adapter by *recipe*; leave recipe, metrics, checkpoints and `adapter/` in *out*.

    Stopped and started again with the same *out*, it goes on from its last checkpoint.

    Args:
        recipe: How.
        data: Folder that holds what the recipe names.
        out: Run directory: new, empty, or of the same recipe.
        runs: Labelled runs to train on instead of those that the recipe names.
        held_out_tasks: Kept aside instead of a share of the tasks by the recipe.

    Raises:
        MissingExtra: if a package of `blamespan[llm]` is not installed.
        ConfigError: if the data is missing or too small, or *out* holds another recipe's run.
        TracerUnavailable: if the base cannot be loaded.
        BlamespanError: if it does not fit into memory, or onto the disk.
    """
    for package in LANGUAGE_MODEL_PACKAGES:
        require(package, "llm")
    from transformers.utils import logging as hf_logging

    hf_logging.disable_progress_bar()
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # of TRL's calls, not the user's
    start_s = time.perf_counter()
    _claim(out, recipe)
    examples = collect_examples(_read_runs(recipe, data) if runs is None else runs)
    fitted, held_out = _split(recipe, examples, held_out_tasks)
    base = recipe.base or _build(recipe, fitted, out / "base")
    model, tokenizer = load_base(base, dtype=None if torch.cuda.is_available() else torch.float32)
    context = min(recipe.data.context, most_context(model))
    prompts = Prompts(tokenizer, context)
    calibration = Calibration(context, base=fingerprint(model))
    asked = []
    for example in fitted:
        excerpts, _ = prompts.excerpts(example.run)
        if len(excerpts) == 1:
            asked.append((example, prompts.ask(excerpts[0].text)))
    if not asked:
        raise ConfigError(f"expected runs within {context} tokens, got none. Raise data.context")
    model = _add_lora(model, recipe, base)
    histories = {}
    try:
        model, histories["sft"] = _run_sft(recipe, model, tokenizer, prompts, asked, out / "sft")
        if recipe.grpo.updates:
            model, histories["grpo"] = _run_grpo(recipe, model, tokenizer, asked, out / "grpo")
        adapter = out / "adapter"
        model.save_pretrained(str(adapter))
    except (OSError, RuntimeError, MemoryError, SafetensorError) as error:
        if is_out_of_memory(error):
            raise BlamespanError(
                "expected training to fit into memory, got out of memory. Take a smaller model, lower data.context, "
                "sft.device_runs or grpo.device_replies, or set checkpointing = true"
            ) from error
        if isinstance(error, RuntimeError) and "inline_container" not in str(error):  # where torch.save is at work
            raise
        raise BlamespanError(
            f"expected checkpoints that can be written in {str(out)!r}, got {str(error)[:200]}. Make room "
            "and run the same command again: it goes on from the last one"
        ) from error
    tracer = LanguageModelTracer(model.merge_and_unload().eval(), tokenizer, calibration)
    figures = _calibrate(tracer, calibration, held_out[:_MOST_HELD_OUT], adapter)
    rows = [{"stage": stage, **row} for stage, history in histories.items() for row in history]
    (out / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return TrainedLanguageModel(
        adapter=adapter,
        loss=_ends(histories["sft"], "loss"),
        reward=_ends(histories.get("grpo", []), "reward"),
        reward_of_chance=sum(_reward_of_chance(example) for example, _ in asked) / len(asked),
        constant_groups=_mean([row["frac_reward_zero_std"] for row in rows if "frac_reward_zero_std" in row]),
        left_out=len(fitted) - len(asked),
        held_out=figures,
        wall_s=time.perf_counter() - start_s,
        gpu_gib=torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else math.nan,
    )


def _claim(out: Path, recipe: LanguageModelRecipe) -> None:
    """Take *out* over, for this recipe alone."""
    path, content = out / "recipe.json", json.loads(json.dumps(asdict(recipe)))
    try:
        if path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("recipe") != content:
            raise ConfigError(
                f"expected --out to be new, empty or a run of this recipe, got {str(out)!r} with another. Name another"
            )
        out.mkdir(parents=True, exist_ok=True)
        versions = {name: version(name) for name in (*LANGUAGE_MODEL_PACKAGES, "blamespan")}
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps({"recipe": content, "versions": versions}, indent=1) + "\n", encoding="utf-8")
        fresh.replace(path)
    except ConfigError:
        raise
    except (OSError, ValueError) as error:
        raise ConfigError(f"expected --out as a folder that can be written, got {error}. Name another") from error


def _read_runs(recipe: LanguageModelRecipe, data: Path) -> Iterator[RecordedRun]:
    for name in recipe.data.runs:
        path = data / name
        yield from show_progress(
            read_corpus(path, "train") if path.is_dir() else read_recorded(path), f"reading {name}"
        )


def collect_examples(runs: Iterable[RecordedRun]) -> Iterator[Example]:
    """Yield what can be learnt from: runs whose label names a step that somebody decided, or nobody."""
    for run in runs:
        if run.faults is None or abstention_reason(run.trace) is not None:
            continue
        shown = render_run(run.trace)
        step = run.origin.decisive if run.origin is not None else next((fault.step for fault in run.faults), None)
        if step is None and run.trace.outcome == "succeeded":
            yield Example(run.trace, shown, NOBODY)
        for decision in shown.decisions:
            if step in shown.origins[decision.step]:
                modes = [canonical(fault.mode)[0] for fault in run.faults if fault.step == step and fault.mode]
                codes = [mode.code for mode in modes if mode is not None and mode.code in MODE_OF]
                yield Example(run.trace, shown, ModelAnswer(decision.agent, decision.step, codes[0] if codes else None))


def _split(
    recipe: LanguageModelRecipe, examples: Iterable[Example], held_out_tasks: Set[str] | None
) -> tuple[list[Example], list[Example]]:
    """Split by task into examples to fit on, in a drawn order and with few sound ones, and held-out ones."""
    data = recipe.data
    sides: tuple[list[Example], list[Example]] = ([], [])
    for example in examples:
        task = example.trace.task
        is_aside = (
            is_held_out(task, percent=data.held_out_percent, seed=recipe.seed + 1)
            if held_out_tasks is None
            else task in held_out_tasks
        )
        sides[is_aside].append(example)
    failed = [sum(example.answer != NOBODY for example in side) for side in sides]
    if not all(failed):
        raise ConfigError(
            f"expected failed runs of enough tasks to hold some of them out, got {failed[0]} to fit on and {failed[1]} "
            "held out. Give more runs of more tasks"
        )
    random.Random(recipe.seed).shuffle(sides[0])  # noqa: S311  # a draw, no secret
    n_sound = failed[0] * data.sound_percent // max(100 - data.sound_percent, 1)
    sound = [index for index, example in enumerate(sides[0]) if example.answer == NOBODY]
    left_out = set(sound[n_sound:])
    fitted = [example for index, example in enumerate(sides[0]) if index not in left_out]
    _log.info("%d runs to fit on, %d held out by task", len(fitted), len(sides[1]))
    return fitted[: data.most_runs or None], sides[1]


def _build(recipe: LanguageModelRecipe, examples: Sequence[Example], folder: Path) -> str:
    """Build a Qwen3 with drawn weights and a byte-level BPE, digits one by one; return where they lie."""
    from tokenizers import AddedToken, decoders, models, pre_tokenizers
    from tokenizers import Tokenizer as Bpe
    from tokenizers.trainers import BpeTrainer
    from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

    bpe = Bpe(models.BPE())
    digits = pre_tokenizers.Digits(individual_digits=True)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    bpe.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=_VOCABULARY - len(ANSWER_TAGS),
        special_tokens=["<pad>", "<end>"],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    bpe.train_from_iterator((write_question(example.run.text(), is_brief=True) for example in examples), trainer)
    bpe.add_tokens([AddedToken(tag, special=False, normalized=False) for tag in ANSWER_TAGS])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        pad_token="<pad>",  # noqa: S106  # a token of a vocabulary, no secret
        eos_token="<end>",  # noqa: S106
        clean_up_tokenization_spaces=False,
    )
    torch.manual_seed(recipe.seed)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=_WIDTH,
            intermediate_size=3 * _WIDTH,
            num_hidden_layers=_LAYERS,
            num_attention_heads=_WIDTH // 32,
            num_key_value_heads=1,
            head_dim=32,
            initializer_range=_INIT_RANGE,
            max_position_embeddings=recipe.data.context,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
            bos_token_id=None,
        )
    )
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder.resolve())


def _add_lora(model: Model, recipe: LanguageModelRecipe, base: str) -> Model:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(recipe.seed)
    config = LoraConfig(
        r=recipe.rank,
        lora_alpha=2 * recipe.rank,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
        base_model_name_or_path=base,
    )
    return get_peft_model(model, config)


def _run_sft(
    recipe: LanguageModelRecipe,
    model: Model,
    tokenizer: Tokenizer,
    prompts: Prompts,
    asked: Sequence[tuple[Example, str]],
    out: Path,
) -> tuple[Model, History]:
    """Teach *model* to write the right answers after the prompts; only the reply is learnt from."""
    from datasets import Dataset
    from trl import SFTConfig, SFTTrainer

    rows = []
    for example, prompt in asked:
        question, reply = prompts.tokenize(prompt), prompts.tokenize(*write_reply(example.answer))
        reply.append(int(tokenizer.eos_token_id))
        rows.append({"input_ids": question + reply, "labels": [-100] * len(question) + reply})
    sft = recipe.sft
    args = SFTConfig(
        **_common_arguments(recipe, out),
        num_train_epochs=sft.epochs,
        max_steps=sft.updates or -1,
        learning_rate=sft.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,  # of all
        per_device_train_batch_size=sft.device_runs,
        gradient_accumulation_steps=sft.batch_runs // sft.device_runs,
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
    )
    return _train(SFTTrainer(model, args, train_dataset=Dataset.from_list(rows), processing_class=tokenizer))


def _run_grpo(
    recipe: LanguageModelRecipe, model: Model, tokenizer: Tokenizer, asked: Sequence[tuple[Example, str]], out: Path
) -> tuple[Model, History]:
    """Let *model* answer freely, and reward what it writes."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    class TightenClip(TrainerCallback):  # type: ignore[misc]  # transformers' types say nothing
        """Tightens the clip before every update."""

        def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            """Set the bound of this update."""
            trainer.epsilon_low = trainer.epsilon_high = bound_clip(state.global_step, state.max_steps, grpo.clip)

    # TRL cuts a prompt into tokens with what the tokenizer adds: a beginning that the template has written, too.
    begin = str(tokenizer.bos_token or "") if tokenizer("")["input_ids"] else ""
    rows = [
        {"prompt": prompt.removeprefix(begin), "agent": example.answer.agent, "step": example.answer.step}
        for example, prompt in asked
    ]
    grpo = recipe.grpo
    accumulation = grpo.batch_runs * grpo.rollouts // (grpo.device_replies * _UPDATES_PER_GENERATION)
    args = GRPOConfig(
        **_common_arguments(recipe, out),
        max_steps=grpo.updates,
        learning_rate=grpo.learning_rate,
        lr_scheduler_type="constant",
        per_device_train_batch_size=grpo.device_replies,
        gradient_accumulation_steps=accumulation,
        steps_per_generation=accumulation * _UPDATES_PER_GENERATION,
        num_generations=grpo.rollouts,
        max_completion_length=grpo.max_new_tokens,
        temperature=1.0,
        loss_type="dapo",  # every token counts the same, as in verl, which AgenTracer trained with
        beta=0.0,
        epsilon=grpo.clip,
    )
    trainer = GRPOTrainer(
        model,
        reward_funcs=[make_reward_function(tokenizer)],
        args=args,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        callbacks=[TightenClip()],
    )
    return _train(trainer)


def make_reward_function(tokenizer: Tokenizer) -> Callable[..., list[float]]:
    """Return `reward_answer` as TRL calls it: by tokens, as its texts come without what a tokenizer holds special."""
    ends = {tokenizer.eos_token_id, tokenizer.pad_token_id}

    def reward(completion_ids: list[list[int]], agent: list[int], step: list[int], **_: Any) -> list[float]:
        replies = [
            tokenizer.decode([token for token in tokens if token not in ends], clean_up_tokenization_spaces=False)
            for tokens in completion_ids
        ]
        labels = [ModelAnswer(*numbers) for numbers in zip(agent, step, strict=True)]
        return [reward_answer(parse_reply(reply), label) for reply, label in zip(replies, labels, strict=True)]

    return reward


def _common_arguments(recipe: LanguageModelRecipe, out: Path) -> dict[str, Any]:
    has_gpu = torch.cuda.is_available()
    return {
        "output_dir": str(out),
        "seed": recipe.seed,
        "bf16": has_gpu,
        "use_cpu": not has_gpu,
        "activation_checkpointing": recipe.checkpointing,
        "logging_steps": 1,
        "save_strategy": "steps",
        "save_steps": 50,
        "save_total_limit": 1,
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_pin_memory": has_gpu,
    }


def _train(trainer: Any) -> tuple[Model, History]:
    """Train, from the last checkpoint where there is one; return the model and what was logged, that before it too."""
    from transformers import PrinterCallback

    checkpoint, state = _find_checkpoint(Path(trainer.args.output_dir))
    if state is not None and state.global_step >= state.max_steps:  # going on would make one update more
        trainer._load_from_checkpoint(checkpoint)
    else:
        trainer.remove_callback(PrinterCallback)  # it prints to stdout
        trainer.train(resume_from_checkpoint=checkpoint)
        state = trainer.state
    return trainer.model, [row for row in state.log_history if "train_runtime" not in row]


def _find_checkpoint(out: Path) -> tuple[str | None, Any]:
    """Return the last checkpoint with its state, which is written last; one that a crash cut off is removed."""
    from transformers import TrainerState

    checkpoints = sorted(out.glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]), reverse=True)
    for checkpoint in checkpoints:
        try:
            return str(checkpoint), TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
        except (OSError, ValueError, TypeError):
            shutil.rmtree(checkpoint)
    return None, None


def _calibrate(
    tracer: LanguageModelTracer, calibration: Calibration, examples: Sequence[Example], adapter: Path
) -> HeldOutFigures:
    """Fit what makes the probabilities mean what they say on held-out runs, save it with the adapter, and measure."""
    scored = [(example, tracer.score(example.trace)) for example in show_progress(examples, "held-out runs")]
    known = [(example, each.scores) for example, each in scored if not isinstance(each, str)]
    pointed = [Pointed(scores, example.label) for example, scores in known]
    temperature = temperature_of(pointed)
    replace(
        calibration,
        temperature=temperature,
        set_mass=mass_for(pointed, temperature, _COVERAGE),
        alarm=alarm_for(pointed, temperature, _MAX_FALSE_ALARMS),
    ).save(adapter)
    failed = [(example, scores) for example, scores in known if example.answer != NOBODY]
    steps, agents = [], []
    for example, scores in failed:
        numbers = np.array([decision.agent for decision in example.run.decisions])
        agent, index = blamed(numbers, softmax(scores[:-1]))
        steps.append(index == example.label)
        agents.append(agent == example.answer.agent)
    auto_steps, auto_agents = [], []
    verdicts = load_tracer().attribute([example.trace for example, _ in failed])
    for (example, _), verdict in zip(failed, verdicts, strict=True):
        auto_steps.append(verdict.decisive_step in example.run.origins[example.answer.step])
        name = example.run.names[example.answer.agent - 1]
        auto_agents.append(bool(verdict.agents) and verdict.agents[0].agent == name)
    return HeldOutFigures(
        n=len(failed),
        step=percent(steps),
        agent=percent(agents),
        chance=100 * _mean([1 / len(example.run.decisions) for example, _ in failed]),
        auto_step=percent(auto_steps),
        auto_agent=percent(auto_agents),
        named={
            example.trace.trace_id: Hits(step, agent)
            for (example, _), step, agent in zip(failed, steps, agents, strict=True)
        },
    )


def _reward_of_chance(example: Example) -> float:
    """Return the mean reward of an answer drawn evenly from the possible ones."""
    return _mean([reward_answer(answer, example.answer) for answer in example.answers])


def _ends(history: History, key: str) -> tuple[float, float]:
    """Return the mean of *key* over the first and over the last fifth of the updates; NaN where there is none."""
    values = [row[key] for row in history if key in row]
    some = max(len(values) // 5, 1)
    return _mean(values[:some]), _mean(values[-some:])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
