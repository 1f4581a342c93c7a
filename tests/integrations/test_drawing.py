"""A drawing says all that a trace says, so that comparing drawings compares traces."""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from blamespan.trace import Agent, MessageActionTrace, Step, Usage
from tests.integrations.drawing import draw

RUN = MessageActionTrace(
    "a" * 32,
    "write",
    (
        Step(0, "1" * 16, "writer", content="a draft", recipients=("critic",)),
        Step(1, "2" * 16, "critic", "tool_call", "look({})", inputs=(0,), status="error", error="ToolError"),
        Step(2, "2" * 16, "critic", "tool_result", "no such\npage", inputs=(1,), status="error", error="ToolError"),
        Step(3, "3" * 16, "critic", content="too short", inputs=(0, 2), usage=Usage(7, 3), attributes={"step": 2}),
    ),
    (Agent("writer"), Agent("critic"), Agent("user", "user")),
)


def test_drawing_shows_every_step_on_its_line() -> None:
    """Task, agents, and of each step what it is, to whom, after what, how it ended and what it cost."""
    drawing = draw(RUN)

    assert drawing == dedent("""\
        task: write
        agents: writer, critic, user (user)
        0 writer: message 'a draft' to critic
        1 critic: tool_call 'look({})' after 0, error ToolError
        2 critic: tool_result 'no such\\npage' after 1, error ToolError
        3 critic: message 'too short' after 0 2, 7+3 tokens, step=2""")


_STEP = RUN.steps[0]


@pytest.mark.parametrize(
    "other",
    [
        replace(RUN, task="write\nagents: writer"),
        replace(RUN, task=""),
        replace(RUN, outcome="failed"),
        replace(RUN, agents=RUN.agents[::-1]),
        replace(RUN, agents=(*RUN.agents, Agent("other"))),
        replace(RUN, agents=(*RUN.agents[:2], Agent("user", "executor"))),
        replace(RUN, steps=RUN.steps[:3]),
        *(
            replace(RUN, steps=(replace(_STEP, **change), *RUN.steps[1:]))
            for change in (
                {"agent": "critic"},
                {"kind": "plan"},
                {"content": "a draft' to critic"},
                {"recipients": ("critic", "user")},
                {"recipients": ("critic, user",)},
                {"status": "ok"},
                {"error": "ToolError"},
                {"usage": Usage()},
                {"attributes": {"step": "2"}},
            )
        ),
    ],
    ids=lambda run: draw(run).replace("\n", "|")[:60],
)
def test_runs_that_differ_are_drawn_differently(other: MessageActionTrace) -> None:
    """Nothing that a trace says can change without its drawing."""
    drawing = draw(other)

    assert drawing != draw(RUN)


def test_names_cannot_forge_other_steps() -> None:
    """A name or task that holds line breaks or separators stands in quotes."""
    forged = "a: message 'x'\n1 b"
    run = MessageActionTrace(
        "a" * 32, "do\nit", (Step(0, "1" * 16, forged, recipients=("b after 1",)),), (Agent(forged),)
    )

    assert draw(run) == dedent("""\
        task: 'do\\nit'
        agents: "a: message 'x'\\n1 b"
        0 "a: message 'x'\\n1 b": message '' to 'b after 1'""")


def test_ids_and_times_are_not_drawn() -> None:
    """Two recordings of one run have one drawing."""
    later = tuple(
        replace(step, span_id=f"{index + 9:016x}", start_ns=5, end_ns=6) for index, step in enumerate(RUN.steps)
    )
    later = (*later[:2], replace(later[2], span_id=later[1].span_id), later[3])

    assert draw(replace(RUN, trace_id="b" * 32, steps=later)) == draw(RUN)


def test_hidden_attributes_are_left_out() -> None:
    """What a test cannot know beforehand can be hidden by its key."""
    assert draw(RUN, hide={"step"}) == draw(RUN).removesuffix(", step=2")
