"""Train the contrastive model: runs, encoder, transformers' `Trainer`, weights; and read it back."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer as BareTokenizer
from tokenizers import models as pieces
from tokenizers import normalizers, pre_tokenizers, processors
from tokenizers.trainers import WordPieceTrainer
from torch.utils.data import Dataset
from transformers import (
    AutoModel,
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)
from transformers.trainer_callback import PrinterCallback
from transformers.trainer_utils import get_last_checkpoint

from blamespan.errors import ConfigError, TracerUnavailable
from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import AEGIS
from blamespan_lab.console import show_progress
from blamespan_lab.corpus.storage import read_corpus
from blamespan_lab.language_model.contrastive.labelled_turns import read_labelled_turns
from blamespan_lab.language_model.contrastive.recipe import ContrastiveRecipe, TinyEncoder
from blamespan_lab.language_model.stages import METRICS, TrainingLog
from blamespan_lab.recorded_runs import is_held_out, read_runs
from blamespan_lab.statistics import f1
from blamespan_tracer.causal.contrastive.loading import ABOUT_FILE, FORMAT, WEIGHTS_FILE
from blamespan_tracer.causal.contrastive.model import ContrastiveModel, LossWeights
from blamespan_tracer.causal.contrastive.turns import CODES, TurnRun, collate
from blamespan_tracer.causal.loading import Tokenizer, load_tokenizer

__all__ = ["ContrastiveFigures", "TrainedEncoder", "train_contrastive", "train_contrastive_on"]

_LOG_EVERY = 5
_THRESHOLDS = [step / 50 for step in range(1, 50)]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ContrastiveFigures:
    """Micro-F1 on held-out tasks, percent; the threshold was chosen on the same runs, which flatters.

    `guess` is what naming every agent with the commonest error gets of pairs.
    """

    n: int
    pair: float
    agent: float
    mode: float
    guess: float
    threshold: float


@dataclass(frozen=True, slots=True)
class TrainedEncoder:
    """What training made, and how the loss went: means of the first and of the last fifth."""

    folder: Path
    first_loss: float
    last_loss: float
    held_out: ContrastiveFigures


def train_contrastive(recipe: ContrastiveRecipe, data: Path, out: Path) -> TrainedEncoder:
    """Train by *recipe* on the runs under *data*; leave recipe, metrics and weights in *out*.

    Raises:
        ConfigError: if the data is missing or too small to hold anything out.
        TracerUnavailable: if the encoder cannot be loaded.
    """
    runs = list(read_labelled_turns(_read(recipe, data), recipe.data.most_turns))
    percent, seed = recipe.data.held_out_percent, recipe.seed + 1
    held_out = [run for run in runs if is_held_out(run.task, percent=percent, seed=seed)]
    fitted = [run for run in runs if not is_held_out(run.task, percent=percent, seed=seed)]
    if not fitted or not held_out:
        raise ConfigError(
            f"expected failed runs with modes of AEGIS, of enough tasks to hold {percent} % of them out, got "
            f"{len(fitted)} to fit on and {len(held_out)} held out. Give more data, or change data.held_out_percent"
        )
    return train_contrastive_on(fitted, held_out, recipe, out)


def train_contrastive_on(
    fitted: Sequence[TurnRun], held_out: Sequence[TurnRun], recipe: ContrastiveRecipe, out: Path
) -> TrainedEncoder:
    """Train on runs in memory, *held* ones kept for the threshold and figures."""
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(recipe.seed)
    tokenizer, encoder = _encoder(recipe, fitted)
    model = ContrastiveModel(
        encoder, len(CODES), LossWeights(recipe.train.contrast, recipe.train.hierarchy, recipe.train.temperature)
    )
    definitions = [f"{mode.name}: {mode.definition}" for mode in AEGIS.values()]
    shown = tokenizer(
        definitions, padding=True, truncation=True, max_length=recipe.data.turn_tokens, return_tensors="pt"
    )
    model.begin_at(shown["input_ids"], shown["attention_mask"])
    ledger = TrainingLog("contrastive", out / METRICS)
    trainer = Trainer(
        model,
        _arguments(recipe, out),
        data_collator=lambda runs: collate(runs, tokenizer, recipe.data.turn_tokens),
        train_dataset=_TurnRuns(fitted),
        callbacks=[ledger],
    )
    trainer.remove_callback(PrinterCallback)
    checkpoint = get_last_checkpoint(str(out / "checkpoints")) if (out / "checkpoints").is_dir() else None
    trainer.train(resume_from_checkpoint=checkpoint)
    model = model.cpu().eval()
    figures = _measure(model, tokenizer, held_out, recipe)
    folder = out / "model"
    folder.mkdir(exist_ok=True)
    tokenizer.save_pretrained(folder)
    encoder.config.save_pretrained(folder)
    save_file({name: tensor.contiguous() for name, tensor in model.state_dict().items()}, folder / WEIGHTS_FILE)
    about = {"format": FORMAT, "codes": CODES, "threshold": figures.threshold, "data": asdict(recipe.data)}
    (folder / ABOUT_FILE).write_text(json.dumps(about) + "\n", encoding="utf-8")
    with (out / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"held_out": asdict(figures)}) + "\n")
    return TrainedEncoder(folder, *ledger.ends("loss"), figures)


class _TurnRuns(Dataset[TurnRun]):
    def __init__(self, runs: Sequence[TurnRun]) -> None:
        self._runs = runs

    def __len__(self) -> int:
        return len(self._runs)

    def __getitem__(self, index: int) -> TurnRun:
        return self._runs[index]


def _read(recipe: ContrastiveRecipe, data: Path) -> Iterator[RecordedRun]:
    for name in recipe.data.corpora:
        yield from show_progress(read_corpus(data / name, "train"), f"reading {name}")
    for name in recipe.data.aegis:
        yield from show_progress(read_runs("aegis", data / name), f"reading {name}")


def _arguments(recipe: ContrastiveRecipe, out: Path) -> TrainingArguments:
    has_gpu = torch.cuda.is_available()
    train = recipe.train
    return TrainingArguments(
        output_dir=str(out / "checkpoints"),
        seed=recipe.seed,
        max_steps=train.updates,
        per_device_train_batch_size=train.device_runs,
        gradient_accumulation_steps=train.batch_runs // train.device_runs,
        learning_rate=train.learning_rate,
        weight_decay=train.decay,
        lr_scheduler_type="cosine",
        warmup_steps=0.1,
        bf16=has_gpu,
        use_cpu=not has_gpu,
        logging_steps=_LOG_EVERY,
        save_steps=max(train.updates // 4, 1),
        save_total_limit=1,
        remove_unused_columns=False,
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=has_gpu,
    )


def _encoder(recipe: ContrastiveRecipe, fitted: Sequence[TurnRun]) -> tuple[Tokenizer, Any]:
    """Load the encoder, or build one."""
    if not recipe.base:
        tokenizer = _word_pieces(fitted, recipe.scratch, recipe.data.turn_tokens)
        return tokenizer, BertModel(_tiny(recipe.scratch, len(tokenizer), recipe.data.turn_tokens))
    try:
        return load_tokenizer(recipe.base, is_chat=False), AutoModel.from_pretrained(recipe.base).float()
    except (OSError, ValueError, RuntimeError) as error:
        raise TracerUnavailable(
            f"expected an encoder of Hugging Face in {recipe.base!r}, got: {str(error)[:300]}. Check the recipe's base"
        ) from error


def _tiny(size: TinyEncoder, n_words: int, n_tokens: int) -> BertConfig:
    return BertConfig(
        vocab_size=n_words,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.width,
        max_position_embeddings=n_tokens,
    )


def _word_pieces(runs: Sequence[TurnRun], size: TinyEncoder, n_tokens: int) -> Tokenizer:
    learnt = BareTokenizer(pieces.WordPiece(unk_token="[UNK]"))  # noqa: S106  # a token, no secret
    learnt.normalizer = normalizers.BertNormalizer()
    learnt.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = WordPieceTrainer(vocab_size=size.vocabulary, special_tokens=special, show_progress=False)
    definitions = (f"{mode.name}: {mode.definition}" for mode in AEGIS.values())
    learnt.train_from_iterator(chain(definitions, (turn.text for run in runs for turn in run.turns)), trainer)
    learnt.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, learnt.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=learnt,
        model_max_length=n_tokens,
        pad_token="[PAD]",  # noqa: S106
        unk_token="[UNK]",  # noqa: S106
        cls_token="[CLS]",  # noqa: S106
        sep_token="[SEP]",  # noqa: S106
        model_input_names=["input_ids", "attention_mask"],
    )


@torch.inference_mode()
def _measure(
    model: ContrastiveModel, tokenizer: Tokenizer, held_out: Sequence[TurnRun], recipe: ContrastiveRecipe
) -> ContrastiveFigures:
    labels, chances = [run.pairs for run in held_out], []
    for run in held_out:
        batch = collate([run], tokenizer, recipe.data.turn_tokens)
        turns = model.encode(batch["input_ids"], batch["attention_mask"])
        chances.append(model.guess(turns, batch["of_agent"], batch["of_run"], batch["run_of_agent"]).pairs)

    def answers(threshold: float) -> list[frozenset[tuple[int, int]]]:
        return [frozenset(map(tuple, (table >= threshold).nonzero().tolist())) for table in chances]

    threshold = max(_THRESHOLDS, key=lambda threshold: f1(labels, answers(threshold)).micro_f1)
    answered = answers(threshold)
    counts = [sum((agent, code) in pairs for pairs in labels for agent in range(64)) for code in range(len(CODES))]
    commonest = counts.index(max(counts))
    everybody = [frozenset((agent, commonest) for agent in range(len(run.names))) for run in held_out]
    return ContrastiveFigures(
        n=len(held_out),
        pair=f1(labels, answered).micro_f1,
        agent=f1([{a for a, _ in pairs} for pairs in labels], [{a for a, _ in pairs} for pairs in answered]).micro_f1,
        mode=f1([{m for _, m in pairs} for pairs in labels], [{m for _, m in pairs} for pairs in answered]).micro_f1,
        guess=f1(labels, everybody).micro_f1,
        threshold=threshold,
    )
