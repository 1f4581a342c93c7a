"""What the last answer rests on, and where it begins."""

from __future__ import annotations

import pytest

from tests.tracer_model.teams import Said, feature, team

_TASK = "The rent is 417 and the fee is 86. What are five rents and fees?"
_SUM: Said = ("solver", "The cost is 417 + 86 = 503.")
_FIVE: Said = ("helper", "Five of them come to 503 * 5 = 2515.")
_END: Said = ("reporter", "The final answer is 2515.")


def test_an_answer_is_followed_through_sums_to_the_task() -> None:
    """Who says it, who worked it out and who worked out what that took; who only talks carries nothing."""
    run = team(("chair", "Let us begin."), _SUM, _FIVE, ("chair", "Well done."), _END, task=_TASK)

    assert feature(run, "carries the last answer") == [0, 1, 1, 0, 1]
    assert feature(run, "works out the last answer") == [0, 1, 1, 0, 0]
    assert feature(run, "begins the last answer") == [0, 0, 0, 0, 0]


def test_what_was_put_right_in_time_carries_nothing() -> None:
    """A slip that was corrected is odd, and no part of what the answer rests on."""
    slip: Said = ("solver", "The cost is 417 + 86 = 530.")
    check: Said = ("checker", "By my working 417 + 86 = 503, not 530.")
    run = team(slip, check, _FIVE, _END, task=_TASK)

    assert feature(run, "is odd")[0] == 1
    assert feature(run, "is odd and carries the last answer") == [0, 0, 0, 0]
    assert feature(run, "carries the last answer") == [0, 1, 1, 1]


def test_numbers_below_zero_are_followed() -> None:
    """A debt is taken up with its sign."""
    debt: Said = ("solver", "The balance is 417 - 530 = -113.")
    run = team(debt, ("helper", "Half of it is -113 / 2 = -56.5."), ("reporter", "It is -56.5."), task=_TASK)

    assert feature(run, "carries the last answer") == [1, 1, 1]


@pytest.mark.parametrize(("said", "begins"), [("I know that the cost is 777.", 1), ("The cost is 417 + 86 = 503.", 0)])
def test_an_answer_from_nowhere_begins_where_it_is_first_said(said: str, begins: float) -> None:
    """Neither the task nor a tool nor a sum gave it."""
    last = said.rstrip(".").rpartition(" ")[2]
    run = team(("solver", said), ("reporter", f"The final answer is {last}."), task=_TASK)

    assert feature(run, "begins the last answer") == [begins, 0]


def test_what_a_tool_gave_begins_at_the_tool() -> None:
    """Its call carries the value, and what the call calculates with is followed as well."""
    call: Said = ("solver", 'calculate({"expression": "777 * 5"})', "tool_call")
    result: Said = ("solver", "3885", "tool_result")
    run = team(("helper", "I take 777 for the cost."), call, result, ("reporter", "The answer is 3885."), task=_TASK)

    assert feature(run, "carries the last answer") == [1, 1, 0]
    assert feature(run, "begins the last answer") == [1, 0, 0]


def test_a_name_is_followed_by_who_states_it() -> None:
    """Who only speaks of it states nothing of it."""
    run = team(
        ("solver", "We look at Harbour Inn and at Birch House first."),
        ("helper", "The house to be booked is Birch House."),
        ("reporter", "The house to be booked is Birch House."),
        task="Is it Harbour Inn or Birch House? Name the house to be booked.",
    )

    assert feature(run, "carries the last answer") == [0, 1, 1]


def test_what_a_name_was_picked_by_is_followed() -> None:
    """The last cost of each house, and not one that was put right before."""
    run = team(
        ("solver", "The cost of Harbour Inn is 417 + 86 = 530. The cost of Birch House is 301 + 77 = 378."),
        ("checker", "The cost of Harbour Inn is 417 + 86 = 503."),
        ("reporter", "The house to be booked is Birch House."),
        task="The rents are 417 and 301, the fees 86 and 77. Which costs less, Harbour Inn or Birch House?",
    )
    slip = team(
        ("helper", "The cost of Harbour Inn is 417 + 86 = 530."),
        ("solver", "The cost of Harbour Inn is 417 + 86 = 503. The cost of Birch House is 301 + 77 = 378."),
        ("reporter", "The house to be booked is Birch House."),
        task=run.task,
    )

    assert feature(run, "carries the last answer") == [1, 1, 1]
    assert feature(slip, "is odd and carries the last answer") == [0, 0, 0]


def test_a_circle_ends() -> None:
    """Two values that are each said to come from the other are followed once each."""
    run = team(("solver", "101 + 102 = 203."), ("helper", "203 - 102 = 101."), ("reporter", "The answer is 203."))

    assert sum(feature(run, "carries the last answer")) >= 2


def test_the_last_code_is_followed_to_who_wrote_it() -> None:
    """Another piece of code before it leads nowhere."""
    code = "```python\ndef f(x):\n    return x + {}\n```"
    run = team(
        ("coder", code.format(1)),
        ("coder_2", code.format(2)),
        ("checker", "It checks out."),
        ("reporter", f"Here it is.\n{code.format(2)}"),
        task="Write a function.",
    )

    assert feature(run, "carries the last answer") == [0, 1, 0, 1]
    assert feature(run, "begins the last answer") == [0, 1, 0, 0]
