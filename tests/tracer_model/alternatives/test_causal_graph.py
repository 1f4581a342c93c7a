"""The tracer `causal-graph`: odd steps before sound ones, origins before carriers, changes where nothing is odd."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blamespan.tracers import load_tracer
from blamespan_tracer.alternatives.causal_graph import CausalGraphTracer, find_phases
from tests.tracer_model.teams import team

_TASK = "A box holds 12 red cups and 30 blue cups. How many cups does it hold?"
_TASK_OF_WORDS = "A box holds red cups and blue cups. Which cups does it hold?"
_TRACER = CausalGraphTracer()


def test_wrong_sum_is_blamed_and_who_carries_it_on_is_not() -> None:
    """The step that works it out wrongly, not those that repeat its value; worked out right, it is not blamed."""
    rest = ("We have 12 red cups and 30 blue cups.", "{}", "So the box holds {} cups.", "The answer is {} cups.")
    wrong = [text.format("12 + 30 = 52" if place == 1 else 52) for place, text in enumerate(rest)]
    right = [text.format("12 + 30 = 42" if place == 1 else 42) for place, text in enumerate(rest)]
    runs = [team(*[("ABC"[place % 3], text) for place, text in enumerate(said)], task=_TASK) for said in (wrong, right)]
    blamed, sound = _TRACER.attribute(runs)

    assert blamed.decisive_step == 1
    assert blamed.steps[1].score > 0.9 > sound.steps[1].score
    assert blamed.failure_score > 0.5 >= sound.failure_score


def test_step_that_leaves_what_the_others_speak_of_is_blamed_where_nothing_is_odd() -> None:
    """Nothing contradicts; one step says what nobody spoke of."""
    astray = "Weather permitting, gardens bloom behind old stations everywhere."
    said = [
        "The box holds red cups and blue cups.",
        "The red cups in the box are cups.",
        "{}",
        "The blue cups in the box are cups.",
        "The box holds red cups and blue cups, both in the box.",
    ]
    strayed, kept = (
        team(*[("ABC"[place % 3], text.format(words)) for place, text in enumerate(said)], task=_TASK_OF_WORDS)
        for words in (astray, "The blue cups in the box are cups, too.")
    )
    of_strayed, of_kept = _TRACER.attribute([strayed, kept])

    assert of_strayed.decisive_step == 2
    assert of_strayed.steps[2].score > 0.9 > 0.5 > of_kept.steps[2].score


def test_known_failure_scores_one_and_its_own_word_is_kept_beside() -> None:
    """Being told changes the score, not the blame."""
    run = team(("A", "12 + 30 = 52"), ("B", "The answer is 52."), task=_TASK)
    unknown, known = _TRACER.attribute([run, replace(run, outcome="failed")])

    assert known.failure_score == 1.0
    assert known.unaided_score == unknown.failure_score < 1.0
    assert known.steps == unknown.steps


def test_phases_are_split_where_profiles_change_and_nowhere_else() -> None:
    """Two phases of five decisions each are found; a run of one kind is one phase."""
    first, second = np.array([1.0, 0.0]), np.array([0.0, 1.0])

    assert find_phases(np.array([first] * 5 + [second] * 5)) == [(0, 5), (5, 10)]
    assert find_phases(np.array([first] * 10)) == [(0, 10)]
    assert find_phases(np.array([first, second])) == [(0, 2)]
    assert find_phases(np.array([first] * 4 + [second] * 4 + [first] * 4)) == [(0, 4), (4, 8), (8, 12)]


def test_tracer_is_installed_under_its_name() -> None:
    """It is asked for like any other, and needs no weights."""
    assert load_tracer("causal-graph").identity.name == "causal-graph"
    assert load_tracer("causal-graph").identity.weights == ""
