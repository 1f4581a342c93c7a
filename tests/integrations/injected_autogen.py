"""The AutoGen team into which faults are injected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core.models import CreateResult, LLMMessage
from autogen_ext.models.replay import ReplayChatCompletionClient

from tests.integrations.autogen_runs import INFO, calls
from tests.integrations.injection_laws import PLAN, REVIEW, TASK, TOLD, WORK, count, look


class Quoting(ReplayChatCompletionClient):
    """Says what it is told to, and after that everything that it was sent: so what it was sent shows."""

    async def create(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        result = await super().create(messages, **options)
        if not isinstance(result.content, str):
            return result
        told = " / ".join(str(message.content) for message in messages)
        return result.model_copy(update={"content": f"{result.content} <- {told}"})


def members(quoting: bool = False) -> list[AssistantAgent]:
    """Make a planner, a worker with tools and a reviewer, each with three things to say."""
    make = Quoting if quoting else ReplayChatCompletionClient

    def member(name: str, *answers: str | CreateResult, **options: Any) -> AssistantAgent:
        client = make(list(answers), model_info=INFO)
        told = f"You are the {name}. {TOLD}"
        return AssistantAgent(name, client, description=f"the {name}", system_message=told, **options)

    first, second = (calls(("look", {"city": city, "nights": 2})) for city in ("Paris", "Rome"))
    options = {"tools": [look, count], "reflect_on_tool_use": True}
    worker = member("worker", first, WORK[0], second, WORK[1], WORK[2], **options)
    return [member("planner", *PLAN), worker, member("reviewer", *REVIEW)]


def run(quoting: bool) -> None:
    """Run the three in turn, two rounds of them."""
    asyncio.run(RoundRobinGroupChat(members(quoting), max_turns=6).run(task=TASK))
