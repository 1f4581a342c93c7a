"""The recipes that come with blamespan, each run: the tiny ones as they are, the large ones on a tiny model."""

from __future__ import annotations

import json
import re
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.tracer_model.causal.marks import OF_MODELS, needs_llm

needs_llm()
pytestmark = OF_MODELS


from blamespan.cli import cli  # noqa: E402
from blamespan_lab.language_model.recipe import CausalRecipe, Grpo, Scratch, Sft, read_causal_recipe  # noqa: E402
from blamespan_lab.language_model.rewards import step_reward  # noqa: E402
from blamespan_lab.language_model.scratch import build_model, build_tokenizer  # noqa: E402
from blamespan_lab.language_model.training import train_causal_on  # noqa: E402
from blamespan_tracer.alternatives.rendering import render_run  # noqa: E402
from blamespan_tracer.causal.contrastive.tracer import ContrastiveTracer  # noqa: E402
from blamespan_tracer.causal.settings import CausalSettings  # noqa: E402
from blamespan_tracer.causal.tracer import CausalTracer  # noqa: E402
from tests.tracer_model.causal.files import write_aegis, write_corpus  # noqa: E402
from tests.tracer_model.causal.planted import examples, planted, recipe, with_drawn_answers  # noqa: E402

HERE = Path(__file__).resolve().parents[3]
RECIPES = HERE / "tracer_model" / "recipes"
SIZE = Scratch(vocabulary=420, width=48, layers=2, heads=2, kv_heads=1, inner_width=128)
LARGE = sorted(path for path in RECIPES.glob("causal-*.toml") if "tiny" not in path.stem)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the tiny recipes name."""
    folder = tmp_path_factory.mktemp("data")
    write_corpus(folder / "small", 240)
    write_corpus(folder / "short", 240)
    write_aegis(folder / "train.jsonl", 240)
    return folder


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Qwen3 in place of the large ones."""
    folder = tmp_path_factory.mktemp("base")
    tokenizer = build_tokenizer((render_run(run.trace).text() for run in planted(60)), SIZE, 1_024)
    tokenizer.save_pretrained(folder)
    build_model(tokenizer, SIZE, 1_024, seed=3).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", ["causal-tiny", "causal-tiny-short", "causal-tiny-pairs", "contrastive-tiny"])
