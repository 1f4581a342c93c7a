"""What the task gives and says is to be said again whole, and the same way round."""

from __future__ import annotations

import pytest

from tests.tracer_model.teams import feature, team

_TASK = (
    "The rent of Harbour Inn is 171. The fee of Harbour Inn is 43. The rent of Birch House is 262. The fee of Birch "
    "House is 58. The cost is the larger of the rent and the fee. The empty rooms: left out. The full boxes are kept. "
    "Name the house."
)


def test_what_is_left_out_of_what_the_task_gives() -> None:
    """Three of four numbers are most of them: the fourth is left out, for good if nobody says it later."""
    short = ("planner", "Harbour Inn's rent: 171. Birch House's rent: 262. Its fee: 58.")
    reply = ("solver", "The fee of Harbour Inn is 43.")

    assert feature(team(short, task=_TASK), "leaves out what the task gives")[0] == 0.25
    assert feature(team(short, task=_TASK), "leaves out for good")[0] == 1
    assert feature(team(short, reply, task=_TASK), "leaves out for good")[0] == 0


@pytest.mark.parametrize("said", ["The rent is 171.", "171, 43, 262 and 58 are given.", "Nothing is known."])
def test_nothing_is_left_out_of_what_is_not_said_again(said: str) -> None:
    """Who says one number, all of them, or none does not say the task again in part."""
    assert feature(team(("planner", said), task=_TASK), "leaves out what the task gives")[0] == 0


@pytest.mark.parametrize(
    ("said", "turned"),
    [
        ("Take the smaller of the rent and the fee for the cost.", 1.0),
        ("Take the greater of the rent and the fee for the cost.", 0.0),
        ("Take the smaller step first.", 0.0),
        ("Neither the larger nor the smaller of the rent and the fee is the cost.", 0.0),
    ],
)
def test_comparison_turned_round(said: str, turned: float) -> None:
    """A sentence about the same things with the other side; another word for the same side is fine."""
    assert feature(team(("planner", said), task=_TASK), "turns a comparison round")[0] == turned


@pytest.mark.parametrize(
    ("said", "rewords"),
    [
        ("The empty rooms: kept.", 1.0),
        ("The empty rooms are left out.", 0.0),
        ("Make sure that the full boxes are kept.", 0.0),
        ("The full boxes are nice. The full boxes are kept.", 0.0),
    ],
)
def test_short_rule_in_other_words(said: str, rewords: float) -> None:
    """`left out` and `kept` are two things; what is said besides the rule is no matter."""
    assert feature(team(("planner", said), task=_TASK), "rewords a rule")[0] == rewords


@pytest.mark.parametrize("said", ["I am asked for the rent per driver.", "Next comes the rent per driver."])
def test_what_several_sentences_speak_of_is_no_rule(said: str) -> None:
    """What is asked and worked out may be spoken of in any words."""
    task = "Divide the rent by the drivers to get the rent per driver. Find the rent per driver."

    assert feature(team(("planner", said), task=task), "rewords a rule")[0] == 0


@pytest.mark.parametrize(
    ("said", "drops"),
    [
        ("The rent of Birch House, the fee of Birch House, and the larger for the cost. Empty rooms out.", 1.0),
        ("The rent of Birch House, the fee of Harbour Inn, and the larger for the cost. Empty rooms out.", 0.0),
        ("The rent of Birch House is 262.", 0.0),
        ("The rent and the fee of each house, and the larger for the cost. Empty rooms are left out.", 0.0),
    ],
)
def test_task_said_again_without_a_name(said: str, drops: float) -> None:
    """Who says most of the task says both houses, or none; who says little may speak of one."""
    assert feature(team(("planner", said), task=_TASK), "says the task without a name")[0] == drops
