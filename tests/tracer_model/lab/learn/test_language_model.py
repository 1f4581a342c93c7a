"""A language model is taught a team's failures after the small one, and used only where it is measurably better."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import blamespan
from blamespan.errors import BlamespanError, ConfigError, MissingExtra, TracerUnavailable
from blamespan.labels.file import LabelsFile
from blamespan.labels.people import DecisiveStep, PersonLabel
from blamespan.learning import Learnt
from blamespan.tracers import load_tracer
from blamespan_lab.learn import language_model
from blamespan_lab.learn.language_model import compare_models, draw_left_out, make_team_recipe, open_language_model
from blamespan_lab.train import language_model as training
from blamespan_lab.train.language_model import HeldOutFigures, TrainedLanguageModel
from blamespan_lab.train.step_head import Hits
from tests.tracer_model.alternatives.planted import of_models, planted
from tests.tracer_model.lab.buying_team import label_of, trace_of
from tests.tracer_model.schemata.test_command import written

RIGHT, WRONG = Hits(step=True, agent=True), Hits(step=False, agent=False)
TASKS = {f"{number:032x}": f"task {number // 2}" for number in range(12)}


def all_of(hits: Hits) -> dict[str, Hits]:
    return dict.fromkeys(TASKS, hits)


def recorded(folder: Path) -> Path:
    """Write 24 labelled failures of a team whose auditor always errs."""
    traces = [trace_of(number) for number in range(24)]
    for trace in traces:
        LabelsFile(folder / "labels.jsonl").add(label_of(trace))
    return written(folder / "traces.jsonl", *traces)


def learnt_with(
    hits: Hits, small: Hits, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: Exception | None = None
) -> Learnt:
    """Learn recorded runs with a language model that names failures like *hits*, beside one that does like *small*."""

    def train(recipe: Any, data: Path, out: Path, runs: Any, held_out_tasks: Any) -> TrainedLanguageModel:
        del recipe, data
        if trouble is not None:
            raise trouble
        named = {run.trace.trace_id: hits for run in runs if run.trace.task in held_out_tasks}
        figures = HeldOutFigures(len(named), 0.0, 0.0, 0.0, 0.0, 0.0, named)
        return TrainedLanguageModel(out / "adapter", (1.0, 0.1), (0.1, 0.9), 0.2, 0.0, 0, figures, 61.0, math.nan)

    def compare(taught: Mapping[str, Hits], own: Mapping[str, Hits], tasks: Mapping[str, str]) -> Any:
        assert len(own) == 24
        return compare_models(taught, dict.fromkeys(own, small), tasks)

    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setattr(language_model, "open_language_model", lambda name: None)
    monkeypatch.setattr(training, "train_language_model", train)
    monkeypatch.setattr(language_model, "compare_models", compare)
    return blamespan.learn(runs=[recorded(tmp_path)], out=tmp_path / "learnt", model="own/model")


@pytest.mark.parametrize(
    ("taught", "small", "is_better"),
    [
        (all_of(RIGHT), all_of(WRONG), True),
        (all_of(RIGHT), all_of(RIGHT), False),
        (all_of(WRONG), all_of(RIGHT), False),
        (all_of(Hits(step=True, agent=False)), all_of(Hits(step=False, agent=True)), False),
        ({}, all_of(WRONG), False),
        (dict(list(all_of(RIGHT).items())[:2]), all_of(WRONG), False),
        (all_of(RIGHT), dict(list(all_of(WRONG).items())[:7]), False),
    ],
    ids=["all", "alike", "worse", "agents lost", "reads nothing", "two more by chance", "too few"],
)
def test_better_is_measurably_more_steps_and_not_fewer_agents(
    taught: Mapping[str, Hits], small: Mapping[str, Hits], is_better: bool
) -> None:
    """Of failures that both have not learnt; what the language model cannot read, it gets wrong."""
    figures = compare_models(taught, small, TASKS)

    assert figures.is_better == is_better
    assert (figures.n, figures.tasks) == ((12, 6) if len(small) == 12 else (7, 4))


def test_failures_that_were_learnt_are_not_compared() -> None:
    """Those of other tasks count for neither; where none is left, nothing is said."""
    left_out = {key: task for key, task in TASKS.items() if task in ("task 1", "task 2")}

    assert compare_models(all_of(RIGHT), all_of(WRONG), left_out).n == 4
    with pytest.raises(ConfigError, match="expected failures that the small model has measured itself on, got none"):
        compare_models(all_of(RIGHT), all_of(WRONG), {})


def test_tasks_are_left_out_until_enough_failures_are() -> None:
    """A third of many, eight of few, and never more than half of the tasks; same seed, same tasks."""
    many = [f"task {number % 20}" for number in range(60)]

    assert len(draw_left_out(many)) == 6
    assert draw_left_out(many) == draw_left_out(many)
    assert draw_left_out(many) != draw_left_out(many, seed=1)
    assert len(draw_left_out(many[:16])) == 8
    assert len(draw_left_out(many[:6])) == 3
    assert draw_left_out(["one"] * 30) == frozenset()


def test_training_has_a_name_of_its_own_for_what_it_learns(tmp_path: Path) -> None:
    """Same runs go on in the same folder; another label, model or seed begins anew. GRPO answers each failure once."""
    runs = planted(40)
    recipe = make_team_recipe(str(tmp_path), runs)
    other = replace(runs[0], faults=())
    failures = sum(bool(run.faults) for run in runs)

    assert recipe == make_team_recipe(str(tmp_path), runs[::-1])
    assert recipe.base == str(tmp_path.resolve())
    assert recipe.grpo.updates == 2 * math.ceil(failures / recipe.grpo.batch_runs)
    names = {
        recipe.name,
        make_team_recipe(str(tmp_path), [other, *runs[1:]]).name,
        make_team_recipe("own/model", runs).name,
        make_team_recipe(str(tmp_path), runs, seed=1).name,
    }
    assert len(names) == 4


def test_model_that_is_better_is_told_how_to_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the small one, in a line of its own, with intervals, seconds and device."""
    learnt = learnt_with(RIGHT, WRONG, tmp_path, monkeypatch)

    [line] = [line for line in learnt.lines if line.startswith("model ")]
    assert "step 100 % (100 to 100), agent 100 % (100 to 100) on 8 failures of 8 other tasks" in line
    assert re.search(r"the small one 0 % \(0 to 0\), 0 % \(0 to 0\); 61 s on (cpu|cuda)", line)
    assert "better, so use it: BLAMESPAN_LANGUAGE_MODEL_ADAPTER=" in line
    assert json.loads(json.dumps(learnt.figures))["model"]["is_better"] is True


