from __future__ import annotations

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.alternatives.network.representation import EDGE_TYPES, ROLES, Representation, analyse, represent
from blamespan_tracer.alternatives.network.step_features import STEP_FEATURES, step_features
from tests.tracer_model.teams import feature, team

KETTLE = team(
    ("user", "Find the price of the red kettle in euros."),
    ("planner", "Plan: 1) ask the shop 2) report it. Searcher, please ask about item RK_77."),
    ("searcher", 'ask({"item": "RK_77"})', "tool_call"),
    ("searcher", "The red kettle costs 48 euros.", "tool_result"),
    ("searcher", "The red kettle costs 84 euros."),
    ("checker", "That is wrong, searcher: the tool said 48."),
    ("reporter", "The red kettle costs 84 euros. TERMINATE"),
    roles={"user": "user"},
    inputs={2: [1], 3: [2], 4: [1, 3]},
)


def edges(run: Representation, kind: str) -> set[tuple[int, int]]:
    """The edges of one type."""
    chosen = run.edges[0] == EDGE_TYPES.index(kind)
    return {(int(a), int(b)) for a, b in run.edges[1:, chosen].T}


def test_decisions_roles_and_origins() -> None:
    """Steps are decisions with their original indices; agents are labels in order of first speaking."""
    run = represent(KETTLE)

    assert run.agents == ("user", "planner", "searcher", "checker", "reporter")
    assert run.agent.tolist() == [0, 1, 2, 2, 3, 4]
    assert run.origins == ((0,), (1,), (2,), (4,), (5,), (6,))
    assert run.can_be_blamed.tolist() == [False, True, True, True, True, True]
    assert [ROLES[role] for role in run.role] == ["user", "planner", "researcher", "researcher", "checker", "reporter"]
    assert run.results[2] == "The red kettle costs 48 euros."


def test_edges_say_who_builds_on_whom() -> None:
    """Dependencies follow the words that a step brought in; objections point back at what they object to."""
    run = represent(KETTLE)

    assert edges(run, "depends") >= {(1, 2), (3, 5), (2, 4)}
    assert edges(run, "objects") >= {(4, 3)}
    assert edges(run, "reply") == {(1, 2), (1, 3), (2, 3)}
    assert edges(run, "same agent") == {(2, 3)}
    assert edges(run, "time") == {(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)}


def test_step_that_misreads_its_tool_stands_out() -> None:
    """The step that contradicts its tool says so in its features, and so does what is said about it later."""
    assert feature(KETTLE, "contradicts a result")[3] == 1.0
    assert feature(KETTLE, "objections to it")[3] == max(feature(KETTLE, "objections to it")) > 0
    assert feature(KETTLE, "new numbers")[3] > 0
    assert feature(KETTLE, "new numbers")[5] == 0.0
    assert feature(KETTLE, "end owes to it")[3] > feature(KETTLE, "end owes to it")[4]


def test_addressees_and_wrong_sums() -> None:
    """A message leads to the next step of who it is addressed to; a sum that does not hold is counted."""
    run = team(("boss", "go"), ("one", "12 * 3 = 35 and 2 + 2 = 4"), ("two", "fine"), recipients={0: ["two"]})

    assert edges(represent(run), "addressed") == {(0, 2)}
    assert feature(run, "sums wrong") == [0.0, 0.5, 0.0]


@pytest.mark.parametrize(
    "others",
    [
        ("Zoe", "Xaver", "Quinn", "Mila", "Abel"),
        ("unit-3", "unit-48", "unit-77", "unit-84", "unit-5"),
        ("Desk 3", "Desk 48", "Desk 77", "Desk 84", "Desk 5"),
        ("team.north", "team.west", "team.south", "team.east", "team.off"),
    ],
)
def test_names_do_not_matter(others: tuple[str, ...]) -> None:
    """Other names for agents leave all but the roles as they are; a number in a name is no number."""
    names = dict(zip(("user", "planner", "searcher", "checker", "reporter"), others, strict=True))

    def renamed(text: str) -> str:
        for old, new in names.items():
            text = text.replace(old, new).replace(old.capitalize(), new)
        return text

    other = dataclasses.replace(
        KETTLE,
        agents=tuple(Agent(names[agent.name], agent.role) for agent in KETTLE.agents),
        steps=tuple(
            dataclasses.replace(step, agent=names[step.agent], content=renamed(step.content)) for step in KETTLE.steps
        ),
    )
    unlike_length = [name for name in STEP_FEATURES if name != "characters, z"]
    first, second = (step_features(analyse(run), unlike_length) for run in (KETTLE, other))

    np.testing.assert_allclose(first, second, atol=0.02)
    np.testing.assert_array_equal(represent(KETTLE).edges, represent(other).edges)


