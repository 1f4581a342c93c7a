"""Training of the tracer `network`: its data, batches, losses, other words, and the whole way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from blamespan.errors import ConfigError
from blamespan.importing.recorded import Fault, Origin, RecordedRun
from blamespan.taxonomy import mode
from blamespan_lab.train.network import (
    SOMEWHERE,
    SOUND,
    UNKNOWN,
    Examples,
    NetworkData,
    NetworkExample,
    NetworkRecipe,
    NetworkSize,
    Schedule,
    agent_examples,
    examples_of,
    mistake_examples,
    pad,
    split_by_size,
    split_by_task,
    supervised_losses,
    targets_of,
    train_network,
    train_network_on,
    with_near_words,
    with_strange_words,
)
from blamespan_lab.train.words import Meanings
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inputs import RunInputs
from blamespan_tracer.alternatives.network.model import Scores
from blamespan_tracer.modes import MODES
from tests.tracer_model.alternatives.network.networks import FEATURES, VOCABULARY, random_team
from tests.tracer_model.lab.train.test_lexical import write_aegis
from tests.tracer_model.teams import team

LEXICON, MEANINGS = LexicalTracer.bundled().lexicon, Meanings.bundled()


def test_every_run_is_read_by_a_lexicon_that_has_not_seen_it(tmp_path: Path) -> None:
    """Whatever is drawn of them, no step is known to be decisive, and the agents at fault are."""
    path = tmp_path / "aegis" / "train.jsonl"
    write_aegis(path, 60)

    every = agent_examples(path, LEXICON, VOCABULARY, most=0, penalty=0.1, seed=0)
    some = agent_examples(path, LEXICON, VOCABULARY, most=10, penalty=0.1, seed=0)

    assert len(every) == 60
    assert len(some) == 10
    assert all(each.decisive == UNKNOWN and each.culprits for each in every)
    by_id = {each.trace_id: each for each in every}
    assert all(np.array_equal(each.inputs.features, by_id[each.trace_id].inputs.features) for each in some)


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A recipe may ask for a file that is not there."""
    with pytest.raises(ConfigError, match=r"none\.jsonl"):
        agent_examples(tmp_path / "none.jsonl", LEXICON, VOCABULARY, most=0, penalty=0.1, seed=0)


def test_runs_of_known_outcome_need_no_labels() -> None:
    """One that succeeded is sound; of one that failed the pointer learns that it was some step; others are left out."""
    runs = [
        RecordedRun("a:1", replace(random_team(1), outcome="succeeded"), ()),
        RecordedRun("a:2", replace(random_team(2), outcome="failed"), None),
        RecordedRun("a:3", random_team(3), None),
    ]

    sound, failed = examples_of(runs, LEXICON, VOCABULARY, FEATURES)

    assert (sound.decisive, failed.decisive) == (SOUND, SOMEWHERE)
    assert np.isnan(failed.fault).all()
    assert targets_of([sound, failed]).somewhere.tolist() == [False, True]


def test_failure_without_labels_pulls_the_pointer_to_the_steps() -> None:
    """The loss of a run that failed falls as mass moves from "it did not fail" to whichever step."""
    examples = examples_of(
        [RecordedRun("a", replace(random_team(2), outcome="failed"), None)], LEXICON, VOCABULARY, FEATURES
    )
    padded, targets = pad([examples[0].inputs]), targets_of(examples)
    steps = padded.agent.shape[1]

    def loss(sound: float) -> float:
        pointer = torch.zeros(1, steps + 1)
        pointer[0, -1] = sound
        scores = Scores(pointer, torch.zeros(1, steps), torch.zeros(1, steps, targets.modes.shape[2]))
        return float(supervised_losses(scores, targets, padded, sigma=0.4)["agent"])

    assert loss(-3.0) < loss(0.0) < loss(3.0)


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


@pytest.mark.parametrize("sizes", [[], [3], [3, 3, 3, 3, 3], [2, 9, 40, 200, 2_000], [2_000, 2_000]])
def test_parts_hold_every_run_once_and_fit(sizes: list[int]) -> None:
    """A run of thousands of steps is a part of its own: what is padded to its length costs the square."""
    order = sorted(range(len(sizes)), key=sizes.__getitem__)

    parts = list(split_by_size(order, sizes, most_runs=4))

    assert [row for part in parts for row in part] == order
    assert all(0 < len(part) <= 4 for part in parts)
    assert all(len(part) == 1 or len(part) * max(sizes[row] for row in part) ** 2 <= 400_000 for part in parts)


