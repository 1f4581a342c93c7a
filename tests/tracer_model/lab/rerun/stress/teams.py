"""Programs to be stressed: what users write, and what goes wrong in it. Run in processes of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph


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
