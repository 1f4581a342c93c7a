"""Training learns what is there to learn, the same each time, and chooses nothing on what it is measured on."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from blamespan.errors import ConfigError
from blamespan.importing.recorded import Fault, Origin, RecordedRun
from blamespan.taxonomy import mode
from blamespan_lab.train.network.examples import SOUND, UNKNOWN, NetworkExample, examples_of
from blamespan_lab.train.network.meanings import Meanings
from blamespan_lab.train.network.recipe import NetworkRecipe, NetworkSize, Schedule
from blamespan_lab.train.network.training import train_network_on
from blamespan_lab.train.network.training_data import Examples, split_by_task
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.modes import MODES
from tests.tracer_model.alternatives.network.networks import FEATURES, random_team
from tests.tracer_model.teams import team

LEXICON = LexicalTracer.bundled().lexicon
MEANINGS = Meanings.bundled()
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
