"""A LangGraph graph that answers a customer: researcher with a search tool, writer, checker.

The agents' words are scripted (no network, no key); the graph, its tool and its spans are real.
Run it beside a collector:  python -m blamespan_integrations.demo.langgraph_graph
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from opentelemetry import trace

import blamespan

TASK = (
    "A customer bought a lamp for 120 euros 20 days ago and wants to return it. May they, and who pays the shipping? "
    "Answer in two sentences and name the document you rely on."
)

DOCUMENTS = {
    "returns.md": "Goods may be returned within 30 days of purchase. Above 100 euros we pay the return shipping.",
    "warranty.md": "Defects are repaired free of charge for two years.",
}


@tool
def search(query: str) -> str:
    """Search the company's documents: every document that holds a word of the query, with its name."""
    words = query.lower().split()
    return "\n".join(f"{name}: {text}" for name, text in DOCUMENTS.items() if any(w in text.lower() for w in words))


SEARCH = AIMessage("", tool_calls=[{"name": "search", "args": {"query": "returned shipping"}, "id": "call_0"}])
RESEARCHER = [
    SEARCH,
    AIMessage(
        "returns.md says: goods may be returned within 30 days, and above 100 euros we pay the return shipping. The "
        "lamp was bought 20 days ago for 120 euros, so both apply."
    ),
]
RESEARCHER_GONE_WRONG = [
    SEARCH,
    AIMessage(
        "returns.md says: goods may be returned within 14 days, and above 200 euros we pay the return shipping. The "
        "lamp was bought 20 days ago for 120 euros, so neither applies."
    ),
]
WRITER = [
    AIMessage(
        "Yes, the lamp can be returned, as 20 days are within the 30 days that returns.md allows. We pay the return "
        "shipping, because the price is above 100 euros."
    )
]
WRITER_MISLED = [
    AIMessage(
        "No, the lamp can no longer be returned, as 20 days are more than the 14 days that returns.md allows. The "
        "customer would pay the shipping, because the price is below 200 euros."
    )
]
CHECKER = [
    AIMessage(
        "returns.md allows 30 days and pays the shipping above 100 euros: both sentences say so, and name it. The "
        "answer can go out."
    )
]
CHECKER_MISLED = [AIMessage("Both sentences agree with what was found, and the document is named. It can go out.")]


def graph(
    researcher: Sequence[AIMessage], writer: Sequence[AIMessage], checker: Sequence[AIMessage]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Build the graph."""

    def agent(replies: Sequence[AIMessage]):  # type: ignore[no-untyped-def]  # LangGraph infers the node's types
        model = GenericFakeChatModel(messages=iter(replies))
        return lambda state: {"messages": [model.invoke(state["messages"])]}

    def next_after_research(state: MessagesState) -> str:
        last = state["messages"][-1]
        return "tools" if isinstance(last, AIMessage) and last.tool_calls else "writer"

    builder = StateGraph(MessagesState)
    builder.add_node("researcher", agent(researcher))
    builder.add_node("tools", ToolNode([search]))
    builder.add_node("writer", agent(writer))
    builder.add_node("checker", agent(checker))
    builder.add_edge(START, "researcher")
    builder.add_conditional_edges("researcher", next_after_research, ["tools", "writer"])
    builder.add_edge("tools", "researcher")
    builder.add_edge("writer", "checker")
    builder.add_edge("checker", END)
    return builder.compile(name="returns_desk")


def main() -> None:
    """Run the graph clean, then with a researcher gone wrong, whose answer the customer complains of."""
    blamespan.instrument()
    graph(RESEARCHER, WRITER, CHECKER).invoke({"messages": [HumanMessage(TASK)]})
    graph(RESEARCHER_GONE_WRONG, WRITER_MISLED, CHECKER_MISLED).invoke({"messages": [HumanMessage(TASK)]})
    blamespan.record_outcome("failed", "the customer complained")
    trace.get_tracer_provider().force_flush()  # type: ignore[attr-defined]  # the SDK's provider


if __name__ == "__main__":
    main()
