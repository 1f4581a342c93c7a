"""The guard and injected faults in Agent Framework teams: what each changes, what shows, and what is left alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from agent_framework import AgentResponse, Message, tool
from agent_framework_orchestrations import HandoffBuilder, SequentialBuilder

import blamespan
from blamespan.guarding.policy import Policy, parse_policy
from blamespan.rebuilding.rebuild import rebuild
from blamespan.testing import SpanRecorder
from tests.integrations.agent_framework_runs import Answer, agent, call
from tests.integrations.hosts import recording
from tests.integrations.injected_agent_framework import TOOLS
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


def _texts(result: Any) -> list[str]:
    return [output.text for output in result.get_outputs() if isinstance(output, AgentResponse)]


def test_agent_is_asked_again_with_what_is_wrong() -> None:
    """The same agent answers anew; nobody hears the answer that did not stand, and a sound one is left alone."""
    heard: list[str] = []

    def listens(messages: Sequence[Message]) -> str:
        heard.extend(message.text for message in messages)
        return "read"

    team = SequentialBuilder(participants=[agent("writer", "a secret", "nothing"), agent("reader", rule=listens)])
    with blamespan.guard(policy(texts=[{**SECRET, "action": "rewrite"}])) as guard:
        result = asyncio.run(team.build().run("Go."))

    assert _texts(result) == ["read"]
    assert heard == ["Go.", "nothing"]
    assert guard.counts == {"rewrite": 1}


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


def test_forbidden_tool_is_not_called() -> None:
    """A tool that a policy forbids does nothing; the agent is told why, and other tools work."""
    paid: list[int] = []

    @tool(approval_mode="never_require")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    def rule(messages: Sequence[Message]) -> Answer:
        results = [content for message in messages for content in message.contents if content.type == "function_result"]
        return str(results[0].result) if results else call("pay", amount=900)

    clerk = agent("clerk", rule=rule, tools=[pay, *TOOLS])
    with blamespan.guard(policy(arguments=[{"tool": "pay", "argument": "amount", "at_most": 10}])):
        refused = asyncio.run(clerk.run("Pay 900."))
        asyncio.run(agent("clerk", call("pay", amount=9), "done", tools=[pay]).run("Pay 9."))

    assert paid == [9]
    assert "was not" in refused.text


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


def test_person_is_asked_by_the_guards_own_function() -> None:
    """`ask` is answered by the guard's function; without one the call is refused."""
    paid: list[int] = []

    @tool(approval_mode="never_require")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    rules = policy(arguments=[{"tool": "pay", "argument": "amount", "at_most": 10, "action": "ask"}])
    for answer in (lambda _: True, lambda _: False, None):
        with blamespan.guard(rules, **({"ask": answer} if answer is not None else {})):
            asyncio.run(agent("clerk", call("pay", amount=900), "done", "done", tools=[pay]).run("Pay 900."))

    assert paid == [900]


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
