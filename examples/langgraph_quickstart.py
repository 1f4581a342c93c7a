"""A LangGraph graph whose spans say who is to blame. Needs: README's install."""

from langchain_core.language_models.fake_chat_models import FakeListChatModel  # stands in for your model
from langgraph.graph import START, MessagesState, StateGraph
from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # stands in for your tracing backend

import blamespan

console = ConsoleSpanExporter(formatter=lambda span: f"{span.name}  {dict(span.attributes)}\n")
blamespan.instrument(embedded=True, exporter=console)  # the one line

model = FakeListChatModel(responses=["12 * 31 = 362, so 3 crates hold 1086 lamps.", "Looks right: 1086 lamps."])
builder = StateGraph(MessagesState)
builder.add_node("solver", lambda state: {"messages": model.invoke(state["messages"])})
builder.add_node("checker", lambda state: {"messages": model.invoke(state["messages"])})
builder.add_edge(START, "solver").add_edge("solver", "checker")
graph = builder.compile(name="stock")

if __name__ == "__main__":
    graph.invoke({"messages": [("user", "A crate holds 12 boxes of 31 lamps. How many lamps do 3 crates hold?")]})
