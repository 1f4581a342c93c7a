"""How a step is said."""

from __future__ import annotations

import pytest

from tests.tracer_model.representation.teams import feature, team


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


@pytest.mark.parametrize(
    ("result", "fails"),
    [("3 passed, 0 failed", 0.0), ("2 passed, 1 failed", 1.0), ("no errors found", 0.0), ("the query failed", 1.0)],
)
def test_an_error_that_there_is_none_of(result: str, fails: float) -> None:
    """Tests that pass say how many failed."""
    run = team(("tester", "run_tests({})", "tool_call"), ("tester", result, "tool_result"), ("tester", "Done."))

    assert feature(run, "result fails")[0] == fails
