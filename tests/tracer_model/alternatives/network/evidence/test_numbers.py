"""A number that stands beside another name than ever before is somebody else's."""

from __future__ import annotations

import pytest

from tests.tracer_model.teams import feature, team

_CALL = 'sum({"where": "region = North"})'


@pytest.mark.parametrize(
    ("said", "share"),
    [
        ("The total of West is 412.", 1.0),
        ("The total of North is 412.", 0.0),
        ("North and West have 412.", 0.0),
        ("The total is 412.", 0.0),
        ("The total of West is 977.", 0.0),
        ("The total of West is 412 - 20 = 392.", 0.5),
    ],
)
def test_number_of_another_name_stands_out(said: str, share: float) -> None:
    """What a tool answers belongs to what it was asked for; numbers without a name or a source are nobody's."""
    run = team(
        ("searcher", _CALL, "tool_call"),
        ("searcher", "412", "tool_result"),
        ("reader", "The total of West was 20 once."),
        ("solver", said),
        task="Compare the totals of North and West.",
    )

    assert feature(run, "numbers of others")[-1] == pytest.approx(share)


def test_number_of_two_names_belongs_to_both() -> None:
    """As long as one place has it beside the name, it is rightly there."""
    run = team(
        ("reader", "North has 412."),
        ("reader", "West has 412, too."),
        ("solver", "So it is 412 for West."),
        task="Compare the totals of North and West.",
    )

    assert feature(run, "numbers of others")[-1] == 0


@pytest.mark.parametrize(
    ("said", "strange"),
    [
        ("The pages a week are 684.", 1.0),
        ("The pages of the reports are 684.", 0.0),
        ("The pages of the reports in a week are 684.", 0.0),
        ("The pages a week are 700 - 16 = 684.", 0.0),
        ("So it is 684.", 0.0),
        ("The pages a week are 12.", 0.0),
    ],
)
def test_value_of_another_thing_stands_out(said: str, strange: float) -> None:
    """What was said of the reports alone is not the weeks', unless a sum comes to it."""
    run = team(
        ("reader", "The pages of the reports are 684."),
        ("solver", said),
        task="How many pages a week are the pages of the reports and of the tales?",
    )

    assert feature(run, "a value of others")[-1] == strange


@pytest.mark.parametrize(
    ("said", "is_unexplained"),
    [
        ("The sum is 420.", False),  # 388 + 32
        ("The share is 388 * 3 = 1164.", False),
        ("It is 388.", False),
        ("It is 977.", True),
    ],
)
def test_number_is_explained_by_a_source_a_sum_or_two_numbers(said: str, *, is_unexplained: bool) -> None:
    """Anything else is somebody's invention, or a slip."""
    run = team(("searcher", "I found 388 in one place and 32 in the other."), ("solver", said))

    assert feature(run, "a number nothing explains")[1] == is_unexplained


@pytest.mark.parametrize(
    ("said", "is_mistakable"), [("It is 838.", True), ("It is 380.", True), ("It is 38.", True), ("It is 420.", False)]
)
def test_number_with_the_digits_of_another_may_be_a_slip(said: str, *, is_mistakable: bool) -> None:
    """Digits in another order, one digit off, one digit short."""
    run = team(("searcher", "I found 388 in one place and 32 in the other."), ("solver", said))

    assert feature(run, "a mistakable number")[1] == is_mistakable
