"""Verdicts on Agent Framework teams: who contradicts a source is named, in every kind of team; a sound twin is not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from agent_framework import Message, tool
from agent_framework_orchestrations import ConcurrentBuilder, GroupChatBuilder, HandoffBuilder, SequentialBuilder

from blamespan import rebuild
from blamespan.attribution import verdict_word
from blamespan.testing import SpanRecorder
from blamespan.tracers import load_tracer
from tests.integrations.agent_framework_runs import agent, call

TASK = "What does a kettle cost gross, and what do 12 of them cost?"
TABLE = "item,gross,net\nkettle,3975,3340\ncup,4812,4043"
RIGHT, WRONG = "The gross price of the kettle is 3,975 cents.", "The gross price of the kettle is 4,812 cents."


@tool(approval_mode="never_require")
def list_prices() -> str:
    """List the prices."""
    return TABLE


def _asks_first(answer: str) -> Callable[[Sequence[Message]], Any]:
    """Look the price up, then say *answer*."""

    def rule(messages: Sequence[Message]) -> Any:
        has_looked = any(content.type == "function_result" for message in messages for content in message.contents)
        return answer if has_looked else call("list_prices")

    return rule


def _multiplies(messages: Sequence[Message]) -> str:
    """Multiply the price that was named last."""
    said = next(message.text for message in reversed(messages) if "gross price" in message.text)
    price = int(said.split()[-2].replace(",", ""))
    return f"12 kettles cost 12 * {price:,} = {12 * price:,} cents."


def _members(answer: str) -> list[Any]:
    options = {"require_per_service_call_history_persistence": True}
    return [
        agent("clerk", rule=_asks_first(answer), tools=[list_prices], **options),
        agent("accountant", rule=_multiplies, **options),
    ]


async def _sequential(answer: str) -> None:
    await SequentialBuilder(participants=_members(answer)).build().run(TASK)


async def _streamed(answer: str) -> None:
    async for _ in SequentialBuilder(participants=_members(answer)).build().run(TASK, stream=True):
        pass


async def _group_chat(answer: str) -> None:
    builder = GroupChatBuilder(
        participants=_members(answer),
        selection_func=lambda state: ("clerk", "accountant")[state.current_round],
        max_rounds=2,
    )
    await builder.build().run(TASK)


async def _handoff(answer: str) -> None:
    _, accountant = _members(answer)
    desk = agent("desk", call("handoff_to_clerk"), require_per_service_call_history_persistence=True)

    def rule(messages: Sequence[Message]) -> Any:
        first = _asks_first(answer)(messages)
        has_said = any(message.text == answer for message in messages)
        return call("handoff_to_accountant") if has_said else first

    clerk = agent("clerk", rule=rule, tools=[list_prices], require_per_service_call_history_persistence=True)
    builder = HandoffBuilder(name="shop", participants=[desk, clerk, accountant]).with_start_agent(desk)
    builder = builder.add_handoff(desk, [clerk]).add_handoff(clerk, [accountant]).add_handoff(accountant, [desk])
    builder = builder.with_autonomous_mode(agents=[clerk], turn_limits={"clerk": 1})
    await builder.with_termination_condition(lambda messages: "12 kettles" in messages[-1].text).build().run(TASK)


async def _concurrent(answer: str) -> None:
    members = [agent("clerk", rule=_asks_first(answer), tools=[list_prices]), agent("greeter", "Welcome to the shop.")]
    await ConcurrentBuilder(participants=members).build().run(TASK)


@pytest.mark.parametrize("run", [_sequential, _streamed, _group_chat, _handoff, _concurrent])
async def test_who_misquotes_a_tool_is_blamed(recorder: SpanRecorder, run: Callable[[str], Any]) -> None:
    """A clerk who reads the wrong row of a table is named, not who goes on from it; an honest clerk is not."""
    words = []
    for answer in (WRONG, RIGHT):
        recorder.clear()
        await run(answer)
        trace = rebuild(recorder.spans())
        [verdict] = load_tracer().attribute([trace])
        word = verdict_word(trace.outcome, verdict.failure_score, verdict.abstained)
        words.append((word, verdict.agents[0].agent if "failed" in word else None))

    assert words == [("looks failed", "clerk"), ("no sign of failure", None)]
