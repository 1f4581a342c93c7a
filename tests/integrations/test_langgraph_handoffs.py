"""Handoff tools as the frameworks document them, values said again, and states too large to write: LangGraph."""

from __future__ import annotations

import time
from typing import Annotated, Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState
from langgraph.types import Command, Send

from blamespan.testing import SpanRecorder
from tests.integrations.langgraph_programs import asks_for, model, steps


def answer(call_id: str, form: str) -> Any:
    """Write the tool's message in one of the forms programs write it in."""
    given = {"content": "handed over", "name": "to_expert", "tool_call_id": call_id}
    return {"role": "tool", **given} if form == "dict" else ToolMessage(**given)


@pytest.mark.parametrize("form", ["dict", "message", "send"])
def test_handoff_tool_that_takes_the_whole_state_along(recorder: SpanRecorder, form: str) -> None:
    """LangGraph's documented handoff tool returns all it was given and its answer: only the answer is new."""

    @tool
    def to_expert(state: Annotated[dict[str, Any], InjectedState], call_id: Annotated[str, InjectedToolCallId]) -> Any:
        """Hand over to the expert."""
        update = {**state, "messages": [*state["messages"], answer(call_id, form)]}
        if form == "send":
            return Command(goto=[Send("expert", update)], graph=Command.PARENT)
        return Command(goto="expert", graph=Command.PARENT, update=update)

    graph = StateGraph(MessagesState)
    clerk = create_agent(model(asks_for("to_expert")), [to_expert], name="clerk")
    graph.add_node("clerk", clerk, destinations=("expert",))
    graph.add_node("expert", create_agent(model("solved"), [], name="expert"))
    graph.add_edge(START, "clerk")
    graph.compile(name="g").invoke({"messages": [("user", "1 + 2?")]})

    assert steps(recorder) == [
        ("clerk", "message", "to_expert({})", ()),
        ("clerk", "tool_call", "to_expert({})", (0,)),
        ("clerk", "tool_result", "handed over", (1,)),
        ("expert", "message", "solved", (2,)),
    ]


class Routed(TypedDict, total=False):
    """A state that says who is next."""

    next: str
    rounds: int


def test_value_said_again_is_said(recorder: SpanRecorder) -> None:
    """A supervisor that names the same worker twice says so twice, though the text is one object to Python."""
    names = iter(["worker", "worker", END])
    graph = StateGraph(Routed)
    graph.add_node("supervisor", lambda _: {"next": next(names)})
    graph.add_node("worker", lambda state: {"rounds": state.get("rounds", 0) + 1})
    graph.add_edge(START, "supervisor")
    graph.add_conditional_edges("supervisor", lambda state: state["next"], ["worker", END])
    graph.add_edge("worker", "supervisor")
    graph.compile(name="g").invoke({"rounds": 0})

    assert [content for agent, _, content, _ in steps(recorder) if agent == "supervisor"] == [
        "next: worker",
        "next: worker",
        "next: __end__",
    ]


class Embedded(TypedDict):
    """A state that holds numbers by the million."""

    vectors: list[list[float]]


def test_large_state_costs_no_time(recorder: SpanRecorder) -> None:
    """What is far too long to record is not read to its end, and says that there was more."""
    vectors = [[0.5] * 1_500 for _ in range(500)]
    graph = StateGraph(Embedded)
    graph.add_node("load", lambda _: {"vectors": vectors})
    graph.add_node("index", lambda state: {"vectors": state["vectors"][:1]})
    graph.add_edge(START, "load")
    graph.add_edge("load", "index")
    program = graph.compile(name="g")
    start_s = time.process_time()

    program.invoke({"vectors": []})

    assert time.process_time() - start_s < 2  # 5 s where every number is written
    (content, *_) = [content for agent, _, content, _ in steps(recorder) if agent == "load"]
    assert content.startswith("vectors:\n- [0.5, 0.5,")
