"""What is said to be lacking is followed to who was the first to lack it."""

from __future__ import annotations

import time

import pytest

from blamespan_tracer.alternatives.network.representation import analyse
from blamespan_tracer.alternatives.network.step_features import step_features
from tests.tracer_model.teams import Said, feature, team

_TASK = "The cost is the rent of the house and the fee of the house together. What is the cost?"


@pytest.mark.parametrize(
    "said",
    [
        "I cannot go on without the fee of the house.",
        "The fee of the house is missing.",
        "We need the fee of the house.",
    ],
)
def test_first_to_lack_a_thing_is_told_from_who_repeats_it(said: str) -> None:
    """Whatever the words are: of two who lack one thing, the first is nearest to the cause."""
    run = team(
        ("searcher", "Nothing was found on the fee of the house."),
        ("solver", said),
        ("reporter", "Everything else is done."),
        task=_TASK,
    )

    assert feature(run, "lacks something") == [1.0, 1.0, 0.0]
    assert feature(run, "is the first to lack it") == [1.0, 0.0, 0.0]
    assert feature(run, "lacked later") == [0.5, 0.0, 0.0]


def test_lacking_what_was_said_is_a_failure_to_listen() -> None:
    """Of another thing nobody had said anything."""
    run = team(
        ("searcher", "The rent of the house is 120."),
        ("solver", "I need the rent of the house."),
        ("checker", "I need the fee of the house."),
        task=_TASK,
    )

    assert feature(run, "lacks what was said") == [0.0, 1.0, 0.0]
    assert feature(run, "is the first to lack it") == [0.0, 1.0, 1.0]


def test_lacking_what_the_task_gives_is_told_from_lacking_what_nobody_has() -> None:
    """The task has a value for one of the two."""
    run = team(
        ("solver", "I need the rent of the house."),
        ("checker", "I need the fee of the house."),
        task=f"The rent of the house is 120. {_TASK}",
    )

    assert feature(run, "lacks what the task gives") == [1.0, 0.0]


def test_first_who_does_not_pass_on_what_is_lacked_later_drops_it() -> None:
    """Where each tells the next, what one leaves out is missing from then on."""
    run = team(
        ("searcher", "The rent of the house is 120. The fee of the house is 30."),
        ("solver", "The fee of the house is 30."),
        ("checker", "The fee of the house is 30."),
        ("reporter", "I need the rent of the house."),
        task=_TASK,
    )

    assert feature(run, "drops what is lacked later") == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "said", ["We need the rent of the house. The rent of the house is 120.", "We need time.", "No. It is the fee."]
)
def test_who_has_it_or_names_nothing_lacks_nothing(said: str) -> None:
    """A need that is met in the same message, and one that names nothing of the task."""
    assert feature(team(("solver", said), task=_TASK), "lacks something") == [0.0]


@pytest.mark.slow
def test_time_is_linear_in_what_is_lacking() -> None:
    """A thousand steps that lack a hundred things each are read in seconds."""
    text = " ".join(f"We need the fee{n} of the house{n}. The rent{n} of the house{n} is {n}1." for n in range(100))
    said: list[Said] = [(f"agent{place % 5}", text) for place in range(1_000)]
    run = team(*said, task=text)
    start_s = time.process_time()

    step_features(analyse(run))

    assert time.process_time() - start_s < 40
