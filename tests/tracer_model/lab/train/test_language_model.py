"""Training of language models: the reward is AgenTracer's, labels become answers, and the bundled recipe works."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from click.testing import CliRunner
from safetensors import SafetensorError

from blamespan.cli import cli
from blamespan.errors import BlamespanError, ConfigError
from blamespan.importing.recorded import Fault, Origin, RecordedRun
from blamespan.taxonomy import AEGIS, EXTENSION
from blamespan_lab.recipes import read_recipe
from blamespan_lab.train import RECIPES
from blamespan_lab.train.language_model import (
    LanguageModelData,
    LanguageModelRecipe,
    bound_clip,
    collect_examples,
    make_reward_function,
    reward_answer,
    train_language_model,
)
from blamespan_tracer.alternatives.language_model import (
    NOBODY,
    LanguageModelTracer,
    ModelAnswer,
    load_base,
    write_reply,
)
from tests.tracer_model.alternatives.planted import of_models, planted
from tests.tracer_model.runs import trace

LABEL = ModelAnswer(2, 7, "FM-1.1")


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        (ModelAnswer(2, 7), 1.0),
        (ModelAnswer(2, 7, "FM-3.3"), 1.0),
        (ModelAnswer(1, 7), 0.5),
        (ModelAnswer(2, 8), 0.5 * math.exp(-0.5) + 0.5),
        (ModelAnswer(2, 5), 0.5 * math.exp(-2.0) + 0.5),
        (ModelAnswer(1, 100), 0.0),
        (NOBODY, 0.0),
        (None, 0.0),
    ],
)
def test_reward_is_agentracers(answer: ModelAnswer | None, reward: float) -> None:
    """1[format] (0.5 exp(-(t - t*)^2 / 2) + 0.5 1[i = i*]); the mode earns nothing."""
    assert reward_answer(answer, LABEL) == pytest.approx(reward, abs=1e-12)


def test_sound_run_is_answered_by_nobody_alone() -> None:
    """Where nobody is to blame, blaming earns nothing, near or far."""
    assert [reward_answer(answer, NOBODY) for answer in (NOBODY, ModelAnswer(1, 0), None)] == [1.0, 0.0, 0.0]


def test_clip_tightens_to_a_fifth() -> None:
    """B_s = max(0.2 B_0, B_0 (1 - s / S))."""
    assert [bound_clip(step, 10, 0.2) for step in (0, 5, 8, 9, 10)] == pytest.approx([0.2, 0.1, 0.04, 0.04, 0.04])


def origin(decisive: int | None) -> Origin:
    return Origin("faulty", "f", "t", "autogen", decisive=decisive, is_verified=True)


def test_labels_become_answers() -> None:
    """The decisive step is named by the number it is shown under, with its canonical mode; a sound run by nobody."""
    said = (("user", "go"), ("a", "first"), ("a", "still"), ("b", "wrong"), ("a", "end"))
    failed = trace(*said, roles={"user": "user"})
    sound = replace(failed, outcome="succeeded", trace_id="f" * 32)
    faults = (Fault("b", EXTENSION["X1"], 3), Fault("a", AEGIS["FM-2.1"], 1))
    runs = [
        RecordedRun("x:1", failed, faults, origin(3)),
        RecordedRun("x:2", failed, (Fault("a", AEGIS["FM-2.1"], 2),)),
        RecordedRun("x:3", sound, ()),
        RecordedRun("x:4", failed, (), origin(None)),
        RecordedRun("x:5", failed, (Fault("a", AEGIS["FM-2.1"]),)),
        RecordedRun("x:6", failed, None),
    ]

    examples = list(collect_examples(runs))

    assert [example.answer for example in examples] == [ModelAnswer(3, 2, "X1"), ModelAnswer(2, 1, "FM-1.3"), NOBODY]


def test_recipe_for_a_gpu_is_agentracers_where_it_can_be() -> None:
    """Qwen3-8B, 8 replies a run, no more than 64 tokens of them, and the clip of the paper's first bound."""
    recipe = read_recipe(LanguageModelRecipe, "language-model-8b", RECIPES)

    assert (recipe.base, recipe.grpo.rollouts, recipe.grpo.clip) == ("Qwen/Qwen3-8B", 8, 0.2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("seed = 1", "expected data"),
        ("[data]\nruns = []", "expected data.runs to be a list that is not empty"),
        ('[data]\nruns = ["a"]\n[grpo]\nrolouts = 3', "Did you mean 'grpo.rollouts'"),
        ('[data]\nruns = ["a"]\n[sft]\nbatch_runs = 3\ndevice_runs = 2', "expected sft.batch_runs as a multiple of 2"),
        ('[data]\nruns = ["a"]\n[grpo]\nrollouts = 3', "with its rollouts, as a multiple of 16, got 24"),
    ],
)
def test_wrong_recipe_says_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    """Expected, got; before anything heavy is loaded."""
    path = tmp_path / "mine.toml"
    path.write_text(f'model = "language-model"\n{text}\n')

    with pytest.raises(ConfigError, match=re.escape(says)):
        read_recipe(LanguageModelRecipe, path, RECIPES)


