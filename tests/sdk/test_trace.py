"""A message-action trace refuses what would make no sense, and says why."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from blamespan.errors import MalformedTrace
from blamespan.trace import Agent, MessageActionTrace, Step
from tests.sdk.builders import TRACE_ID, small_run


def with_step(index: int, /, **changes: Any) -> MessageActionTrace:
    run = small_run()
    steps = list(run.steps)
    steps[index] = replace(steps[index], **changes)
    return replace(run, steps=tuple(steps))


@pytest.mark.parametrize(
    ("index", "changes", "message"),
    [
        (0, {"index": 3}, "step at place 0 must have index 0, got 3"),
        (0, {"span_id": "xyz"}, "16 lower-case hex digits"),
        (0, {"span_id": "0" * 16}, "not all zero"),
        (0, {"kind": "thought"}, "kind must be one of"),
        (0, {"agent": "nobody"}, "'nobody' is not among the run's agents"),
        (3, {"inputs": (3,)}, "ascending indices below 3"),
        (3, {"inputs": (2, 0)}, "ascending indices below 3"),
        (3, {"start_ns": 5, "end_ns": 4}, "ends before it starts"),
        (4, {"span_id": f"{4:016x}"}, "share span '0000000000000004'"),
        (2, {"error": "Timeout"}, "share span '0000000000000003'"),
    ],
)
def test_trace_refuses_a_step_that_breaks_a_rule(index: int, changes: dict[str, Any], message: str) -> None:
    """Every rule of the record is held, with the value in the message."""
    with pytest.raises(MalformedTrace, match=message):
        with_step(index, **changes)


@pytest.mark.parametrize("trace_id", ["", "0" * 32, "A" * 32, "1" * 31])
def test_trace_refuses_a_bad_trace_id(trace_id: str) -> None:
    """A trace id is what OpenTelemetry says it is."""
    with pytest.raises(MalformedTrace, match="32 lower-case hex digits"):
        replace(small_run(), trace_id=trace_id)


def test_trace_refuses_two_agents_of_one_name() -> None:
    """Names are labels: they must tell the agents of a run apart."""
    with pytest.raises(MalformedTrace, match="unique"):
        MessageActionTrace(TRACE_ID, "", (), (Agent("a"), Agent("a", "user")))


def test_only_decisions_of_agents_can_be_blamed() -> None:
    """Neither a user's word nor a tool's answer is an agent's decision."""
    run = small_run()

    assert [step.index for step in run.steps if run.can_be_blamed(step)] == [1, 3, 4]


def test_executor_cannot_be_blamed() -> None:
    """Who only runs what others decided is not to blame."""
    run = MessageActionTrace(TRACE_ID, "", (Step(0, f"{2:016x}", "terminal"),), (Agent("terminal", "executor"),))

    assert not run.can_be_blamed(run.steps[0])
