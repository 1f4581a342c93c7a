"""Recipes, settings and labels: read strictly, without transformers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from blamespan.cli import cli
from blamespan.errors import ConfigError, TracerUnavailable
from blamespan.importing.recorded import Fault, Origin, RecordedRun
from blamespan.taxonomy import AEGIS, EXTENSION
from blamespan_lab.language_model.contrastive.recipe import read_contrastive_recipe
from blamespan_lab.language_model.examples import examples_of, thought_about
from blamespan_lab.language_model.recipe import CausalData, read_causal_recipe
from blamespan_lab.toml_records import peek
from blamespan_tracer.causal.prompts import NOBODY, StepAnswer
from blamespan_tracer.causal.settings import FILE, CausalSettings, Learnt
from tests.tracer_model.causal.planted import examples, recipe
from tests.tracer_model.runs import trace

RECIPES = Path(__file__).resolve().parents[3] / "tracer_model" / "recipes"


@pytest.mark.parametrize("path", sorted(RECIPES.glob("causal-*.toml")), ids=lambda path: path.stem)
def test_bundled_recipes_can_be_read_and_divide_evenly(path: Path) -> None:
    """Each is a recipe, and its batches are what its devices read at once, on as many as it says."""
    found = read_causal_recipe(path)
    devices = (
        int(re.findall(r"--num_processes (\d+)", path.read_text())[0]) if "--num_processes" in path.read_text() else 1
    )

    assert found.sft.batch_runs % (found.sft.device_runs * devices) == 0
    replies = found.grpo.batch_runs * found.grpo.rollouts
    assert replies % (found.grpo.device_replies * found.grpo.updates * devices) == 0


@pytest.mark.parametrize("path", sorted(RECIPES.glob("contrastive*.toml")), ids=lambda path: path.stem)
def test_bundled_contrastive_recipes_can_be_read(path: Path) -> None:
    """The same of the encoder's."""
    assert read_contrastive_recipe(path).model == "contrastive" == peek(path, "model")


def test_published_figures_are_those_of_the_recipe() -> None:
    """AgenTracer's recipe is GRPO alone on Qwen3-8B: 32 runs, 8 replies, 1e-6, no KL, half and half, sigma 1."""
    found = read_causal_recipe(RECIPES / "causal-8b.toml")

    grpo = found.grpo
    assert (found.base, found.stages, found.lora.rank) == ("Qwen/Qwen3-8B", ("grpo",), 0)
    assert (grpo.batch_runs, grpo.rollouts, grpo.learning_rate, grpo.kl) == (32, 8, 1e-6, 0.0)
    assert (grpo.reward, grpo.sigma, grpo.step_weight, grpo.is_tightening) == ("agentracer", 1.0, 0.5, True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('stages = ["grpo", "sft"]\n[data]\ncorpora = ["a"]', "expected stages as"),
        ("[data]\nmost_runs = 3", "expected data.corpora or data.aegis"),
        ('[data]\ncorpora = ["a"]\nquestion = "why"', "expected data.question as one of step, pairs, got 'why'"),
        ('[data]\ncorpora = ["a"]\nquestion = "pairs"', "expected grpo.reward as 'aegis' for the question 'pairs'"),
        ('[data]\naegis = ["a"]', "AEGIS labels no steps"),
        ('[data]\ncorpora = ["a"]\n[grpo]\nrolouts = 3', "Did you mean 'grpo.rollouts'"),
        ('[data]\ncorpora = ["a"]\n[grpo]\nsigma = 0', "expected grpo.sigma to be greater than 0, got 0"),
        ('[data]\ncorpora = ["a"]\n[scratch]\nwidth = 100\nheads = 3', "expected scratch.width as an even multiple"),
    ],
)
def test_wrong_recipes_say_what_is_wrong(tmp_path: Path, text: str, says: str) -> None:
    """Expected, got; before anything heavy is loaded."""
    path = tmp_path / "mine.toml"
    path.write_text(f'model = "causal"\n{text}\n')

    with pytest.raises(ConfigError, match=re.escape(says)):
        read_causal_recipe(path)


def test_train_sends_language_models_their_way(tmp_path: Path) -> None:
    """`blamespan train` reads `model`, and a wrong recipe ends in one line."""
    path = tmp_path / "mine.toml"
    path.write_text('model = "causal"\n[data]\nmost_runs = 3\n')

    found = CliRunner().invoke(cli, ["train", str(path), "--data", str(tmp_path)])

    assert isinstance(found.exception, ConfigError)
    assert "data.corpora" in str(found.exception)


