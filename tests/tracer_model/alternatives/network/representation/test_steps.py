"""Steps become decisions; calls and results that a message begins with are not its agent's own words."""

from __future__ import annotations

import dataclasses

import pytest

from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.network.representation import analyse
from blamespan_tracer.alternatives.network.representation.steps import merge
from blamespan_tracer.own_words import OwnWords
from tests.tracer_model.teams import Said, team


def drawn(trace: MessageActionTrace, *, turns: bool = False) -> list[tuple[str, list[int], list[int]]]:
    """Each merged step: who, the original steps, the results."""
    merged, _ = merge(trace, turns=turns)
    return [
        (each.agent, [step.index for step in each.origins], [step.index for step in each.results]) for each in merged
    ]


SEVERAL_IN_A_ROW = team(
    ("planner", "first this", "plan"),
    ("planner", "then that"),
    ("worker", "I look it up"),
    ("worker", "look({})", "tool_call"),
    ("worker", "found", "tool_result"),
    ("worker", "it is 7"),
    ("planner", "done"),
)


def test_each_thing_an_agent_says_or_does_is_a_decision() -> None:
    """One message of several in a row may be wrong; a call stands with its tool's answer."""
    assert drawn(SEVERAL_IN_A_ROW) == [
        ("planner", [0], []),
        ("planner", [1], []),
        ("worker", [2], []),
        ("worker", [3], [4]),
        ("worker", [5], []),
        ("planner", [6], []),
    ]


def test_turns_are_what_an_agent_says_before_it_hears_anything_new() -> None:
    """A call is one by itself."""
    assert drawn(SEVERAL_IN_A_ROW, turns=True) == [
        ("planner", [0, 1], []),
        ("worker", [2], []),
        ("worker", [3], [4]),
        ("worker", [5], []),
        ("planner", [6], []),
    ]


def test_what_people_say_in_a_row_is_one_step() -> None:
    """Nobody blames them for any of it."""
    run = team(("user", "Hello."), ("user", "Count them."), ("worker", "Seven."), roles={"user": "user"})

    assert drawn(run) == [("user", [0, 1], []), ("worker", [2], [])]


def test_results_of_calls_side_by_side_find_their_call() -> None:
    """A result that comes late belongs to the step that its input names."""
    run = team(
        ("one", "a({})", "tool_call"),
        ("two", "b({})", "tool_call"),
        ("one", "A", "tool_result"),
        ("two", "B", "tool_result"),
        inputs={2: [0], 3: [1]},
    )

    assert drawn(run) == [("one", [0], [2]), ("two", [1], [3])]


def test_calls_made_at_once_are_decisions_apart() -> None:
    """One of them may be wrong, and its result alone an error."""
    run = team(
        ("one", "a({})", "tool_call"),
        ("one", "b({})", "tool_call"),
        ("one", "A", "tool_result"),
        ("one", "B", "tool_result"),
        inputs={2: [0], 3: [1]},
    )

    assert drawn(run) == [("one", [0], [2]), ("one", [1], [3])]


def test_messages_of_a_lone_agent_are_turns_of_their_own() -> None:
    """Where one agent alone decides, nothing would be left to tell apart."""
    run = team(
        ("solo", "one"),
        ("solo", "two"),
        ("solo", "f({})", "tool_call"),
        ("solo", "x", "tool_result"),
        ("solo", "three"),
    )

    assert drawn(run, turns=True) == [("solo", [0], []), ("solo", [1], []), ("solo", [2], [3]), ("solo", [4], [])]


def test_executor_is_never_a_decision() -> None:
    """What an executor prints is attached to who wrote the code, and a first result nobody asked for stands alone."""
    run = team(
        ("terminal", "ready", "tool_result"),
        ("coder", "print(1)"),
        ("terminal", "1", "tool_result"),
        roles={"terminal": "executor"},
    )
    merged, owner = merge(run)

    assert [(each.agent, each.can_be_blamed) for each in merged] == [("terminal", False), ("coder", True)]
    assert owner == [0, 1, 1]


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
    assert OwnWords.of_run(team(*_MADE, ("searcher", text)).steps)[2] == own


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

    assert OwnWords.of_run([*steps, said])[4] == "There are 388 plants."


@pytest.mark.parametrize("ending", ["", "\nTransferred to solver.", "\nSuccessfully transferred to solver\n"])
def test_handing_over_by_a_tool_is_left_out(ending: str) -> None:
    """Only where the step hands over, and only at its end."""
    text = f"There are 388 plants.\ntransfer_to_solver({{}}){ending}"

    assert OwnWords.of_run(team(("searcher", text, "handoff")).steps) == ["There are 388 plants."]
    assert OwnWords.of_run(team(("searcher", text)).steps) == [text]


def test_others_may_quote_them() -> None:
    """Who repeats a result that it did not ask for says it, and so does its agent in a later message."""
    run = team(*_MADE, ("searcher", "Done."), ("checker", _RESULT), ("searcher", _RESULT))

    assert OwnWords.of_run(run.steps) == [_CALL, _RESULT, "Done.", _RESULT, _RESULT]


def test_what_is_asked_of_tools_contradicts_nothing() -> None:
    """Two calls for two months are no two statements on one region, not even where the message repeats them."""
    months = [f'sum({{"where": "region = North and month = {month}"}})' for month in ("January", "February")]
    run = team(
        ("searcher", months[0], "tool_call"),
        ("searcher", months[1], "tool_call"),
        ("searcher", "\n".join([*months, "Both are done."])),
    )

    assert analyse(run).facts.conflicts == ()
