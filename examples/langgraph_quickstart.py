"""A LangGraph graph whose spans say who is to blame. Needs: pip install 'blamespan[langgraph,collector,model]'."""

from langchain_core.language_models.fake_chat_models import FakeListChatModel  # stands in for your model
from langgraph.graph import START, MessagesState, StateGraph
from opentelemetry.sdk.trace.export import ConsoleSpanExporter  # stands in for your tracing backend

import blamespan

console = ConsoleSpanExporter(formatter=lambda span: f"{span.name}  {dict(span.attributes)}\n")
blamespan.instrument(embedded=True, exporter=console)  # the one line

model = FakeListChatModel(responses=["Paris has 2.1 million people, I assume.", "Sounds right, no need to verify."])
builder = StateGraph(MessagesState)
builder.add_node("writer", lambda state: {"messages": model.invoke(state["messages"])})
builder.add_node("checker", lambda state: {"messages": model.invoke(state["messages"])})
builder.add_edge(START, "writer").add_edge("writer", "checker")
graph = builder.compile(name="census")

if __name__ == "__main__":
    graph.invoke({"messages": [("user", "How many people live in Paris? Check the figure.")]})
