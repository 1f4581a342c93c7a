"""A step ends where a sentence ends, and on the answer that it came to."""

from __future__ import annotations

import pytest

from tests.tracer_model.teams import feature, team

_TASK = "Find the pages a week, or the region to be named: North or West."


@pytest.mark.parametrize(
    ("said", "second"),
    [
        ("The pages a week are 178.8 / 2 = 89.4. So we get 98.4.", 1.0),
        ("The pages a week are 178.8 / 2 = 89.4. So we get 89.4.", 0.0),
        ("The pages a week are 89.4. So the pages are 98.4.", 0.0),
        ("We get 61.", 0.0),
        ("North is the region to be named. Then the answer is West.", 1.0),
        ("North is the region to be named. Then the answer is North.", 0.0),
        ("", 0.0),
    ],
)
def test_another_answer_at_the_end(said: str, second: float) -> None:
    """Said of nothing in particular, and new: neither what was found, nor a thing of its own, nor known before."""
    run = team(("solver", "It may be 61."), ("checker", said), task=_TASK)

    assert feature(run, "ends on another answer")[-1] == second


@pytest.mark.parametrize(
    ("said", "breaks_off"),
    [
        ("The total of the rents in the north is what we have to look up before we can go", 1.0),
        ("The total of the rents in the north is what we have to look up before we can go on.", 0.0),
        ("The total of the rents in the north is what we have to look up first. APPROVED", 0.0),
        ("The total of the", 1.0),
        ("```python\nprint(1)", 1.0),
        ("```python\nprint(1)\n```", 0.0),
        ("go ahead", 0.0),
        ("", 0.0),
    ],
)
def test_message_that_breaks_off(said: str, breaks_off: float) -> None:
    """It ends with a mark, in capitals, or is a few words; code ends with its fence."""
    assert feature(team(("solver", said)), "breaks off")[-1] == breaks_off


def test_whose_turn_it_is_breaks_nothing_off() -> None:
    """Who leads names who is next, and nothing comes behind it."""
    said = "We have enough to make some progress here, so let us settle the rent next. NEXT: {}"

    for name, breaks_off in (("solver_2", 0.0), ("nobody here", 1.0)):
        run = team(("leader", said.format(name)), ("solver_2", "It is 12."))
        assert feature(run, "breaks off")[0] == breaks_off
