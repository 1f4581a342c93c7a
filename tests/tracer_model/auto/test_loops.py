"""Loops: repetition is named at its first useless step; a call that is answered anew is no loop."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from blamespan.taxonomy import MAST
from blamespan.trace import Agent, MessageActionTrace
from blamespan_tracer.auto.loops import find_loops, fold_loops
from blamespan_tracer.auto.tracer import AutoTracer
from tests.tracer_model.teams import Said, team

CALL = 'search({"query": "Acme Corp revenue 2023 annual report"})'
NOTHING = "No results found for this query."


def _search(answers: list[str], queries: list[str] | None = None) -> MessageActionTrace:
    """Build a run in which Searcher calls once for each of *answers*."""
    said: list[Said] = [("Planner", "I will ask for the revenue of Acme Corp in 2023, which the user needs.")]
    for query, answer in zip(queries or [CALL] * len(answers), answers, strict=True):
        said += [("Searcher", query, "tool_call"), ("Searcher", answer, "tool_result")]
    said.append(("Planner", "We could not find the revenue of Acme Corp. I must end without an answer."))
    return team(*said, task="What was Acme Corp's revenue in 2023?")


@pytest.mark.parametrize("n_calls", [3, 6, 12])
def test_repetition_is_named_at_the_first_useless_step(n_calls: int) -> None:
    """However long a loop is, its first call that brings nothing new is to blame, and the mode is repetition."""
    [verdict] = AutoTracer.bundled().attribute([_search([NOTHING] * n_calls)])

    assert verdict.decisive_step == 3
    assert (verdict.modes[0].mode, verdict.modes[0].agent) == (MAST["FM-1.3"], "Searcher")


def test_calls_that_differ_are_no_loop() -> None:
    """The sound twin asks otherwise each time: nobody repeats, and nobody is blamed for repetition."""
    queries = [
        'search({"query": "Acme Corp revenue 2023 annual report"})',
        'search({"query": "Acme Corporation yearly income statement"})',
        'search({"query": "sales of the Acme group in the last business year"})',
    ]
    twin = _search([NOTHING, "One page of 2019.", "A press release without figures."], queries)

    assert find_loops(twin) == []


@pytest.mark.parametrize(
    ("answers", "useless"),
    [
        (["a", "a", "a", "a"], [[3, 5, 7]]),
        (["a", "a", "a", "b"], [[3, 5]]),
        (["a", "b", "c", "d"], []),
        (["a", "a"], []),
        (["a", "b", "b", "b"], [[5, 7]]),
    ],
)
def test_an_answer_that_changes_is_useful(answers: list[str], useless: list[list[int]]) -> None:
    """A call that is made again is useless as long as its answer stays; one useless call is no loop."""
    assert find_loops(_search(answers)) == useless


def test_users_and_empty_words_make_no_loop() -> None:
    """Who cannot be blamed repeats as often as they like."""
    trace = _search([NOTHING] * 4)
    users = replace(trace, agents=(Agent("Planner"), Agent("Searcher", "user")))
    empty = replace(trace, steps=tuple(replace(step, content=" ") for step in trace.steps))

    assert find_loops(users) == find_loops(empty) == []


def test_folding_keeps_the_sum() -> None:
    """Shares move within their loop only."""
    shares = np.array([0.1, 0.2, 0.3, 0.15, 0.25])

    assert fold_loops(shares, [[1, 3]]).tolist() == pytest.approx([0.1, 0.35, 0.3, 0.0, 0.25])
    assert fold_loops(shares, []).tolist() == shares.tolist()
