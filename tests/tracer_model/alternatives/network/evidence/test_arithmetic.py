"""What is refuted, by whom, and whether rightly."""

from __future__ import annotations

import pytest

from blamespan_tracer.alternatives.network.representation import analyse
from tests.tracer_model.teams import Said, feature, team

_SOLVER: Said = ("solver", "The rent is 120 + 30 = 150.")
_SLIP: Said = ("solver", "The rent is 120 + 30 = 250.")


@pytest.mark.parametrize(
    "said",
    [
        "The rent ought to be 510 instead of 150.",
        "The rent is 510, not 150.",
        "I find 510 rather than 150 for the rent.",
        "The rent has to be 510 and not 150.",
        "The rent stands at 510, not at 150.",
    ],
)
def test_refuting_a_sum_that_holds_is_told_from_putting_a_slip_right(said: str) -> None:
    """Both refute; what was refuted tells which of the two erred."""
    right, wrong = team(_SOLVER, ("checker", said)), team(_SLIP, ("checker", said.replace("150", "250")))

    assert feature(right, "refutes what is right") == [0.0, 1.0]
    assert feature(right, "is refuted") == [1.0, 0.0]
    assert feature(wrong, "refutes what is right") == [0.0, 0.0]
    assert feature(wrong, "refutes what is wrong") == [0.0, 1.0]


@pytest.mark.parametrize("said", ["The rent is not high: 150.", "It is more than likely that the rent is 150."])
def test_other_uses_of_not_and_than_refute_nothing(said: str) -> None:
    """Only a number that they stand before is refuted."""
    assert feature(team(_SOLVER, ("checker", said)), "is refuted") == [0.0, 0.0]


def test_refuting_a_source_is_wrong_as_well() -> None:
    """What the task gives is right by definition."""
    run = team(("checker", "The rent is 84, not 48."), task="The rent is 48. What is the rent of two?")

    assert feature(run, "refutes what is right") == [1.0]


def test_correction_contradicts_what_it_corrects() -> None:
    """Its statement is the number that it puts in place of the other."""
    run = team(("solver", "The rent of the house is 150."), ("checker", "The rent of the house is 510, not 150."))

    assert [each.values for each in analyse(run).facts.conflicts] == [("150", "510")]


def test_wrong_sum_stands_until_somebody_refutes_it() -> None:
    """What is used goes on; what is put right does not; what nobody takes up does no harm."""
    used = team(_SLIP, ("reporter", "We pay 250."))
    put_right = team(_SLIP, ("checker", "It is 150, not 250."), ("reporter", "We pay 150."))
    left = team(_SLIP, ("reporter", "We pay nothing."))

    assert [feature(run, "a wrong sum stands")[0] for run in (used, put_right, left)] == [1.0, 0.0, 0.0]


def test_wrong_sum_below_zero_stands_with_its_sign() -> None:
    """What is said again is the debt, not the same number above zero."""
    slip: Said = ("solver", "The balance is 120 - 150 = -40.")

    assert feature(team(slip, ("reporter", "We end at -40.")), "a wrong sum stands")[0] == 1.0
    assert feature(team(slip, ("reporter", "We end at 40.")), "a wrong sum stands")[0] == 0.0