def test_model_that_is_no_better_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The small one is, and the line says so; where the adapter lies is said too."""
    learnt = learnt_with(RIGHT, RIGHT, tmp_path, monkeypatch)

    [line] = [line for line in learnt.lines if line.startswith("model ")]
    assert "not measurably better, so it is not used; its adapter is in " in line
    assert "BLAMESPAN_LANGUAGE_MODEL_ADAPTER" not in line
    assert learnt.figures["model"]["is_better"] is False
    assert learnt.is_used == learnt.figures["steps"]["is_used"]


def test_training_that_fails_costs_the_small_model_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the small one learnt is in use before, and the line says what went wrong."""
    trouble = BlamespanError("expected training to fit into memory, got out of memory. Take a smaller model")
    learnt = learnt_with(RIGHT, WRONG, tmp_path, monkeypatch, trouble)

    assert f"model     {trouble}" in learnt.lines
    assert learnt.figures["model"] is None
    assert learnt.figures["steps"] is not None


def test_no_model_is_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asked for one."""
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    learnt = blamespan.learn(runs=[recorded(tmp_path)], out=tmp_path / "learnt")

    assert not [line for line in learnt.lines if line.startswith("model")]
    assert (learnt.figures["model"], learnt.figures["no_model"]) == (None, "")


@pytest.mark.parametrize("missing", ["transformers", "trl"])
def test_missing_package_is_said_before_a_run_is_spent(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence with the command that installs it; the program is not even imported."""
    found = language_model.require

    def require(package: str, extra: str) -> None:
        if package == missing:
            raise MissingExtra(f"this command needs the package {package!r}. pip install 'blamespan[{extra}]'")
        if package not in ("transformers", "trl", "peft", "accelerate", "datasets"):
            found(package, extra)

    monkeypatch.setattr(language_model, "require", require)
    with pytest.raises(MissingExtra, match=rf"needs the package '{missing}'.*blamespan\[llm\]"):
        blamespan.learn("no_such_team:make", ["Add."], out=tmp_path / "learnt", model="own/model")

    assert not (tmp_path / "learnt").exists()


def test_adapter_is_refused_as_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one would stand on it; the model below is asked for."""
    monkeypatch.setattr(language_model, "require", lambda package, extra: None)
    (tmp_path / "adapter_config.json").write_text("{}")

    with pytest.raises(ConfigError, match="expected a model to teach, got the adapter"):
        open_language_model(str(tmp_path))


@of_models
def test_model_that_cannot_be_loaded_is_said_before_a_run_is_spent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder without a model, and a name where nothing may be fetched: one sentence, and no folder of a campaign."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in (str(tmp_path), "nobody/no-such-model"):
        with pytest.raises(TracerUnavailable, match="expected a causal model of Hugging Face") as refused:
            blamespan.learn("no_such_team:make", ["Add."], out=tmp_path / "learnt", model=name)
        assert "\n" not in str(refused.value)

    assert not (tmp_path / "learnt").exists()


@of_models
def test_tiny_model_is_taught_and_measured(tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SFT, GRPO and figures beside the small one, on planted mistakes; the adapter is a tracer, by its name."""
    monkeypatch.setenv("BLAMESPAN_STORE", str(tmp_path / "runs.db"))
    runs = planted(24)
    path = written(tmp_path / "traces.jsonl", *(run.trace for run in runs))
    for run in runs:
        for fault in run.faults or ():
            assert fault.step is not None
            named = DecisiveStep(fault.agent, fault.step, run.trace.steps[fault.step].span_id, (str(fault.mode),))
            label = PersonLabel(run.trace.trace_id, "corrects", "me", decisive=named)
            LabelsFile(tmp_path / "labels.jsonl").add(label)
    learnt = blamespan.learn(runs=[path], out=tmp_path / "learnt", model=str(tuned / "base"))

    model = learnt.figures["model"]
    assert model is not None, learnt.figures["no_model"]
    assert model["figures"]["n"] >= 8
    assert model["figures"]["tasks"] == model["figures"]["n"]
    monkeypatch.setenv("BLAMESPAN_LANGUAGE_MODEL_ADAPTER", model["adapter"])
    tracer = load_tracer("language-model")
    assert tracer.identity.weights
    [verdict] = tracer.attribute([runs[0].trace])
    assert verdict.tracer.name == "language-model"
