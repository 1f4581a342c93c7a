"""The LangGraph graph into which faults are injected."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode

from tests.integrations.injection_laws import PLAN, REVIEW, TASK, TOLD, WORK, count, look
from tests.integrations.langgraph_programs import ScriptedModel, asks_for, model

TOOLS = [tool(look), tool(count)]


class Quoting(ScriptedModel):
    """Says what it is told to, and after that everything that it was sent: so what it was sent shows."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        (generation,) = super()._generate(messages, *args, **options).generations
        told = " / ".join(message.text for message in messages)
        said = generation.message
        text = said.text if getattr(said, "tool_calls", None) else f"{said.text} <- {told}"
        return ChatResult(generations=[ChatGeneration(message=said.model_copy(update={"content": text}))])


def members(quoting: bool = False, is_async: bool = False) -> CompiledStateGraph:
    """Make a planner, a worker with tools and a reviewer, who go through it twice."""
    first, second = (asks_for("look", f"call_{city}", city=city, nights=2) for city in ("Paris", "Rome"))
    scripts = {"planner": PLAN, "worker": (first, WORK[0], second, *WORK[1:]), "reviewer": REVIEW}
    graph = StateGraph(MessagesState)
    for name, script in scripts.items():
        graph.add_node(name, member(name, model(*script), quoting, is_async))
    graph.add_node("tools", ToolNode(TOOLS, handle_tool_errors=True))
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "worker")
    graph.add_conditional_edges("worker", _after_work, ["tools", "reviewer"])
    graph.add_edge("tools", "worker")
    graph.add_conditional_edges("reviewer", _after_review, ["planner", END])
    return graph.compile(name="team")


def member(name: str, speaker: ScriptedModel, quoting: bool = False, is_async: bool = False) -> Any:
    """Make a node that asks a model."""
    speaker = Quoting(answers=speaker.answers) if quoting else speaker
    told = SystemMessage(f"You are the {name}. {TOLD}")
    bound = speaker.bind_tools(TOOLS) if name == "worker" else speaker

    async def aspeak(state: Any) -> Any:
        return {"messages": [await bound.ainvoke([told, *state["messages"]])]}

    return aspeak if is_async else lambda state: {"messages": [bound.invoke([told, *state["messages"]])]}


def _after_work(state: Any) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else "reviewer"


def _after_review(state: Any) -> str:
    return "planner" if sum("APPROVED" in message.text for message in state["messages"]) < 2 else END


def run(quoting: bool) -> None:
    """Run them."""
    members(quoting).invoke({"messages": [("user", TASK)]})
