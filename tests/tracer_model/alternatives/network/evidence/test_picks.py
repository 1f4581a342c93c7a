"""A pick is held against the values that were said, where the task asks for the most or the least."""

from __future__ import annotations

import pytest

from blamespan.trace import MessageActionTrace
from tests.tracer_model.teams import feature, team

_TASK = "The hall to be booked is the one with the {} cost. Alder Hall, Birch Hall and Cedar Barn are offered."
_COSTS = "The cost of Alder Hall is 120. The cost of Birch Hall is 240. The cost of Cedar Barn is 360."


def picked(text: str, *before: str, task: str = "lowest") -> list[str]:
    """What is said of the pick of the last step."""
    said = [("solver", each) for each in before]
    run: MessageActionTrace = team(*said, ("picker", text), task=_TASK.format(task))
    names = ("picks the right one", "picks a wrong one", "picks what was refused")
    return [name for name in names if feature(run, name)[-1]]


@pytest.mark.parametrize(
    ("task", "name", "judged"),
    [
        ("lowest", "Alder Hall", "picks the right one"),
        ("smallest", "Cedar Barn", "picks a wrong one"),
        ("highest", "Cedar Barn", "picks the right one"),
        ("largest", "Birch Hall", "picks a wrong one"),
    ],
)
def test_pick_is_held_against_the_values_said(task: str, name: str, judged: str) -> None:
    """Most or least, as the task has it."""
    assert picked(f"So the hall to be booked is {name}.", _COSTS, task=task) == [judged]


def test_what_was_refused_does_not_count_and_must_not_be_picked() -> None:
    """Unless it was found to fit after all."""
    refused = "The offer of Alder Hall is not suitable."

    assert picked("The hall to be booked is Birch Hall.", _COSTS, refused) == ["picks the right one"]
    assert picked("The hall to be booked is Alder Hall.", _COSTS, refused) == ["picks what was refused"]
    assert picked("The hall to be booked is Alder Hall.", _COSTS, refused, "The offer of Alder Hall is suitable.") == [
        "picks the right one"
    ]


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("The hall to be booked is Dogwood Inn.", "lowest"),
        ("The hall to be booked is Alder Hall.", "nicest"),
        ("The maker of the lamps is Alder Hall.", "lowest"),
        ("We have to book Alder Hall.", "lowest"),
    ],
)
def test_nothing_is_said_of_what_cannot_be_compared(text: str, task: str) -> None:
    """A name without a value, a task without a most or least, a statement on something else, no statement."""
    assert picked(text, _COSTS, task=task) == []
