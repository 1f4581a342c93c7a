"""Runs whose first mistake is labelled teach the network where it was, and nothing of what came after."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from blamespan.errors import ConfigError
from blamespan_lab.train.network.examples import SOUND
from blamespan_lab.train.network.recipe import NetworkData, NetworkRecipe, NetworkSize, Schedule
from blamespan_lab.train.network.training import train_network
from blamespan_lab.train.network.training_data import mistake_examples
from blamespan_tracer.alternatives.lexical import LexicalTracer
from tests.tracer_model.alternatives.network.networks import VOCABULARY

LEXICON = LexicalTracer.bundled().lexicon


def reasoning(number: int) -> dict[str, Any]:
    """Five lines of sums; in two of three runs one of them guesses."""
    rng = Random(number)
    steps = [f"The {rng.choice('abcdefgh')} part holds {rng.randrange(90)} units." for _ in range(5)]
    wrong = rng.randrange(5) if number % 3 else None
    if wrong is not None:
        steps[wrong] = "I will just guess a figure instead of adding, probably around seven."
    answer = "right" if wrong is None else "wrong"
    return {
        "input": f"Add up store {number}.",
        "steps": steps,
        "target": "right",
        "answer": answer,
        "mistake_index": wrong,
    }


def write(path: Path, numbers: range, **changed: Any) -> Path:
    path.write_text("".join(f"{json.dumps({**reasoning(number), **changed})}\n" for number in numbers))
    return path


def test_nobody_knows_of_what_follows_the_first_mistake(tmp_path: Path) -> None:
    """Before it nothing is wrong, it is, and behind it nothing is known; it has no mode to learn."""
    path = write(tmp_path / "one.jsonl", range(1, 2))

    (example,) = mistake_examples([path], LEXICON, VOCABULARY, most=0, seed=0)

    wrong = reasoning(1)["mistake_index"]
    expected = [0.0 if step < wrong else 1.0 if step == wrong else np.nan for step in range(5)]
    assert example.decisive == wrong
    assert np.array_equal(example.fault, np.array(expected, np.float32), equal_nan=True)
    assert not example.modes.any()
    assert example.group == "Add up store 1."


def test_sound_runs_are_sound_in_every_step(tmp_path: Path) -> None:
    """A run that is labelled as free of errors teaches that no step is wrong."""
    path = write(tmp_path / "some.jsonl", range(6))

    sound = [each for each in mistake_examples([path], LEXICON, VOCABULARY, most=0, seed=0) if each.decisive == SOUND]

    assert len(sound) == 2
    assert not any(each.fault.any() for each in sound)


def test_as_many_are_drawn_as_asked_from_all_files_together(tmp_path: Path) -> None:
    """The same seed draws the same runs, another one others; 0 is all of them."""
    paths = [write(tmp_path / f"{start}.jsonl", range(start, start + 30)) for start in (0, 30)]

    def drawn(most: int, seed: int) -> list[str]:
        return [each.group for each in mistake_examples(paths, LEXICON, VOCABULARY, most=most, seed=seed)]

    assert len(drawn(0, 0)) == len(drawn(99, 0)) == 60
    assert len(drawn(12, 0)) == 12
    assert drawn(12, 0) == drawn(12, 0) != drawn(12, 1)
    assert {int(group.split()[3][:-1]) // 30 for group in drawn(12, 0)} == {0, 1}


def test_runs_that_name_no_step_are_left_out(tmp_path: Path) -> None:
    """A wrong answer without a labelled mistake says that something is wrong, and not where."""
    path = write(tmp_path / "some.jsonl", range(6))
    with path.open("a") as file:
        file.write(json.dumps({**reasoning(7), "mistake_index": None}))

    assert len(mistake_examples([path], LEXICON, VOCABULARY, most=0, seed=0)) == 6


def test_file_without_labelled_steps_is_refused(tmp_path: Path) -> None:
    """Each file must hold some, or a wrong name in a recipe would go unnoticed."""
    good = write(tmp_path / "good.jsonl", range(6))
    sound = write(tmp_path / "sound.jsonl", range(6), mistake_index=None, answer="right")

    with pytest.raises(ConfigError, match=r"runs with a labelled step in '.*sound\.jsonl', got none"):
        mistake_examples([good, sound], LEXICON, VOCABULARY, most=0, seed=0)
    with pytest.raises(ConfigError, match=r"none\.jsonl"):
        mistake_examples([tmp_path / "none.jsonl"], LEXICON, VOCABULARY, most=0, seed=0)


def test_training_measures_mistakes_of_tasks_it_has_not_seen(tmp_path: Path) -> None:
    """They are learnt from and held out by task as others are; a mode is not measured where no label names one."""
    write(tmp_path / "known.jsonl", range(40))
    write(tmp_path / "mistakes.jsonl", range(100, 300))
    recipe = NetworkRecipe(
        "tiny",
        data=NetworkData(corpora=(), outcomes=("known.jsonl",), mistakes=("mistakes.jsonl",), held_out_percent=20),
        size=NetworkSize(bag_width=8, sentence_width=8, width=16, n_heads=2, n_layers=1),
        schedule=Schedule(epochs=12, rate=5e-3, most_runs=16),
    )

    trained = train_network(recipe, tmp_path, tmp_path / "out")

    found = trained.held_out.reasoning
    assert found is not None
    assert found.n + found.sound == pytest.approx(40, abs=15)
    assert found.step >= 80
    assert found.mode is None
    metrics = json.loads((tmp_path / "out" / "metrics.jsonl").read_text())
    assert (metrics["reasoning"]["n"], metrics["reasoning"]["mode"]) == (found.n, None)
    assert json.loads((tmp_path / "out" / "recipe.json").read_text())["data"]["mistakes"] == ["mistakes.jsonl"]
