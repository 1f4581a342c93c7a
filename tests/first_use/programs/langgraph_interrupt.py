"""A graph that asks a person, and goes on with the answer.

task: Refund the lamp of order 7.
step: clerk message 40 euros
step: approval message Refund 40 euros?
step: approval message Yes, refund 40 euros
step: payer message 400 euros
"""

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from scripted import scripted

import blamespan

blamespan.instrument(embedded=True)


def node(*answers):
    """A node that asks a model."""
    model = scripted(*answers)
    return lambda state: {"messages": model.invoke(state["messages"])}


def approval(state):
    """Ask a person."""
    answer = interrupt("Refund 40 euros?")
    return {"messages": [("user", answer)]}


builder = StateGraph(MessagesState)
builder.add_node("clerk", node("The lamp cost 40 euros. I propose to refund 40 euros."))
builder.add_node("approval", approval)
builder.add_node("payer", node("I have paid back 400 euros."))
builder.add_edge(START, "clerk").add_edge("clerk", "approval").add_edge("approval", "payer")
graph = builder.compile(name="refunds", checkpointer=InMemorySaver())

config = {"configurable": {"thread_id": "order-7"}}
graph.invoke({"messages": [("user", "Refund the lamp of order 7.")]}, config)
graph.invoke(Command(resume="Yes, refund 40 euros."), config)
print(blamespan.record_outcome("failed", reason="400 euros instead of 40"))
