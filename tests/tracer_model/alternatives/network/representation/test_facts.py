# ruff: noqa: RUF001  # the sign of multiplication is what people write

from __future__ import annotations

import math

import pytest

from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.network.representation import analyse
from tests.tracer_model.teams import Said, team


def conflicts(run: MessageActionTrace) -> list[tuple[int, int, tuple[str, str]]]:
    """Each conflict: the original steps (-1 for the task) and the values."""
    return [(each.earlier - 1, each.later - 1, each.values) for each in analyse(run).facts.conflicts]


@pytest.mark.parametrize(
    ("first", "second", "values"),
    [
        ("The red kettle costs 48 euros.", "The red kettle costs 84 euros.", ("48", "84")),
        ("The red kettle costs 1,200 euros.", "So the red kettle costs 1200.5 euros.", ("1200", "1200.5")),
        ("12 - 5 gives 7 for the red kettle.", "The red kettle stands at 8.", ("7", "8")),
        ("The red kettle costs 48 euros, which is 4 × 12.", "The red kettle costs 50 euros.", ("48", "50")),
        ("The maker of the lamp is Norton.", "The maker of the lamp is Halden.", ("norton", "halden")),
        (
            "The maker of the lamp is given as Old Norton.",
            "I have Halden as the maker of the lamp.",
            ("norton", "halden"),
        ),
    ],
)
def test_other_value_of_one_subject_is_a_conflict(first: str, second: str, values: tuple[str, str]) -> None:
    """Two sentences about one thing with two values contradict each other, numbers as names."""
    assert conflicts(team(("a", first), ("b", second))) == [(0, 1, values)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The red kettle costs 48 euros.", "The red kettle costs 48.0 euros."),
        ("The red kettle costs 48 euros.", "The blue lamp weighs 84 grams."),
        ("Red kettle costs 48. Red kettle costs 50.", "Red kettle costs 84."),
        ("1) The red kettle is fine.", "2) The red kettle is fine."),
        ("The red kettle costs 48 euros.", "```\nred kettle costs 84 euros\n```"),
        ("Look up the maker of the lamp by Norton.", "Look up the maker of the lamp by Halden."),
    ],
)
def test_what_is_no_conflict(first: str, second: str) -> None:
    """Equal numbers, other subjects, subjects with several values, list numbers and code contradict nothing."""
    assert conflicts(team(("a", first), ("b", second))) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("The rent of Harbour Inn is 176 euros.", "The fee of Harbour Inn is 67 euros."),
        ("The rent of Harbour Inn amounts to 176.", "The rent of Garden Inn amounts to 67."),
        ("The rent of Harbour Inn is 176.", "The rent of Harbour Inn in March is 15."),
    ],
)
def test_words_of_the_task_tell_subjects_apart(first: str, second: str) -> None:
    """What the task has two words for is two things, however much else two sentences share."""
    task = "Add the rent and the fee of Harbour Inn and of Garden Inn, in March and in all."

    assert conflicts(team(("a", first), ("b", second), task=task)) == []


def test_words_of_the_task_tell_a_subject_in_any_order() -> None:
    """The founder of the maker is somebody else, and the maker is the maker, wherever in the sentence it stands."""
    run = team(
        ("a", "Norton is the maker of the lamp. The founder of the maker of the lamp is Ines Dahl."),
        ("b", "For the lamp, the maker is Halden. The founder of the maker of the lamp is Ines Dahl."),
        task="Find the maker of the lamp, Halden or Norton, and the founder of the maker of the lamp, Ines Dahl.",
    )

    assert conflicts(run) == [(0, 1, ("norton", "halden"))]


def test_task_counts_as_stated() -> None:
    """What a step says against the task is a conflict with it."""
    run = team(("a", "The red kettle costs at most 84 euros."), task="The red kettle costs at most 48 euros.")

    assert conflicts(run) == [(-1, 0, ("48", "84"))]


def test_support_is_the_share_of_others_that_agree() -> None:
    """Of three agents two agree: each has half or none of the others behind it; of what nobody else says, NaN."""
    said: list[Said] = [("a", "The sum of it is 40."), ("b", "The sum of it is 40."), ("c", "The sum of it is 41.")]
    support = analyse(team(*[(who, f"Total cost: {text}") for who, text, *_ in said], ("d", "Hm."))).facts.support

    assert [round(float(share), 2) for share in support[1:4]] == [0.5, 0.5, 0.0]
    assert math.isnan(support[4])
