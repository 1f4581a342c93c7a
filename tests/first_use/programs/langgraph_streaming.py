"""A graph read as a stream.

task: Name a capital north of Rome.
step: proposer message Athens
step: closer message Athens is the answer
"""

from langgraph.graph import START, MessagesState, StateGraph
from scripted import scripted

import blamespan

blamespan.instrument(embedded=True)


def node(*answers):
    """A node that asks a model."""
    model = scripted(*answers)
    return lambda state: {"messages": model.invoke(state["messages"])}


builder = StateGraph(MessagesState)
builder.add_node("proposer", node("Athens."))
builder.add_node("closer", node("Athens is the answer."))
builder.add_edge(START, "proposer").add_edge("proposer", "closer")

for update in builder.compile(name="capitals").stream(
    {"messages": [("user", "Name a capital north of Rome.")]}, stream_mode=["updates", "messages"]
):
    assert update
print(blamespan.record_outcome("failed", reason="Athens lies south of Rome"))
