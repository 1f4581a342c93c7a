"""Programs to be stressed: what users write, and what goes wrong in it. Run in processes of their own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import RetryPolicy

from tests.tracer_model.lab.rerun.rule_models import Node, RuleModel, by_rule, in_a_row, speak

RIGHT = "48 rooms in Paris"


def _say_rooms(_: Any) -> dict[str, Any]:
    return {"messages": [AIMessage(f"It is {RIGHT}.")]}


def _repeat(state: Any) -> dict[str, Any]:
    return {"messages": [AIMessage(f"So: {state['messages'][-1].text}")]}


def _is_right_now(state: Any) -> bool:
    return RIGHT in state["messages"][-1].text


def _repeat_or(trouble: Callable[[], Any]) -> Node:
    """Make a boss who repeats the right amount, and does something else with another one."""
    return lambda state: _repeat(state) if _is_right_now(state) else trouble()


def graph() -> Any:
    """Make a clerk who says an amount, and a boss who passes it on."""
    print("this program talks")  # noqa: T201
    return in_a_row({"clerk": _say_rooms, "<b>boss": _repeat})


def is_right(answer: str, task: str) -> bool:
    return RIGHT in answer


def never_right(answer: str, task: str) -> bool:
    return False


def endless() -> Any:
    """Make a clerk, and a boss who waits for ever once it is told anything else."""
    return in_a_row({"clerk": _say_rooms, "boss": _repeat_or(lambda: time.sleep(600))})


def mortal() -> Any:
    """Make a clerk, and a boss who ends the process when the amount is wrong."""
    return in_a_row({"clerk": _say_rooms, "boss": _repeat_or(lambda: os._exit(3))})


def silent() -> Callable[[str], str]:
    """Make a function in which no agent is seen."""
    return lambda task: "48"


@tool
def count_rooms(city: str) -> str:
    """Count the rooms."""
    return f"48 rooms in {city}"


def _ask_clerk(state: Any) -> dict[str, Any]:
    found = count_rooms.invoke({"city": "Paris"})
    return by_rule(lambda _: f"It is {found}.")(state)


def _boss_told(instructions: str) -> Node:
    def say(messages: list[BaseMessage]) -> str:
        text = messages[-1].text
        return f"So: {text}" if RIGHT in text else f"That is wrong: it should be {RIGHT}."

    return speak(RuleModel(rule=say), SystemMessage(instructions))


_pass_on = by_rule(lambda messages: f"So: {messages[-1].text}")


def _team(boss: Node, *, retry: RetryPolicy | None = None) -> Any:
    return in_a_row({"clerk": _ask_clerk, "boss": boss}, retry=retry)


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
