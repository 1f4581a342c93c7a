"""Programs to be stressed: what users write, and what goes wrong in it. Run in processes of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import RetryPolicy


def graph() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a clerk who says an amount, and a boss who passes it on."""
    print("this program talks")  # noqa: T201
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("clerk", lambda _: {"messages": [AIMessage("It is 48 rooms in Paris.")]})
    builder.add_node("<b>boss", lambda state: {"messages": [AIMessage(f"So: {state['messages'][-1].text}")]})
    builder.add_edge(START, "clerk")
    builder.add_edge("clerk", "<b>boss")
    return builder.compile()


def is_right(answer: str, task: str) -> bool:
    return "48 rooms in Paris" in answer


def never_right(answer: str, task: str) -> bool:
    return False


def endless() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a clerk who waits for ever once it is told anything but the task."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("clerk", lambda _: {"messages": [AIMessage("It is 48 rooms in Paris.")]})
    builder.add_node("boss", _wait_if_wrong)
    builder.add_edge(START, "clerk")
    builder.add_edge("clerk", "boss")
    return builder.compile()


def _wait_if_wrong(state: Any) -> Any:
    text = state["messages"][-1].text
    if "48 rooms in Paris" not in text:
        time.sleep(600)
    return {"messages": [AIMessage(f"So: {text}")]}


def mortal() -> CompiledStateGraph[Any, Any, Any, Any]:
    """Make a clerk whose boss ends the process when the amount is wrong."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("clerk", lambda _: {"messages": [AIMessage("It is 48 rooms in Paris.")]})
    builder.add_node("boss", _die_if_wrong)
    builder.add_edge(START, "clerk")
    builder.add_edge("clerk", "boss")
    return builder.compile()


def _die_if_wrong(state: Any) -> Any:
    if "48 rooms in Paris" not in state["messages"][-1].text:
        os._exit(3)
    return {"messages": [AIMessage(f"So: {state['messages'][-1].text}")]}


def silent() -> Callable[[str], str]:
    """Make a function in which no agent is seen."""
    return lambda task: "48"


RIGHT = "48 rooms in Paris"


class RuleModel(BaseChatModel):
    """A model that answers the last message by a rule."""

    rule: Callable[[str], str]

    @property
    def _llm_type(self) -> str:
        return "rule"

    def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=AIMessage(self.rule(messages[-1].text)))])


@tool
def count_rooms(city: str) -> str:
    """Count the rooms."""
    return f"48 rooms in {city}"


def _ask_clerk(state: Any) -> Any:
    found = count_rooms.invoke({"city": "Paris"})
    return {"messages": [RuleModel(rule=lambda _: f"It is {found}.").invoke(state["messages"])]}


def _boss_told(instructions: str) -> Callable[[Any], Any]:
    def say(text: str) -> str:
        return f"So: {text}" if RIGHT in text else f"That is wrong: it should be {RIGHT}."

    return lambda state: {"messages": [RuleModel(rule=say).invoke([SystemMessage(instructions), *state["messages"]])]}


def _pass_on(state: Any) -> Any:
    return {"messages": [RuleModel(rule=lambda text: f"So: {text}").invoke(state["messages"])]}


def _is_right_now(state: Any) -> bool:
    return RIGHT in state["messages"][-1].text


def _team(boss: Callable[[Any], Any], *, retry: RetryPolicy | None = None) -> Any:
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("clerk", _ask_clerk, retry_policy=retry)
    builder.add_node("boss", boss)
    builder.add_edge(START, "clerk")
    builder.add_edge("clerk", "boss")
    return builder.compile()


def told_nothing() -> Any:
    return _team(_boss_told("You pass on what the clerk says."))


def told_to_verify() -> Any:
    return _team(_boss_told("You are the boss. Verify every number before you pass it on."))


def told_not_to() -> Any:
    return _team(_boss_told("You are the boss. Do not verify what the clerk says."))


def retried() -> Any:
    return _team(_pass_on, retry=RetryPolicy(max_attempts=3, initial_interval=0.01, retry_on=Exception))


def not_retried() -> Any:
    return _team(_pass_on)


def sent_back() -> Any:
    """Make a clerk to whom an edge gives another turn until it says the rooms."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("clerk", _ask_clerk)
    builder.add_node("boss", _pass_on)
    builder.add_edge(START, "clerk")
    builder.add_conditional_edges("clerk", lambda state: "boss" if _is_right_now(state) else "clerk")
    return builder.compile()


def validated() -> Any:
    """Make a clerk whose word code refuses until it says the rooms."""

    def validate(state: Any) -> Any:
        return {"messages": [AIMessage("valid" if _is_right_now(state) else "This is not right: do it again.")]}

    def pass_on_earlier(state: Any) -> Any:
        return _pass_on({"messages": state["messages"][:-1]})

    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("clerk", _ask_clerk)
    builder.add_node("validator", validate)
    builder.add_node("boss", pass_on_earlier)
    builder.add_edge(START, "clerk")
    builder.add_edge("clerk", "validator")
    builder.add_conditional_edges(
        "validator", lambda state: "boss" if state["messages"][-1].text == "valid" else "clerk"
    )
    return builder.compile()
