"""Calls that ask for what nobody wanted, and results that are told of something else, show at their steps."""

from __future__ import annotations

import pytest

from tests.tracer_model.teams import Said, feature, team

_WANTED = "Look up the plants in Alder. Look up the losses in Birch. Look up the plants in Cedar."


def look(column: str, field: str, result: str) -> list[Said]:
    """Look the sum of a column up, as a step of its own, and get a number."""
    arguments = f'{{"function": "sum", "column": "{column}", "where": "field = {field}"}}'
    return [("searcher", f"aggregate({arguments})", "tool_call"), ("searcher", result, "tool_result")]


def test_call_that_nobody_asked_for_fits_no_sentence() -> None:
    """Losses in Birch are spoken of, and plants in Alder; plants in Birch are not."""
    run = team(
        ("planner", _WANTED), *look("plants", "Alder", "388"), ("planner", "Go on."), *look("plants", "Birch", "412")
    )

    assert feature(run, "call misfits") == [0.0, 0.0, 0.0, 0.5]


def test_what_calls_never_ask_with_fits_nowhere_and_is_not_missed() -> None:
    """A column that the task names once, and sentences ask for under another name, is no reason for doubt."""
    asked = "Get the stock of Oslo. Get the stock of Turin. Get the stock of Brno."
    calls = [("searcher", f'query({{"sql": "units of {city}"}})', "tool_call") for city in ("Oslo", "Turin", "Brno")]

    run = team(("planner", asked), *calls, task="The table has the columns units and city.")

    assert feature(run, "call misfits") == [0.0] * 4


@pytest.mark.parametrize("result", ["412", "57"])
def test_result_told_of_something_else_shows_at_the_call_and_where_it_is_told(result: str) -> None:
    """The plants in Birch are asked for, and told as the plants in Cedar: a bare result of two digits is one too."""
    run = team(
        ("planner", _WANTED),
        *look("plants", "Alder", "388"),
        ("planner", "Go on."),
        *look("plants", "Birch", result),
        ("planner", "And the losses?"),
        *look("losses", "Birch", "731"),
        ("searcher", f"The plants in Alder are 388. The plants in Cedar are {result}. The losses in Birch are 731."),
    )

    assert feature(run, "its result is told of another") == [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    assert feature(run, "tells a result of another") == [*[0.0] * 6, 1.0]


def test_results_told_of_what_was_asked_are_silent() -> None:
    """In the plural or without the column's name, in any order, and again by others."""
    run = team(
        ("planner", "Look up the stock of lamps in Oslo, of radios in Turin, and of desks in Brno."),
        *look("lamp", "Oslo", "388"),
        *look("radio", "Turin", "57"),
        *look("desk", "Brno", "731"),
        ("searcher", "Stock: 731 of the desks, in Brno. The radios in Turin are 57. We have 388 lamps in Oslo."),
        ("solver", "So Oslo has 388, and Turin has 57."),
    )

    assert not any(feature(run, "its result is told of another"))
    assert not any(feature(run, "tells a result of another"))


def test_number_that_two_calls_got_is_no_ones() -> None:
    """Whose it is cannot be told."""
    run = team(
        ("planner", _WANTED),
        *look("plants", "Alder", "388"),
        ("planner", "Go on."),
        *look("plants", "Birch", "388"),
        ("searcher", "The plants in Cedar are 388."),
    )

    assert not any(feature(run, "its result is told of another"))
