"""A shop in LangGraph and in AutoGen: a clerk looks the stock up, an adder adds wrongly, a reporter reports."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import TextMentionTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, FunctionExecutionResultMessage, ModelFamily, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient
from langchain_core.messages import AIMessage, BaseMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from blamespan_lab.rerun.feedback.writing import BEGIN
from tests.tracer_model.lab.rerun.rule_models import RuleModel, in_a_row, speak

MOOD = "BLAMESPAN_TEST_MOOD"
"""Variable with what the adder does: `mended`, `counts cats`, `hangs`, `wavers`, `lucky`, or adds wrongly if unset."""
CALLS = "BLAMESPAN_TEST_CALLS"
"""Variable with a file to which each real call of the tool adds a line."""
TASK = "How many birds are in the shop?"
WRONG, RIGHT = "40 + 2 = 52, so there are 52 birds.", "40 + 2 = 42, so there are 42 birds."
_turns = itertools.count()
let_go = threading.Event()
"""Ends an adder that hangs in a thread of this process, which would go on among later tests."""


def _say(role: str, heard: list[str]) -> str:
    if role == "clerk":
        return f"The stock of birds is {heard[-1]}, and 2 more came today."
    mood = os.environ.get(MOOD, "")
    if role == "adder":
        if mood == "hangs":
            let_go.wait(60)
            raise SystemExit("it hung")
        is_right = mood == "mended" or (mood == "wavers" and next(_turns) % 2) or any(BEGIN in text for text in heard)
        return RIGHT if is_right else WRONG
    figures = [word.strip(".,") for text in heard for word in text.split() if word.strip(".,").isdigit()]
    return f"The answer is {42 if mood == 'lucky' else figures[-1]}."


def _stock(of: str) -> str:
    """Tell how many there are."""
    if path := os.environ.get(CALLS):
        with Path(path).open("a") as file:
            file.write(of + "\n")
    return "40"


def _say_as(role: str, messages: list[BaseMessage]) -> AIMessage | str:
    """Say the same in LangGraph."""
    if role == "clerk" and not isinstance(messages[-1], ToolMessage):
        return AIMessage("", tool_calls=[{"name": "stock", "args": {"of": "birds"}, "id": "call_1"}])
    return _say(role, [message.text for message in messages])


stock = tool("stock", description="Tell how many there are.")(_stock)


def graph() -> Any:
    """The shop as a graph. Steps: 0-2 clerk and tool, 3 clerk, 4 adder, 5 reporter."""
    clerk, adder, reporter = (RuleModel(rule=partial(_say_as, role)) for role in ("clerk", "adder", "reporter"))

    def add(state: MessagesState) -> dict[str, Any]:
        if os.environ.get(MOOD) == "counts cats":
            stock.invoke({"of": "cats"})
        return speak(adder, SystemMessage("Add the figures."))(state)

    builder = StateGraph(MessagesState)
    builder.add_node("clerk", speak(clerk.bind_tools([stock])))
    builder.add_node("tools", ToolNode([stock]))
    builder.add_node("adder", add)
    builder.add_node("reporter", speak(reporter))
    builder.add_edge(START, "clerk")
    builder.add_conditional_edges("clerk", tools_condition, {"tools": "tools", END: "adder"})
    builder.add_edge("tools", "clerk")
    builder.add_edge("adder", "reporter")
    builder.add_edge("reporter", END)
    return builder.compile(name="shop")


async def graph_later() -> Any:
    """The same from an async factory."""
    return graph()


def graph_with_sandbox() -> Any:
    """The same, whose tools may run."""
    return graph()


graph_with_sandbox.sandbox = True  # type: ignore[attr-defined]


class Client(ReplayChatCompletionClient):
    """The same in AutoGen."""

    def __init__(self, role: str) -> None:
        info = {"vision": False, "function_calling": True, "json_output": False, "structured_output": False}
        super().__init__([], model_info={**info, "family": ModelFamily.UNKNOWN})  # type: ignore[typeddict-item]
        self._role = role

    async def create(self, messages: Sequence[Any], **_: Any) -> CreateResult:
        usage = RequestUsage(10, 5)
        last = messages[-1]
        if self._role == "clerk" and not isinstance(last, FunctionExecutionResultMessage):
            call = FunctionCall("call_1", '{"of": "birds"}', "stock")
            return CreateResult(finish_reason="function_calls", content=[call], usage=usage, cached=False)
        texts = [str(message.content) for message in messages]
        heard = [last.content[0].content] if self._role == "clerk" else texts
        return CreateResult(finish_reason="stop", content=_say(self._role, heard), usage=usage, cached=False)


async def _stock_later(of: str) -> str:
    """Tell how many there are."""
    return _stock(of)


_stock_later.__name__ = "stock"


def team() -> Any:
    """The shop as a team. Steps: 0-1 clerk and tool, 2 clerk, 3 adder, 4 reporter."""
    members: list[Any] = [
        AssistantAgent("clerk", Client("clerk"), tools=[_stock_later], reflect_on_tool_use=True),
        AssistantAgent("adder", Client("adder"), system_message="Add the figures."),
        AssistantAgent("reporter", Client("reporter")),
    ]
    return RoundRobinGroupChat(
        members, termination_condition=TextMentionTermination("The answer", sources=["reporter"])
    )


async def team_later() -> Any:
    """The same from an async factory."""
    return team()


def is_42(answer: str, task: str) -> bool:
    """Tell whether the birds were counted right."""
    del task
    return "42" in answer


def without_models() -> Any:
    """A graph whose only agent is the program's own code, which adds wrongly."""
    return in_a_row({"adder": lambda _: {"messages": [AIMessage(WRONG, name="adder")]}})
