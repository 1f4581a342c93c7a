"""The guard and injected faults in Agent Framework teams: what each changes, what shows, and what is left alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from agent_framework import Message, tool
from agent_framework_orchestrations import HandoffBuilder

import blamespan
from blamespan.guarding.policy import Policy, parse_policy
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from tests.integrations.agent_framework_runs import Answer, agent, call
from tests.integrations.hosts import recording
from tests.integrations.injection_laws import WORK, faulty, run_team
from tests.integrations.injection_laws import drawn as trace_drawn


def test_faults_of_the_way_of_messages_are_missed_and_say_so() -> None:
    """Who hears a message is not hooked: such a fault is told as missed, and the run is as without it."""
    trace, injection = faulty(lambda: run_team("agent_framework"), "mas-fire:message-cycle", "routing")

    assert [missed.kind for missed in injection.missed] == ["mas-fire:message-cycle"]
    assert trace_drawn(trace) == trace_drawn(run_team("agent_framework"))


def test_streamed_fault_shows() -> None:
    """A fault in a streamed answer reaches the program and the trace alike."""

    async def read() -> str:
        return "".join([update.text async for update in agent("a", WORK[0]).run("go", stream=True)])

    wrong = blamespan.inject("aegis:FM-3.2", mechanism="response", seed=1)
    with recording("agent_framework") as recorder, wrong as injection:
        text = asyncio.run(read())

    (applied,) = injection.applied
    assert text == applied.after == rebuild(recorder.spans()).steps[0].content


def policy(**tables: Any) -> Policy:
    return parse_policy(tables)


SECRET = {"forbidden_pattern": "secret"}


@pytest.mark.parametrize("streams", [False, True])
def test_blocked_answer_is_replaced(streams: bool) -> None:
    """Awaited or streamed, a refused text is not passed on; its sound twin is."""

    async def ask(*answers: str) -> str:
        writer = agent("writer", *answers)
        if not streams:
            return (await writer.run("Go.")).text
        return "".join([update.text async for update in writer.run("Go.", stream=True)])

    with blamespan.guard(policy(texts=[{**SECRET, "action": "block"}])) as guard:
        refused, allowed = asyncio.run(ask("a secret plan")), asyncio.run(ask("a plan"))

    assert refused.startswith("[A message of 'writer' was not passed on")
    assert allowed == "a plan"
    assert guard.counts == {"block": 1}


def test_forbidden_hand_over_does_not_take_place(recorder: SpanRecorder) -> None:
    """Whom a policy does not let an agent hand over to is not reached; whom it does is."""

    def run(*allowed: str) -> list[str]:
        recorder.clear()
        options = {"require_per_service_call_history_persistence": True}
        desk = agent("desk", call("handoff_to_expert"), "I cannot.", **options)
        expert = agent("expert", "at nine", **options)
        builder = HandoffBuilder(name="harbour", participants=[desk, expert]).with_start_agent(desk)
        with blamespan.guard(policy(agents={"desk": {"recipients": list(allowed)}})):
            asyncio.run(builder.add_handoff(desk, [expert]).add_handoff(expert, [desk]).build().run("When?"))
        return [f"{step.agent}: {step.kind}" for step in rebuild(recorder.spans()).steps]

    assert run("expert") == ["desk: handoff", "expert: message"]
    assert run("clerk") == ["desk: tool_call", "desk: tool_result", "desk: message"]


def test_agent_in_an_agents_tool_is_guarded_as_itself() -> None:
    """What an agent behind a tool says is its own, and refused as such."""
    helper = agent("helper", "a secret")
    boss = agent("boss", call("helper", task="go"), "done", tools=[helper.as_tool(name="helper")])
    with blamespan.guard(policy(texts=[{**SECRET, "action": "block"}])) as guard:
        asyncio.run(boss.run("Go."))

    assert [decision.agent for decision in guard.decisions if decision.action == "block"] == ["helper"]


def test_json_of_a_tool_is_read_as_text() -> None:
    """A tool that gives an object is offered as the JSON that the model is given."""

    @tool(approval_mode="never_require")
    def stock() -> dict[str, int]:
        """Count what is there."""
        return {"kettle": 48}

    seen: list[str] = []

    def rule(messages: Sequence[Message]) -> Answer:
        results = [content for message in messages for content in message.contents if content.type == "function_result"]
        seen.extend(str(content.result) for content in results)
        return "done" if results else call("stock")

    with blamespan.inject("blamespan:X4", mechanism="tool", seed=1) as injection:
        asyncio.run(agent("clerk", rule=rule, tools=[stock]).run("Go."))

    assert injection.applied
    assert seen
    assert seen[-1] != json.dumps({"kettle": 48})
