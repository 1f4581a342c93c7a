"""LangGraph graphs that say a canary wherever a program can say something."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, Send, interrupt

from tests.integrations.langgraph_programs import asks_for, calculator, chain, says

CANARY = "canary-7f3a"


@tool
def look(page: str) -> str:
    """Find canary-7f3a."""
    raise LookupError(f"no {page}")


@tool
def read(page: str) -> dict[str, str]:
    """Read canary-7f3a."""
    return {"canary-7f3a": page}


def use_tools() -> None:
    message = AIMessage(CANARY, tool_calls=[*asks_for("look", "1", page=CANARY).tool_calls])
    graph = calculator(message, asks_for("read", "2", page=CANARY), CANARY, tools=[look, read], handle_tool_errors=True)
    graph.invoke({"messages": [("system", CANARY), HumanMessage(CANARY)]})


def fail() -> None:
    def broken(_: Any) -> Any:
        raise ValueError("canary-7f3a")

    with suppress(ValueError):
        chain(("one", says(CANARY)), ("two", broken)).invoke({"words": [CANARY]})


def ask_and_go_on() -> None:
    graph = chain(("asker", lambda _: {"words": [interrupt({"question": CANARY})]}), checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t1"}}
    graph.invoke({"words": [CANARY]}, config)
    graph.invoke(Command(resume=CANARY), config)


def fan_out() -> None:
    graph = StateGraph(MessagesState)
    graph.add_node(
        "boss", lambda _: Command(goto=[Send("worker", {"x": CANARY})], update={"messages": [("ai", CANARY)]})
    )
    graph.add_node("worker", lambda given: {"messages": [("ai", f"{given}")]})
    graph.add_edge(START, "boss")
    graph.compile(name="team").invoke(
        {"messages": [("user", CANARY)]}, {"metadata": {"note": CANARY}, "tags": [CANARY]}
    )


PROGRAMS: dict[str, Callable[[], None]] = {
    "tools": use_tools,
    "failure": fail,
    "interrupt": ask_and_go_on,
    "fan out": fan_out,
}
