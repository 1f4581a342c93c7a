"""Failures are chosen so that what cannot be read tells nothing."""

from __future__ import annotations

import numpy as np

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_lab.make.corpus.balance import choose_runs, measure_imbalance, relative_position


def run(*agents: str) -> MessageActionTrace:
    steps = tuple(
        Step(index, f"{index + 1:016x}", agent, "tool_result" if agent == "tool" else "message", "x" * (index + 1))
        for index, agent in enumerate(agents)
    )
    names = tuple(Agent(name, "user" if name == "user" else "agent") for name in dict.fromkeys(agents))
    return MessageActionTrace("a" * 32, "ask", steps, names)


def test_place_counts_only_steps_that_could_be_decisive() -> None:
    """A user's word and a tool's answer take no place; what none of them is has none."""
    trace = run("user", "ann", "tool", "bob")

    assert [relative_position(trace, index) for index in range(4)] == [None, 0.25, None, 0.75]


def test_imbalances_of_all_steps_of_a_run_cancel_out() -> None:
    """If every step were as often decisive as the others, nothing would be unbalanced."""
    trace = run("user", "ann", "bob", "ann", "tool", "cleo")
    duties = {"ann": "planner", "bob": "solver", "cleo": "judge"}
    imbalances = [measure_imbalance(trace, index, duties) for index in (1, 2, 3, 5)]

    assert np.allclose(sum(imbalances), 0)


def parts(count: int, family: str = "lookup") -> list[tuple[str, ...]]:
    return [(family, "chain")] * count


def test_choice_cancels_what_is_unbalanced() -> None:
    """Of many failures at the start and few at the end, as many of each are taken."""
    trace = run("user", "ann", "bob")
    duties = {"ann": "planner", "bob": "solver"}
    rows = np.array([measure_imbalance(trace, 1, duties)] * 9 + [measure_imbalance(trace, 2, duties)] * 6)
    taken = choose_runs(rows, parts(15), 8)

    assert sum(place < 9 for place in taken) == 4
    assert len(taken) == len(set(taken)) == 8


def test_every_part_is_balanced_and_keeps_its_share() -> None:
    """It is not enough that one family leans one way and another family the other way."""
    rows = np.array([[1.0]] * 10 + [[-1.0]] * 6 + [[-1.0]] * 10 + [[1.0]] * 6)
    taken = choose_runs(rows, [*parts(16), *parts(16, "tables")], 24)

    assert [sum(rows[place, 0] for place in taken if (place < 16) is side) for side in (True, False)] == [0, 0]
    assert sum(place < 16 for place in taken) == 12


def test_where_there_are_too_few_all_are_taken() -> None:
    """Fewer than wanted is no reason to fail."""
    assert choose_runs(np.zeros((1, 2)), parts(1), 5) == [0]
    assert choose_runs(np.zeros((0, 2)), [], 5) == []