def _mode_loss(example: NetworkExample, odds: dict[int, float]) -> float:
    """The loss of which mode is said, with these log-odds of modes at the first step."""
    padded, targets = pad([example.inputs]), targets_of([example])
    steps = padded.agent.shape[1]
    modes = torch.zeros(1, steps, len(MODES))
    for column, value in odds.items():
        modes[0, 0, column] = value
    scores = Scores(torch.zeros(1, steps + 1), torch.zeros(1, steps), modes)
    return float(supervised_losses(scores, targets, padded, sigma=0.4)["mode"])


def _wrong_at_first(*columns: int) -> NetworkExample:
    run = RecordedRun("a", replace(random_team(2), outcome="succeeded"), ())
    example = examples_of([run], LEXICON, VOCABULARY, FEATURES)[0]
    modes = np.zeros_like(example.modes)
    modes[0, list(columns)] = 1
    return replace(example, modes=modes)


def test_one_of_the_labelled_modes_is_to_stand_out() -> None:
    """Either of two will do; what counts is how far it stands above the others, not how high."""
    example = _wrong_at_first(3, 5)

    assert _mode_loss(example, {3: 4.0}) < _mode_loss(example, {}) < _mode_loss(example, {7: 4.0})
    assert _mode_loss(example, {3: 4.0}) == pytest.approx(_mode_loss(example, {5: 4.0}))
    assert _mode_loss(example, dict.fromkeys(range(len(MODES)), 4.0)) == pytest.approx(_mode_loss(example, {}))


def test_steps_without_a_mode_teach_none() -> None:
    """Where nothing is wrong there is no mode to say."""
    assert _mode_loss(_wrong_at_first(), {3: 4.0}) == 0


@pytest.fixture(scope="module")
def few() -> list[NetworkExample]:
    return examples_of([labelled(seed) for seed in range(6)], LEXICON, MEANINGS.vocabulary, FEATURES)


def test_near_words_mean_nearly_the_same(few: list[NetworkExample]) -> None:
    """Each word becomes one of the five nearest, wherever it stands, and never itself."""
    changed = with_near_words(few, MEANINGS.vectors, seed=3)
    before, after = (np.concatenate([each.inputs.tokens.rows for each in part]) for part in (few, changed))
    directions = MEANINGS.vectors / np.linalg.norm(MEANINGS.vectors, axis=1, keepdims=True)

    assert len(np.unique(np.stack([before, after]), axis=1)[0]) == len(np.unique(before))
    for word, other in zip(before[:20], after[:20], strict=True):
        likeness = directions @ directions[word]
        assert word != other
        assert (likeness > likeness[other] + 1e-6).sum() <= 5


def test_strange_words_are_others_one_for_one(few: list[NetworkExample]) -> None:
    """No two words become one, and nothing but words changes."""
    changed = with_strange_words(few, len(MEANINGS.vocabulary), seed=3)
    before, after = (np.concatenate([each.inputs.tokens.rows for each in part]) for part in (few, changed))

    assert len(np.unique(after)) == len(np.unique(before))
    assert not np.array_equal(before, after)
    assert all(
        np.array_equal(one.inputs.features, other.inputs.features) for one, other in zip(few, changed, strict=True)
    )


def test_words_that_are_alone_stay(few: list[NetworkExample]) -> None:
    """Where there is no other word, there is none to take."""
    lonely = [replace(each, inputs=_of_one_word(each.inputs)) for each in few]

    assert not np.concatenate(
        [each.inputs.tokens.rows for each in with_near_words(lonely, MEANINGS.vectors[:1], 0)]
    ).any()


def _of_one_word(run: RunInputs) -> RunInputs:
    return replace(run, tokens=replace(run.tokens, rows=run.tokens.rows * 0))


RECIPE = NetworkRecipe(
    "tiny",
    size=NetworkSize(bag_width=8, sentence_width=8, width=16, n_heads=2, n_layers=1),
    schedule=Schedule(epochs=12, rate=5e-3, most_runs=16),
)