@pytest.mark.parametrize(
    ("text", "asked", "says"),
    [
        ('model = "causal"\n', [], "expected model as one of auto, language-model, lexical, got 'causal'"),
        ('model = "lexical"\n', ["--updates", "2"], "--updates is for recipes of language models"),
    ],
)
def test_train_refuses_what_it_cannot_do(tmp_path: Path, text: str, asked: list[str], says: str) -> None:
    """Recipes of unknown models name those that there are; only language models count updates."""
    path = tmp_path / "mine.toml"
    path.write_text(text)

    done = CliRunner().invoke(cli, ["lab", "train", str(path), "--data", str(tmp_path), *asked])

    assert isinstance(done.exception, ConfigError)
    assert says in str(done.exception)


@of_models
def test_bundled_recipe_teaches_both_stages(tuned: Path) -> None:
    """SFT learns the format, GRPO is rewarded well above chance for free replies, and held-out steps are named."""
    printed = (tuned / "printed.txt").read_text()
    numbers = {
        line[:13].strip(): [float(each) for each in re.findall(r"\d+\.\d+", line)] for line in printed.splitlines()
    }
    stages = [json.loads(line)["stage"] for line in (tuned / "metrics.jsonl").read_text().splitlines()]

    first, last = numbers["SFT"]
    assert last < first / 4
    _, reward, chance = numbers["GRPO"]
    assert reward > chance + 0.2
    step, chance, _ = numbers["held out"]
    assert step > chance + 30
    assert sorted(set(stages)) == ["grpo", "sft"]


@of_models
def test_reward_reads_tokens_with_every_tag(tuned: Path) -> None:
    """What TRL hands over is decoded with the tags, whatever a tokenizer holds special, and without its end."""
    _, tokenizer = load_base(str(tuned / "base"))
    good, bad = "".join(write_reply(LABEL)), "2|7"
    ids = [[*tokenizer(text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id] for text in (good, bad)]

    assert make_reward_function(tokenizer)(completion_ids=ids, agent=[2, 2], step=[7, 7]) == [1.0, 0.0]


@of_models
def test_killed_training_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in GRPO, the same command goes on from its checkpoints; another recipe is refused that folder."""
    recipe = read_recipe(LanguageModelRecipe, "language-model-tiny", RECIPES)
    recipe = replace(recipe, sft=replace(recipe.sft, updates=3), grpo=replace(recipe.grpo, updates=2))
    runs = planted(64)
    real = "blamespan_lab.train.language_model._run_grpo"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(real, stop)
        with pytest.raises(KeyboardInterrupt):
            train_language_model(recipe, tmp_path, tmp_path / "run", runs)
    (checkpoint,) = (tmp_path / "run" / "sft").glob("checkpoint-*")
    written_ns = checkpoint.stat().st_mtime_ns
    (tmp_path / "run" / "grpo" / "checkpoint-1").mkdir(parents=True)  # cut off by a kill: it has no state yet
    trained = train_language_model(recipe, tmp_path, tmp_path / "run", runs)

    assert checkpoint.stat().st_mtime_ns == written_ns
    assert not math.isnan(trained.reward[1])
    assert LanguageModelTracer.load("", str(trained.adapter)).identity.weights
    with pytest.raises(ConfigError, match="expected --out to be new, empty or a run of this recipe"):
        train_language_model(replace(recipe, seed=5), tmp_path, tmp_path / "run", runs)


@of_models
def test_full_disk_ends_training_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch and safetensors each have a word of their own for it; what else goes wrong there is no full disk."""
    recipe = read_recipe(LanguageModelRecipe, "language-model-tiny", RECIPES)
    said = "[enforce fail at inline_container.cc:672] . unexpected pos 576 vs 534"
    for trouble, raised in (
        (RuntimeError(said), BlamespanError),
        (SafetensorError("I/O error: No space left on device"), BlamespanError),
        (RuntimeError("sizes of tensors must match"), RuntimeError),
    ):
        monkeypatch.setattr("blamespan_lab.train.language_model._run_sft", Mock(side_effect=trouble))
        with pytest.raises(raised, match=r"Make room and run the same command again|sizes of tensors"):
            train_language_model(recipe, tmp_path, tmp_path / "run", planted(64))


@of_models
def test_too_few_tasks_are_refused(tmp_path: Path) -> None:
    """Nothing is trained that could not be measured."""
    recipe = LanguageModelRecipe("mine", LanguageModelData(("none",)))

    with pytest.raises(ConfigError, match="expected failed runs of enough tasks to hold some of them out"):
        train_language_model(recipe, tmp_path, tmp_path / "run", planted(1))
