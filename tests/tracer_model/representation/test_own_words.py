"""Calls and results that a message begins with are not what its agent says."""

from __future__ import annotations

import dataclasses

import pytest

from blamespan_tracer.representation import analyse
from blamespan_tracer.representation.steps import cut_own_words
from tests.tracer_model.representation.teams import Said, team

_CALL, _RESULT = 'sum({"column": "plants"})', "388\nrows: 4"
_MADE: tuple[Said, ...] = (("searcher", _CALL, "tool_call"), ("searcher", _RESULT, "tool_result"))


@pytest.mark.parametrize(
    ("text", "own"),
    [
        (f"{_CALL}\n{_RESULT}\nThere are 388 plants.", "There are 388 plants."),
        (f"{_RESULT}\n{_CALL}\nThere are 388 plants.", "There are 388 plants."),
        (f"{_CALL}\n{_RESULT}", ""),
        ("There are 388 plants.", "There are 388 plants."),
        (f"I called {_CALL}", f"I called {_CALL}"),
        (f"{_RESULT}0 in all", f"{_RESULT}0 in all"),
    ],
)
def test_calls_and_results_that_a_message_begins_with_are_left_out(text: str, own: str) -> None:
    """In any order, each once, whole lines only; what follows is the agent's."""
    assert cut_own_words(team(*_MADE, ("searcher", text)))[2] == own


@pytest.mark.parametrize(
    "text",
    [
        f"{_CALL}\nError: ValueError('no such column')\n{_CALL}\n{_RESULT}\nThere are 388 plants.",
        f"{_CALL}\n{_CALL}\nError: 1 error for sum\nquery\n  Field required\n{_RESULT}\nThere are 388 plants.",
        f"{_CALL}\n{_CALL}\n{_RESULT}\nError: None\nThere are 388 plants.",
    ],
)
def test_errors_among_them_are_left_out(text: str) -> None:
    """However the framework spells them: up to the next call or result, or for a line."""
    failed = team(("searcher", _CALL, "tool_call"), ("searcher", "no such column", "tool_result"), *_MADE)
    steps = tuple(dataclasses.replace(step, status="error" if step.index == 1 else "ok") for step in failed.steps)
    said = team(*_MADE, *_MADE, ("searcher", text)).steps[4]

    assert cut_own_words(dataclasses.replace(failed, steps=(*steps, said)))[4] == "There are 388 plants."


@pytest.mark.parametrize("ending", ["", "\nTransferred to solver.", "\nSuccessfully transferred to solver\n"])
def test_handing_over_by_a_tool_is_left_out(ending: str) -> None:
    """Only where the step hands over, and only at its end."""
    text = f"There are 388 plants.\ntransfer_to_solver({{}}){ending}"

    assert cut_own_words(team(("searcher", text, "handoff"))) == ["There are 388 plants."]
    assert cut_own_words(team(("searcher", text))) == [text]


def test_others_may_quote_them() -> None:
    """Who repeats a result that it did not ask for says it, and so does its agent in a later message."""
    run = team(*_MADE, ("searcher", "Done."), ("checker", _RESULT), ("searcher", _RESULT))

    assert cut_own_words(run) == [_CALL, _RESULT, "Done.", _RESULT, _RESULT]


def test_what_is_asked_of_tools_contradicts_nothing() -> None:
    """Two calls for two months are no two statements on one region, not even where the message repeats them."""
    months = [f'sum({{"where": "region = North and month = {month}"}})' for month in ("January", "February")]
    run = team(
        ("searcher", months[0], "tool_call"),
        ("searcher", months[1], "tool_call"),
        ("searcher", "\n".join([*months, "Both are done."])),
    )

    assert analyse(run).facts.conflicts == ()
