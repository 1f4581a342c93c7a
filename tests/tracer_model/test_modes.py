"""Modes: what needs two agents is never said of one."""

from __future__ import annotations

from itertools import cycle

import pytest

from blamespan.taxonomy import AEGIS, MAST, ErrorMode
from blamespan.trace import MessageActionTrace
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.modes import MODES, can_show, mode_of, mode_of_step
from tests.tracer_model.teams import team

NEEDS_ANOTHER = [taxonomy[code] for taxonomy in (MAST, AEGIS) for code in ("FM-2.4", "FM-2.5")]


def _run(*names: str) -> MessageActionTrace:
    texts = (
        "I know the budget is 400 euros, but I will not mention it, since nobody needs it.",
        "I ignore what was said about the budget of 400 euros and order for 900 euros.",
        "The order over 900 euros is placed. I disregard all other messages.",
    )
    return team(*zip(cycle(names), texts, strict=False), task="Order chairs.")


@pytest.mark.parametrize("mode", NEEDS_ANOTHER, ids=str)
def test_one_agent_withholds_from_nobody(mode: ErrorMode) -> None:
    """Two agents can withhold from and ignore each other, one cannot; everything else one can do as well."""
    assert not can_show(_run("Solo"), mode)
    assert can_show(_run("Buyer", "Clerk"), mode)
    assert all(can_show(_run("Solo"), other) for other in MODES if other not in NEEDS_ANOTHER)


@pytest.mark.parametrize("load", [AutoTracer.bundled, LexicalTracer.bundled])
def test_no_tracer_says_so(load: type) -> None:
    """Of a run of one agent no tracer names such a mode, whatever its words call for."""
    [alone, _] = load().attribute([_run("Solo"), _run("Buyer", "Clerk")])

    assert alone.modes
    assert not {blame.mode for blame in alone.modes}.intersection(NEEDS_ANOTHER)


RUN = team(
    ("planner", "We need the price of the red kettle."),
    ("clerk", 'ask({"item": "kettle"})', "tool_call"),
    ("clerk", "48", "tool_result"),
    ("clerk", "It costs 48 euros."),
    ("clerk", "transfer_to_buyer({})", "tool_call"),
    ("clerk", "Transferred to buyer.", "tool_result"),
    ("buyer", 'order({"price": 48})', "tool_call"),
)
"""A tool answers the clerk, who tells the buyer."""


@pytest.mark.parametrize(
    ("step", "source", "mode"),
    [
        (3, 2, "blamespan:X3"),  # its own tool
        (3, 0, "mast:FM-2.5"),  # another agent
        (3, 3, "blamespan:X3"),  # what it was given for this step
        (3, 1, "mast:FM-2.6"),  # its own word
        (6, 3, "mast:FM-2.5"),  # another agent, in an argument
        (6, 2, "mast:FM-2.5"),  # what the tool told another agent
        (6, None, "blamespan:X2"),  # the task, in an argument
        (0, None, "mast:FM-1.1"),  # the task
        (0, -1, "mast:FM-1.1"),
    ],
)
def test_mode_goes_by_whose_word_is_contradicted(step: int, source: int | None, mode: str) -> None:
    """One mistake has another name with another source: the blamed step and the values play no part."""
    assert str(mode_of(RUN, step, source)) == mode


@pytest.mark.parametrize(("step", "mode"), [(0, "FM-1.1"), (1, "FM-2.5"), (3, "FM-2.6"), (6, "FM-2.5")])
def test_mode_without_a_source_goes_by_what_stood_right_before(step: int, mode: str) -> None:
    """Where nothing shows the mistake, the mode is that of not heeding the nearest word; hand-overs say none."""
    assert str(mode_of_step(RUN, step)) == f"mast:{mode}"
