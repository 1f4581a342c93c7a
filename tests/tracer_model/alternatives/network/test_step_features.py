"""What stands out about a step beside the findings of checks."""

from __future__ import annotations

import time

from blamespan_tracer.alternatives.network.representation import analyse
from blamespan_tracer.alternatives.network.step_features import step_features
from tests.tracer_model.teams import Said, feature, team


def test_agent_that_is_given_less_than_before_misses_what_it_heard() -> None:
    """A message that was lost, or a memory that was cut, shows in what later steps were given."""
    run = team(
        ("one", "a"),
        ("two", "b"),
        ("one", "c"),
        ("two", "d"),
        inputs={1: [0], 2: [0, 1], 3: [2]},
    )

    assert feature(run, "misses what it heard") == [0.0, 0.0, 0.0, 1.0]
    assert feature(run, "hears") == [0.0, 1.0, 1.0, 0.333]
    assert feature(run, "is heard") == [0.667, 0.5, 1.0, 0.0]


def test_addressing_somebody_who_does_not_speak_next_shows() -> None:
    """A message that went astray is answered by nobody it was meant for."""
    run = team(("one", "a"), ("two", "b"), ("three", "c"), recipients={0: ["two"], 1: ["one"]})

    assert feature(run, "is answered by whom it addresses") == [1.0, 0.0, 0.0]
    assert feature(run, "is addressed to") == [0.5, 0.5, 0.0]


def test_first_odd_step_is_told_from_the_later_ones() -> None:
    """Errors travel: what comes first is likelier to be where they began."""
    run = team(
        ("reader", "Given are 388 and 32."),
        ("solver", "388 + 32 = 402."),
        ("checker", "That is 977."),
        task="What is 388 and 32 together?",
    )

    assert feature(run, "is odd") == [0.0, 1.0, 1.0]
    assert feature(run, "is the first odd one") == [0.0, 1.0, 0.0]


def test_message_that_went_to_all_is_followed_by_many() -> None:
    """Three go on from the first message at once; of the others one goes on from one message, and one from its own."""
    run = team(
        ("one", "a"),
        ("two", "b"),
        ("three", "c"),
        ("four", "d"),
        ("four", "e"),
        inputs={1: [0], 2: [0], 3: [0], 4: [1]},
    )

    assert feature(run, "is followed") == [1.0, 0.333, 0.0, 0.0, 0.0]


def test_time_is_linear_in_calls_and_numbers() -> None:
    """Five thousand steps of calls, numbers and inputs are read in seconds."""
    said: list[Said] = []
    for number in range(2_500):
        call = f'sum({{"column": "column{number % 7}", "where": "place{number}"}})'
        said += [("searcher", call, "tool_call"), ("searcher", f"{number * 37} rows", "tool_result")]
    run = team(*said, inputs={place: range(place) for place in range(0, 5_000, 50)})
    start_s = time.process_time()

    step_features(analyse(run))

    assert time.process_time() - start_s < 20
