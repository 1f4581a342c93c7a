"""Failures are chosen so that what cannot be read tells nothing."""

from __future__ import annotations

import numpy as np

from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan_tracer.corpus.balance import chosen, place_of, pull


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

    assert [place_of(trace, index) for index in range(4)] == [None, 0.25, None, 0.75]


def test_pulls_of_all_steps_of_a_run_cancel_out() -> None:
    """If every step were as often decisive as the others, nothing would pull."""
    trace = run("user", "ann", "bob", "ann", "tool", "cleo")
    duties = {"ann": "planner", "bob": "solver", "cleo": "judge"}
    pulls = [pull(trace, index, duties) for index in (1, 2, 3, 5)]

    assert np.allclose(sum(pulls), 0)


def test_choice_cancels_what_pulls_to_one_side() -> None:
    """Of many failures at the start and few at the end, as many of each are taken."""
    trace = run("user", "ann", "bob")
    duties = {"ann": "planner", "bob": "solver"}
    pulls = [pull(trace, 1, duties)] * 9 + [pull(trace, 2, duties)] * 3
    taken = chosen(pulls, 6)

    assert sum(place < 9 for place in taken) == 3
    assert len(taken) == len(set(taken)) == 6


def test_choice_goes_on_from_what_was_chosen_before() -> None:
    """What pulls one way already is answered by what pulls the other way."""
    one, other = np.array([1.0, 0.0]), np.array([-1.0, 0.0])

    assert chosen([one, one, other, other], 2, start=2 * one) == [2, 3]


def test_where_there_are_too_few_all_are_taken() -> None:
    """Fewer than wanted is no reason to fail."""
    assert chosen([np.zeros(2)], 5) == [0]
    assert chosen([], 5) == []


def test_what_nothing_answers_is_left_out() -> None:
    """Where all pull one way, fewer are taken, but for no more than a sixth."""
    assert len(chosen([np.array([1.0])] * 20, 20)) == 17
