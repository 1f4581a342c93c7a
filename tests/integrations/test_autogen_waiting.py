"""A team that hands over to a user waits; its next run goes on from there."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from autogen_agentchat.base import Handoff
from autogen_agentchat.conditions import HandoffTermination, MaxMessageTermination
from autogen_agentchat.messages import HandoffMessage
from autogen_agentchat.teams import Swarm
from opentelemetry.instrumentation.utils import suppress_instrumentation

from blamespan import conventions as words
from blamespan.spans import Span
from blamespan.testing import SpanRecorder
from tests.integrations.autogen_runs import (
    assistant,
    calls,
    named,
)


def asking_team() -> Swarm:
    """Make a team of one that asks the user, then answers."""
    solver = assistant(
        "solver",
        calls(("transfer_to_user", {})),
        "12 * 3 = 36",
        "And 37.",
        "More.",
        "More.",
        "More.",
        handoffs=[Handoff(target="user")],
    )
    return Swarm([solver], termination_condition=HandoffTermination("user") | MaxMessageTermination(6), name="desk")


def relations(run: Span) -> list[tuple[str, object]]:
    """List the runs that a run links to, and how."""
    return [(link.span_id, link.attributes.get(words.LINK_RELATION)) for link in run.links]


@pytest.mark.construct("AutoGen", "a hand-over to a user, and its answer")
async def test_team_that_was_answered_goes_on(recorder: SpanRecorder) -> None:
    """The run that asks is marked as waiting; the one with the answer links to it and has its task."""
    team = asking_team()
    await team.run(task="What is 12 * 3?")
    await team.run(task=HandoffMessage(source="user", target="solver", content="As a number."))
    first, second = named(recorder, "invoke_workflow desk")

    assert first.attributes[words.RUN_INTERRUPTED] is True
    assert words.RUN_INTERRUPTED not in second.attributes
    assert second.attributes[words.RUN_TASK] == "What is 12 * 3?"
    assert relations(second) == [(first.span_id, "continues")]


@pytest.mark.parametrize("is_suppressed", [False, True], ids=["recorded", "while instrumentation is suppressed"])
async def test_reset_team_begins_anew(recorder: SpanRecorder, is_suppressed: bool) -> None:
    """After `reset()` the next run goes on from none, also where instrumentation is suppressed meanwhile."""
    team = asking_team()
    await team.run(task="What is 12 * 3?")
    with suppress_instrumentation() if is_suppressed else nullcontext():
        await team.reset()
    await team.run(task="Something else?")

    assert relations(named(recorder, "invoke_workflow desk")[1]) == []
