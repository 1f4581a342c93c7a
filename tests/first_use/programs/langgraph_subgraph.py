"""A graph as a node of a graph.

task: Write a line about the sea.
step: drafter message The sea is wide
step: counter message Five words
step: editor message The sea is wide. (5 words)
"""

from langgraph.graph import START, MessagesState, StateGraph
from scripted import scripted

import blamespan

blamespan.instrument(embedded=True)


def node(*answers):
    """A node that asks a model."""
    model = scripted(*answers)
    return lambda state: {"messages": model.invoke(state["messages"])}


inner = StateGraph(MessagesState)
inner.add_node("drafter", node("The sea is wide."))
inner.add_node("counter", node("Five words."))
inner.add_edge(START, "drafter").add_edge("drafter", "counter")
outer = StateGraph(MessagesState)
outer.add_node("writing", inner.compile())
outer.add_node("editor", node("The sea is wide. (5 words)"))
outer.add_edge(START, "writing").add_edge("writing", "editor")

outer.compile().invoke({"messages": [("user", "Write a line about the sea.")]})
print(blamespan.record_outcome("failed", reason="four words"))
