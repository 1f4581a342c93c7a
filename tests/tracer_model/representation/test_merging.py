from __future__ import annotations

from blamespan.trace import MessageActionTrace
from blamespan_tracer.representation.steps import merge
from tests.tracer_model.representation.teams import team


def drawn(trace: MessageActionTrace, *, turns: bool = False) -> list[tuple[str, list[int], list[int]]]:
    """Each merged step: who, the original steps, the results."""
    merged, _ = merge(trace, turns=turns)
    return [(each.agent, [step.index for step in each.said], [step.index for step in each.results]) for each in merged]


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