def test_tiny_recipe_runs_from_end_to_end(
    name: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`blamespan train FILE` on files, as people run it; the loss falls, and what it leaves gives verdicts."""
    asked = ["train", str(RECIPES / f"{name}.toml"), "--data", str(data), "--out", str(tmp_path)]
    done = CliRunner().invoke(cli, asked, catch_exceptions=False)

    assert done.exit_code == 0, done.output
    first, last = map(float, re.findall(r"loss +(\S+) to (\S+)", done.stdout)[0])
    assert last < 0.75 * first
    assert ("reward" in done.stdout) == name.startswith("causal")
    [(variable, folder)] = re.findall(r"(BLAMESPAN_\w+)=(\S+)", done.stdout)
    monkeypatch.setenv(variable, folder)
    tracer = ContrastiveTracer if variable == "BLAMESPAN_CONTRASTIVE_MODEL" else CausalTracer
    failed = [run.trace for run in planted(8, seed=9) if run.faults]
    assert [each.abstained for each in tracer.from_environment().attribute(failed)] == [None] * len(failed)


def shrunk(made: CausalRecipe, base: Path) -> CausalRecipe:
    """The same recipe with a tiny model, short texts and two updates; what else it says stays."""
    return replace(
        made,
        base=str(base),
        save_every=1,
        data=replace(made.data, is_brief=True, context=600),
        sft=replace(made.sft, epochs=1, batch_runs=4, device_runs=2),
        grpo=replace(
            made.grpo, steps=2, batch_runs=2, rollouts=4, device_replies=8 // made.grpo.updates, max_new_tokens=24
        ),
    )


@pytest.mark.parametrize("path", LARGE, ids=lambda path: path.stem)
def test_large_recipe_runs_on_a_tiny_model(path: Path, base: Path, tmp_path: Path) -> None:
    """Question, stages, thought, adapter, reward, divergence and clip of each file go together; the result loads."""
    made = shrunk(read_causal_recipe(path), base)

    trained = train_causal_on(examples(made, 16, seed=1), examples(made, 8, seed=2), made, tmp_path)

    assert [stage.stage for stage in trained.stages] == list(made.stages)
    assert all(stage.updates >= 2 for stage in trained.stages)
    assert trained.is_adapter == bool(made.lora.rank)
    place = {"adapter" if trained.is_adapter else "model": str(trained.folder)}
    verdict = CausalTracer.load(CausalSettings(device="cpu", **place)).attribute([planted(1)[0].trace])[0]
    assert verdict.tracer.weights


def test_grpo_raises_the_reward(tmp_path: Path) -> None:
    """After SFT on labels of which half were drawn, GRPO on true ones earns more in its last third than in its first,
    and more than the best answer that is always the same."""
    taught = recipe(scratch=SIZE, sft=Sft(epochs=2, learning_rate=1e-2, batch_runs=8, device_runs=8), stages=("sft",))
    fitted, held = examples(taught, 640, seed=11), examples(taught, 24, seed=2)
    start = train_causal_on(with_drawn_answers(fitted, 0.5, seed=1), held, taught, tmp_path / "sft")
    grpo = Grpo(steps=80, learning_rate=1e-3, batch_runs=8, updates=2, device_replies=32, max_new_tokens=24)
    rewarded = replace(taught, stages=("grpo",), base=str(start.folder), grpo=grpo)
    fitted = examples(rewarded, 640, seed=21)
    train_causal_on(fitted, held, rewarded, tmp_path / "grpo")

    rewards = rewards_in(tmp_path / "grpo")
    third = len(rewards) // 3
    labels = [each.step for each in fitted if each.step is not None]
    same = max(statistics.mean(step_reward(answer, label) for label in labels) for answer in dict.fromkeys(labels))
    assert len(rewards) == 40
    assert statistics.mean(rewards[-third:]) > statistics.mean(rewards[:third]) + 0.05
    assert statistics.mean(rewards[-third:]) > same


def rewards_in(folder: Path) -> list[float]:
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [row["reward"] for row in rows if "reward" in row]


def test_killed_training_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    """After `kill -9` in the middle of GRPO the same command does SFT no more, and GRPO from where it was kept."""
    told = (
        "import sys, torch; torch.set_num_threads(1); from pathlib import Path; "
        "from tests.tracer_model.causal.test_recipe_files import interrupted; interrupted(Path(sys.argv[1]))"
    )
    process = subprocess.Popen([sys.executable, "-W", "ignore", "-c", told, str(tmp_path)], cwd=HERE)
    until_s = time.monotonic() + 600
    while not list((tmp_path / "grpo").glob("checkpoint-*/trainer_state.json")):
        assert process.poll() is None
        assert time.monotonic() < until_s
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    written = (tmp_path / "metrics.jsonl").read_text()
    kept = [json.loads(line) for line in written.splitlines() if line.endswith("}")]

    trained = interrupted(tmp_path)

    sft, grpo = trained.stages
    again = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text()[len(written) :].splitlines()[1:]]
    assert [row for row in again if row.get("stage") == "sft"] == []
    assert min(row["update"] for row in again if row.get("stage") == "grpo") >= 2
    assert (sft.updates, grpo.updates) == (max(row["update"] for row in kept if row["stage"] == "sft"), 12)
    assert sft.last < sft.first  # of the whole, the part before the kill included


def interrupted(out: Path) -> object:
    """Train a little, keeping a checkpoint often."""
    made = recipe(
        scratch=SIZE,
        save_every=2,
        sft=Sft(epochs=1, learning_rate=1e-2, batch_runs=8, device_runs=8),
        grpo=Grpo(steps=12, learning_rate=1e-3, batch_runs=8, updates=2, device_replies=32, max_new_tokens=24),
    )
    return train_causal_on(examples(made, 96, seed=1), examples(made, 8, seed=2), made, out)
