"""Failures are chosen so that what cannot be read tells nothing."""

from __future__ import annotations

import numpy as np

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_lab.make.corpus.balance import choose_runs, measure_imbalance, measure_unlikeness, relative_position


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


def test_pulls_of_all_steps_of_a_run_cancel_out() -> None:
    """If every step were as often decisive as the others, nothing would pull."""
    trace = run("user", "ann", "bob", "ann", "tool", "cleo")
    duties = {"ann": "planner", "bob": "solver", "cleo": "judge"}
    pulls = [measure_imbalance(trace, index, duties) for index in (1, 2, 3, 5)]

    assert np.allclose(sum(pulls), 0)


def parts(count: int) -> list[tuple[str]]:
    return [("lookup",)] * count


def test_choice_cancels_what_pulls_to_one_side() -> None:
    """Of many failures at the start and few at the end, as many of each are taken."""
    trace = run("user", "ann", "bob")
    duties = {"ann": "planner", "bob": "solver"}
    pulls = np.array([measure_imbalance(trace, 1, duties)] * 9 + [measure_imbalance(trace, 2, duties)] * 6)
    taken = choose_runs(pulls, parts(15), 8)

    assert sum(place < 9 for place in taken) == 4
    assert len(taken) == len(set(taken)) == 8


def test_pulls_cancel_out_in_every_part() -> None:
    """It is not enough that one family pulls one way and another family the other way."""
    pulls = np.array([[1.0]] * 10 + [[-1.0]] * 6 + [[-1.0]] * 10 + [[1.0]] * 6)
    families = [("lookup",)] * 16 + [("code",)] * 16
    taken = choose_runs(pulls, families, 24)

    assert sum(pulls[place, 0] for place in taken if place < 16) == 0
    assert sum(pulls[place, 0] for place in taken if place >= 16) == 0


def test_a_small_part_is_held_against_its_own_standard_error() -> None:
    """Two too many of 6 stand out more than four too many of 40: the one that is left out is of the 6."""
    pulls = np.array([[1.0]] * 22 + [[-1.0]] * 18 + [[1.0]] * 4 + [[-1.0]] * 2)
    taken = choose_runs(pulls, [("lookup",)] * 40 + [("code",)] * 6, 45, fewest=1.0)

    assert sum(place < 40 for place in taken) == 40


def test_no_part_is_given_up_for_balance() -> None:
    """A family that pulls one way as a whole keeps at least six tenths of its share."""
    pulls = np.array([[1.0]] * 20 + [[0.0]] * 20)
    taken = choose_runs(pulls, [("lookup",)] * 20 + [("code",)] * 20, 20)

    assert sum(place < 20 for place in taken) == 6


def test_where_there_are_too_few_all_are_taken() -> None:
    """Fewer than wanted is no reason to fail."""
    assert choose_runs(np.zeros((1, 2)), parts(1), 5) == [0]
    assert choose_runs(np.zeros((0, 2)), [], 5) == []


def test_what_nothing_answers_is_left_out() -> None:
    """Where all pull one way, fewer are taken, but for no more than a sixth."""
    assert len(choose_runs(np.ones((20, 1)), parts(20), 20)) == 17


def test_runs_that_succeeded_are_told_apart_by_what_failures_are_like() -> None:
    """As many of each length as the failures have: of what is as they are, nothing pulls."""
    failures = np.arange(100.0)[:, None]

    assert np.allclose(measure_unlikeness(failures, failures).mean(axis=0), 0)
    assert measure_unlikeness(failures[50:], failures).mean() > 0.2