def test_same_run_is_read_the_same_way() -> None:
    """Reading is deterministic, to the bit."""
    copy = dataclasses.replace(KETTLE)
    first, second = represent(KETTLE), represent(copy)

    assert step_features(analyse(KETTLE)).tobytes() == step_features(analyse(copy)).tobytes()
    assert first.edges.tobytes() == second.edges.tobytes()
    assert first.edge_weights.tobytes() == second.edge_weights.tobytes()


@pytest.mark.parametrize("n_steps", [0, 1, 2])
@pytest.mark.parametrize("content", ["", "x", "漢字仮名", "\ud800\x00", "1" * 1_000_000, "= " * 200_000, '"' * 100_000])
def test_little_or_odd_text_is_read(n_steps: int, content: str) -> None:
    """No steps, one, any script, lone surrogates and a megabyte of one character give finite features."""
    features = step_features(analyse(team(*[(f"agent{n}", content) for n in range(n_steps)], task=content)))

    assert features.shape == (n_steps, len(STEP_FEATURES))
    assert np.isfinite(features).all()


agents = st.sampled_from(["ann", "bob", "terminal", "user"])
kinds = st.sampled_from(["message", "tool_call", "tool_result", "plan", "handoff", "memory", "termination"])
parts = [
    "The price ",
    "wrong ",
    "ann ",
    "12 + 3 = ",
    "9",
    "1,290.5 ",
    "RK_7 ",
    "Paris ",
    '"',
    "`",
    "```",
    ".\n",
    "é漢",
    "?",
    "a ",
]
words = st.lists(st.sampled_from(parts), max_size=20).map("".join)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(agents, words, kinds), max_size=12), words)
def test_any_run_is_read(said: list[tuple[str, str, str]], task: str) -> None:
    """Features are finite and 0 where nobody decides, edges lie within the run, and every original step has a place."""
    run = team(*said, task=task, roles={"terminal": "executor", "user": "user"})  # type: ignore[arg-type]
    found, features = represent(run), step_features(analyse(run))
    n_steps = len(found)

    assert np.isfinite(features).all()
    assert not features[~found.can_be_blamed].any()
    assert ((found.edges[1:] >= 0) & (found.edges[1:] < n_steps)).all()
    assert (found.edge_weights > 0).all()
    places = [index for origins in found.origins for index in origins]
    assert places == sorted(set(places))
    assert all(step.kind == "tool_result" or step.index in places for step in run.steps)
    assert all(
        len(origins) == 1 for origins, decides in zip(found.origins, found.can_be_blamed, strict=True) if decides
    )


def long_run(n_steps: int) -> MessageActionTrace:
    steps = tuple(
        Step(
            place,
            f"{place + 1:016x}",
            f"agent{place % 5}",
            content=f"Item {place} costs {place % 97} euros. That is wrong.",
        )
        for place in range(n_steps)
    )
    return MessageActionTrace(f"{1:032x}", "Add it up.", steps, tuple(Agent(f"agent{place}") for place in range(5)))


@pytest.mark.slow
def test_time_grows_with_the_length_of_a_run() -> None:
    """Eight times the steps cost far less than the 64 times that a square would."""

    def seconds(run: MessageActionTrace) -> float:
        times = []
        for _ in range(3):
            start_s = time.process_time()
            step_features(analyse(run))
            times.append(time.process_time() - start_s)
        return min(times)

    short, long = seconds(long_run(625)), seconds(long_run(5_000))

    assert long < 24 * max(short, 0.01)