def labelled(seed: int) -> RecordedRun:
    """A run of one of 30 tasks; in two of three somebody guesses instead of looking, and that decides it."""
    rng = Random(seed)
    said = [(agent, f"The {rng.choice('abcdefgh')} part holds {rng.randrange(90)} units.") for agent in "ABCABC"]
    wrong = rng.randrange(6) if seed % 3 else None
    if wrong is not None:
        said[wrong] = (said[wrong][0], "I will just guess a figure instead of looking, probably around seven.")
    trace = replace(
        team(*said, task=f"Count the units of store {seed % 30}."),
        trace_id=f"{seed + 1:032x}",
        outcome="succeeded" if wrong is None else "failed",
    )
    faults = () if wrong is None else (Fault(said[wrong][0], mode("aegis:FM-1.1"), wrong),)
    return RecordedRun(
        f"x:{seed}", trace, faults, Origin("natural", "tables", "chain", "langgraph", decisive=wrong, is_verified=True)
    )


@pytest.fixture(scope="module")
def examples() -> Examples:
    found = examples_of([labelled(seed) for seed in range(240)], LEXICON, MEANINGS.vocabulary, FEATURES)
    return Examples(*split_by_task(found, percent=RECIPE.data.held_out_percent, seed=RECIPE.seed))


def test_network_learns_who_guessed(examples: Examples) -> None:
    """On tasks it has not seen it finds the step that decided, and the runs in which none did."""
    network, held_out = train_network_on(examples, RECIPE, LEXICON, MEANINGS)

    assert held_out.tasks.n >= 10
    assert held_out.tasks.step >= 80
    assert held_out.tasks.false_alarms <= RECIPE.max_false_alarms
    assert network.features
    assert held_out.tasks.coverage >= 80


def test_runs_of_labelled_agents_teach_whom_to_point_at(examples: Examples) -> None:
    """Where no step is labelled, the pointer learns from the agent's; held-out ones are measured by their agent."""
    agents = [by_agent(each) for each in (*examples.fitted, *examples.tasks) if each.decisive >= 0]
    one = next(each for each in examples.fitted if each.decisive >= 0)
    taught = Examples([one, *agents[:120]], examples.tasks, agents=agents[120:])
    alone = replace(RECIPE, schedule=replace(RECIPE.schedule, epochs=20))

    _, held_out = train_network_on(taught, alone, LEXICON, MEANINGS)

    assert held_out.agents is not None
    assert held_out.agents >= 80


def by_agent(example: NetworkExample) -> NetworkExample:
    """Forget which step it was."""
    culprit = int(example.inputs.agent[example.decisive])
    modes = frozenset(np.flatnonzero(example.modes[example.decisive]).tolist())
    unknown = np.full_like(example.fault, np.nan)
    return replace(example, decisive=UNKNOWN, fault=unknown, modes=example.modes * 0, culprits={culprit: modes})


def test_same_seed_gives_the_same_bits(examples: Examples) -> None:
    """Weights can be made again by whoever doubts them."""
    few = replace(RECIPE, schedule=replace(RECIPE.schedule, epochs=1))

    first, second = (train_network_on(examples, few, LEXICON, MEANINGS)[0] for _ in range(2))

    assert all(np.array_equal(first.weights[name], second.weights[name]) for name in first.weights)
    assert first.temperature == second.temperature


def test_too_few_runs_are_refused(examples: Examples) -> None:
    """Without anything held out no probability would mean what it says."""
    with pytest.raises(ConfigError, match="hold 12 % of them out"):
        train_network_on(Examples(examples.fitted[:1], ()), RECIPE, LEXICON, MEANINGS)


def test_labels_land_on_merged_steps(examples: Examples) -> None:
    """A label names an original step; the network learns the decision that the step is part of."""
    run = labelled(1)
    example = examples_of([run], LEXICON, MEANINGS.vocabulary, FEATURES)[0]

    assert run.origin is not None
    assert run.origin.decisive in example.inputs.origins[example.decisive]
    assert example.fault.sum() == 1
    assert str(MODES[int(example.modes[example.decisive].argmax())]) == "mast:FM-1.1"
    assert examples.fitted[0].decisive == SOUND


def test_labels_of_agents_alone_teach_no_step() -> None:
    """Who is at fault is known, where is not: the decisive step stays unknown, and no step is called sound."""
    run = RecordedRun("aegis:1", replace(random_team(1), outcome="failed"), (Fault("a", mode("aegis:FM-3.1")),))

    example = examples_of([run], LEXICON, MEANINGS.vocabulary, FEATURES)[0]

    assert example.decisive == UNKNOWN
    assert np.isnan(example.fault).all()
    assert [sorted(modes) for modes in example.culprits.values()] == [
        [[str(each) for each in MODES].index("mast:FM-3.1")]
    ]
