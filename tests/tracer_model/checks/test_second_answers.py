"""A step that has come to one answer ends on that one."""

from __future__ import annotations

import pytest

from tests.tracer_model.representation.teams import feature, team

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
