"""Agents who speak in turn, and one who pays, in every framework: a guard shows in what they hear and do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

Heard = dict[str, list[str]]
"""What each agent's model was sent, call by call."""


def talk(framework: str, **answers: Sequence[str]) -> Heard:
    """Let agents with scripted models speak in turn, once each; who is asked again goes on in its script."""
    heard: Heard = {name: [] for name in answers}
    _program(framework).talk(answers, heard)
    return heard


def pay(framework: str, *amounts: int) -> list[int]:
    """Let a clerk's model call `pay` for one amount after the other; return what was paid."""
    paid: list[int] = []

    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    _program(framework).pay(pay, amounts)
    return paid


def _program(framework: str) -> Any:
    return {"autogen": AutoGen, "langgraph": LangGraph, "agent_framework": AgentFramework}[framework]


class AutoGen:
    """A round robin of assistants."""

    @staticmethod
    def talk(answers: dict[str, Sequence[str]], heard: Heard) -> None:
        from autogen_agentchat.agents import AssistantAgent
        from autogen_agentchat.teams import RoundRobinGroupChat
        from autogen_ext.models.replay import ReplayChatCompletionClient

        from tests.integrations.autogen_runs import INFO

        class Told(ReplayChatCompletionClient):
            def __init__(self, name: str) -> None:
                super().__init__(list(answers[name]), model_info=INFO)
                self.heard = heard[name]

            async def create(self, messages: Any, **options: Any) -> Any:
                self.heard.append(" / ".join(str(message.content) for message in messages))
                return await super().create(messages, **options)

        members: list[Any] = [AssistantAgent(name, Told(name)) for name in answers]
        asyncio.run(RoundRobinGroupChat(members, max_turns=len(members)).run(task="Go."))

    @staticmethod
    def pay(pay: Callable[[int], str], amounts: Sequence[int]) -> None:
        from autogen_agentchat.teams import RoundRobinGroupChat

        from tests.integrations.autogen_runs import assistant, calls

        wanted = [calls(("pay", {"amount": amount})) for amount in amounts]
        clerk = assistant("clerk", *wanted, *["done"] * 4, tools=[pay], max_tool_iterations=4)
        asyncio.run(RoundRobinGroupChat([clerk], max_turns=1).run(task="Pay."))


class LangGraph:
    """A chain of nodes that ask models, and a prebuilt agent."""

    @staticmethod
    def talk(answers: dict[str, Sequence[str]], heard: Heard) -> None:
        from langgraph.graph import MessagesState

        from tests.integrations.langgraph_programs import ScriptedModel, chain, model

        class Told(ScriptedModel):
            heard: Any

            def _generate(self, messages: Any, *args: Any, **options: Any) -> Any:
                self.heard.append(" / ".join(message.text for message in messages))
                return super()._generate(messages, *args, **options)

        def node(name: str) -> Any:
            speaker = Told.model_construct(answers=model(*answers[name]).answers, heard=heard[name])
            return lambda state: {"messages": [speaker.invoke(state["messages"])]}

        graph = chain(*((name, node(name)) for name in answers), state=MessagesState)
        graph.invoke({"messages": [("user", "Go.")]})

    @staticmethod
    def pay(pay: Callable[[int], str], amounts: Sequence[int]) -> None:
        from langchain.agents import create_agent

        from tests.integrations.langgraph_programs import asks_for, model

        wanted = [asks_for("pay", f"call_{place}", amount=amount) for place, amount in enumerate(amounts)]
        clerk = create_agent(model(*wanted, *["done"] * 4), [pay], name="clerk")
        clerk.invoke({"messages": [("user", "Pay.")]})


class AgentFramework:
    """A sequence of agents."""

    @staticmethod
    def talk(answers: dict[str, Sequence[str]], heard: Heard) -> None:
        from agent_framework_orchestrations import SequentialBuilder

        from tests.integrations.agent_framework_runs import agent, in_turn

        def member(name: str) -> Any:
            answer = in_turn(*answers[name])

            def rule(messages: Any) -> Any:
                heard[name].append(" / ".join(message.text for message in messages))
                return answer(messages)

            return agent(name, rule=rule)

        team = SequentialBuilder(participants=[member(name) for name in answers])
        asyncio.run(team.build().run("Go."))

    @staticmethod
    def pay(pay: Callable[[int], str], amounts: Sequence[int]) -> None:
        from agent_framework import tool

        from tests.integrations.agent_framework_runs import agent, call

        wanted = [call("pay", amount=amount) for amount in amounts]
        clerk = agent("clerk", *wanted, *["done"] * 4, tools=[tool(pay, approval_mode="never_require")])
        asyncio.run(clerk.run("Pay."))
