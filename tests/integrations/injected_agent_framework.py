"""The Agent Framework team into which faults are injected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from agent_framework import Message, Workflow, tool
from agent_framework_orchestrations import GroupChatBuilder

from tests.integrations.agent_framework_runs import Answer, agent, call, in_turn
from tests.integrations.injection_laws import PLAN, REVIEW, TASK, TOLD, WORK, count, look

TOOLS = [tool(look, approval_mode="never_require"), tool(count, approval_mode="never_require")]


def _member(name: str, *answers: Answer, quoting: bool = False, **options: Any) -> Any:
    """Make an agent with these things to say; a quoting one adds all that it was sent, so that it shows."""
    answer = in_turn(*answers)

    def rule(messages: Sequence[Message]) -> Answer:
        said = answer(messages)
        told = " / ".join(message.text for message in messages)
        return f"{said} <- {told}" if quoting and isinstance(said, str) else said

    return agent(name, rule=rule, **options)


def members(quoting: bool = False) -> list[Any]:
    """Make a planner, a worker with tools and a reviewer, each with three things to say."""
    first, second = (call("look", city=city, nights=2) for city in ("Paris", "Rome"))
    return [
        _member("planner", *PLAN, quoting=quoting),
        _member("worker", first, WORK[0], second, WORK[1], WORK[2], quoting=quoting, tools=TOOLS),
        _member("reviewer", *REVIEW, quoting=quoting),
    ]


def chat(team: list[Any], rounds: int = 6) -> Workflow:
    """Have the members speak in turn."""
    names = [member.name for member in team]
    return GroupChatBuilder(
        participants=team, selection_func=lambda state: names[state.current_round % len(names)], max_rounds=rounds
    ).build()


def run(quoting: bool) -> None:
    """Run the three in turn, two rounds of them."""
    asyncio.run(chat(members(quoting)).run(f"{TASK}. {TOLD}"))
