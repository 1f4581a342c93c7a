"""Training learns, repeats itself, and refuses what it cannot learn from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from blamespan.errors import ConfigError, UnreadableInput
from blamespan_lab.recorded_runs import is_held_out
from blamespan_lab.statistics import separation
from blamespan_lab.train.lexical import (
    LexicalData,
    LexicalFigures,
    LexicalFit,
    LexicalRecipe,
    fit,
    labelled_runs,
    split,
    stack_rows,
    train_lexical,
    train_on,
)
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.lexicon import Lexicon
from blamespan_tracer.numeric import sigmoid
from tests.tracer_model.runs import SAYS_OF_MODE, labelled, recorded

TINY = LexicalRecipe("tiny", data=LexicalData(min_agents=1), fit=LexicalFit(penalties=(0.01,), iterations=60))


@pytest.fixture(scope="module")
def learnt() -> tuple[Lexicon, LexicalFigures]:
    """What sixty runs taught, and how good it is."""
    return train_on(labelled(60), TINY)


def test_ten_runs_can_be_learnt_by_heart() -> None:
    """With next to no penalty the model tells every labelled pair of ten runs it has seen."""
    runs = recorded(10)
    recipe = replace(TINY, fit=LexicalFit(penalties=(1e-4,), iterations=200))

    lexicon, _ = train_on(list(labelled_runs(runs)), recipe)
    verdicts = LexicalTracer(replace(lexicon, slope=lexicon.slope * 0 + 1, offset=lexicon.offset * 0)).attribute(
        [run.trace for run in runs]
    )

    labels = [run.faults for run in runs]
    found = [(verdict.modes[0].agent.capitalize(), verdict.modes[0].mode) for verdict in verdicts]
    assert found == [(faults[0].agent, faults[0].mode) for faults in labels if faults]


def test_what_was_learnt_holds_on_other_runs(learnt: tuple[Lexicon, LexicalFigures]) -> None:
    """Trained on sixty runs, the guilty agent of new ones is the most blamed, with its kind of error."""
    lexicon, _ = learnt
    fresh = recorded(30, seed=9)

    verdicts = LexicalTracer(lexicon).attribute([run.trace for run in fresh])

    right = [
        run.faults is not None and verdict.agents[0].agent == run.faults[0].agent.lower()
        for run, verdict in zip(fresh, verdicts, strict=True)
    ]
    assert sum(right) >= 27


def test_sound_runs_score_below_failed_ones(learnt: tuple[Lexicon, LexicalFigures]) -> None:
    """Trained on failures alone, the failure score still tells new runs from the same runs gone well."""
    lexicon, held_out = learnt
    failed = [run.trace for run in recorded(30, seed=9)]
    sound = [
        replace(run, steps=tuple(replace(step, content=well(step.content)) for step in run.steps)) for run in failed
    ]

    scores = [verdict.failure_score for verdict in LexicalTracer(lexicon).attribute([*failed, *sound])]

    assert separation(np.array(scores[:30], np.float32), np.array(scores[30:], np.float32)) > 0.95
    assert held_out.failure_separation > 0.95


def well(said: str) -> str:
    """Take the words that make an error out of what was said."""
    for wrong in SAYS_OF_MODE.values():
        said = said.replace(wrong, "all is well")
    return said


@pytest.mark.slow
def test_same_seed_gives_the_same_bits(tmp_path: Path) -> None:
    """Two trainings with one seed write one file; another seed holds out other questions."""
    digests = [train_on(labelled(40), TINY)[0].save(tmp_path / "weights") for _ in range(2)]
    other = train_on(labelled(40), replace(TINY, seed=1))[0].save(tmp_path / "weights")

    assert digests[0] == digests[1]
    assert other != digests[0]


def test_no_question_is_on_both_sides() -> None:
    """Runs of one question stay together, and the share held out is about what was asked for."""
    runs = [*labelled(200), *labelled(200, seed=1)]

    fitted, held = split(runs, percent=20, seed=0)

    assert not {run.question for run in fitted} & {run.question for run in held}
    assert len(fitted) + len(held) == 400
    assert 40 <= len(held) <= 120
    assert is_held_out("a  b", percent=50, seed=0) == is_held_out("a b\n", percent=50, seed=0)


def test_fit_finds_the_minimum() -> None:
    """At the weights found, the gradient is zero."""
    generator = np.random.default_rng(0)
    dense = (generator.normal(size=(40, 6)) * (generator.random((40, 6)) < 0.5)).astype(np.float32)
    labels = (generator.random((40, 2)) < 0.4).astype(np.float32)
    rows = stack_rows([(np.flatnonzero(row), row[np.flatnonzero(row)]) for row in dense], 6)

    weights, bias = fit(rows, labels, penalty=0.5, iterations=400)

    residual = sigmoid(dense @ weights + bias) - labels  # the gradient of the summed cross-entropy
    assert np.abs(dense.T @ residual + 0.5 * weights).max() < 1e-2  # out of 10 at the start
    assert np.abs(residual.sum(axis=0)).max() < 1e-2


def test_too_little_to_hold_out_is_refused() -> None:
    """One question cannot be on both sides of a split; the message says what was given."""
    with pytest.raises(ConfigError, match=r"got 1 to fit on and 0 held out|got 0 to fit on and 1 held out"):
        train_on(labelled(1), TINY)


def write_aegis(path: Path, n_runs: int) -> None:
    """Write made-up runs as AEGIS lines."""
    path.parent.mkdir(parents=True)
    lines = [
        {
            "index": number,
            "question": run.trace.task,
            "trajectory": [{"step": s.index + 1, "agent_name": s.agent, "content": s.content} for s in run.trace.steps],
            "faulty_agents": [
                {"agent_name": fault.agent, "error_type": fault.mode.code} for fault in run.faults or () if fault.mode
            ],
        }
        for number, run in enumerate(recorded(n_runs))
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")


def test_run_directory_holds_enough_to_redo_it(tmp_path: Path) -> None:
    """Config, seed, versions, metrics and weights lie together, and the weights load."""
    write_aegis(tmp_path / "data" / "aegis" / "train.jsonl", 40)
    recipe = replace(TINY, data=replace(TINY.data, train="aegis/train.jsonl"))

    trained = train_lexical(recipe, tmp_path / "data", tmp_path / "out")

    said = json.loads((tmp_path / "out" / "recipe.json").read_text())
    measured = json.loads((tmp_path / "out" / "metrics.jsonl").read_text())
    assert (said["name"], said["seed"], said["data"]["min_agents"]) == ("tiny", 0, 1)
    assert {"scikit-learn", "numpy", "blamespan", "python"} <= set(said)
    assert measured["weights"] == LexicalTracer.load(trained.weights).identity.weights
    assert measured["pair_f1"] == trained.held_out.pair_f1


def test_missing_data_says_where_it_was_looked_for(tmp_path: Path) -> None:
    """The path and the option to correct are in the message."""
    with pytest.raises(UnreadableInput, match=r"got nothing there\. Check --data"):
        train_lexical(TINY, tmp_path, tmp_path / "out")