@pytest.mark.parametrize(
    "asked", [[str(RECIPES / "lexical.toml")], ["--labels", "mine.jsonl"]], ids=["another recipe", "labels"]
)
def test_updates_are_for_language_models(asked: list[str], tmp_path: Path) -> None:
    """Where nothing counts updates, asking for some is refused before anything is read."""
    found = CliRunner().invoke(cli, ["train", *asked, "--data", str(tmp_path), "--updates", "2"])

    assert isinstance(found.exception, ConfigError)
    assert "--updates is for recipes of language models" in str(found.exception)


def test_settings_come_from_the_environment() -> None:
    """Every variable has its place, and what is not said is left to training."""
    found = CausalSettings.from_environment(
        {
            "BLAMESPAN_CAUSAL_MODEL": " m ",
            "BLAMESPAN_CAUSAL_ADAPTER": "a",
            "BLAMESPAN_CAUSAL_DEVICE": "cpu",
            "BLAMESPAN_CAUSAL_BATCH": "2",
            "BLAMESPAN_CAUSAL_MAX_NEW_TOKENS": "0",
            "BLAMESPAN_CAUSAL_CONTEXT": "4096",
            "BLAMESPAN_CAUSAL_CONSTRAINED": "0",
            "BLAMESPAN_CAUSAL_CONTRACTS": "1",
        }
    )

    assert found == CausalSettings("m", "a", "cpu", 2, 0, 4096, contracts=True, is_constrained=False)
    assert CausalSettings.from_environment({"BLAMESPAN_CAUSAL_MODEL": "m"}) == CausalSettings("m")


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("BATCH", "0", "BLAMESPAN_CAUSAL_BATCH must be a whole number >= 1, got '0'"),
        ("BATCH", "four", "got 'four'"),
        ("CONTEXT", "17", "must be a whole number >= 256"),
        ("MAX_NEW_TOKENS", "-1", "got '-1'"),
        ("CONSTRAINED", "yes", "BLAMESPAN_CAUSAL_CONSTRAINED must be 0 or 1, got 'yes'"),
        ("CONTRACTS", "2", "BLAMESPAN_CAUSAL_CONTRACTS must be 0 or 1, got '2'"),
        ("MODEL", "", "the tracer 'causal' needs a model, got none"),
    ],
)
def test_wrong_settings_name_their_variable(name: str, value: str, says: str) -> None:
    """A wrong variable is refused before a model is loaded."""
    given = {"BLAMESPAN_CAUSAL_MODEL": "m", f"BLAMESPAN_CAUSAL_{name}": value}

    with pytest.raises(ConfigError, match=re.escape(says)):
        CausalSettings.from_environment(given)


def test_what_training_found_out_is_read_again(tmp_path: Path) -> None:
    """All of it, and nothing else; no file means a model that was never trained here."""
    learnt = Learnt(
        "pairs",
        is_brief=True,
        contracts=True,
        thinks=7,
        context=900,
        temperature=1.5,
        set_mass=0.9,
        alarm=0.4,
        base="ab",
    )
    learnt.save(tmp_path)

    assert Learnt.load(tmp_path) == learnt
    assert Learnt.load(tmp_path / "nowhere") == Learnt()
    (tmp_path / FILE).write_text('{"format": "blamespan-causal-0"}')
    with pytest.raises(TracerUnavailable, match="Train it again"):
        Learnt.load(tmp_path)


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
        RecordedRun("x:5", failed, None),
    ]

    found = list(examples_of(runs, recipe()))

    assert [each.step for each in found] == [StepAnswer(3, 2, "X1"), StepAnswer(2, 1, "FM-1.3"), NOBODY]
    assert "Unsupported claim" in thought_about(found[0])
    assert thought_about(found[2]) == "No agent's step made it fail."


def test_pairs_take_aegiss_labels_alone() -> None:
    """Names are matched as elsewhere; other taxonomies and silent agents are left out."""
    faults = (Fault("B", AEGIS["FM-2.1"]), Fault("a", EXTENSION["X1"]), Fault("ghost", AEGIS["FM-1.1"]))
    run = RecordedRun("x:1", trace(("a", "one"), ("b", "two")), faults)

    (found,) = examples_of([run], recipe(data=CausalData(aegis=("x",), question="pairs")))

    assert found.pairs == ((2, "FM-2.1"),)


def test_planted_runs_have_what_the_models_learn() -> None:
    """The proof of the whole rests on these: failed and sound runs, every step and agent."""
    found = examples(recipe(), 200)

    assert {each.step.step for each in found if each.step is not None and not each.is_sound} == {0, 1, 2}
    assert 0.1 < sum(each.is_sound for each in found) / len(found) < 0.3
