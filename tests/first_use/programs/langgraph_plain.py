"""A graph without models or messages.

task: What is the total of the invoice?
step: load message
step: total message
step: report message
"""

from typing import TypedDict

from langgraph.graph import START, StateGraph

import blamespan

blamespan.instrument(embedded=True)


class State(TypedDict, total=False):
    """What the nodes share."""

    question: str
    prices: list[int]
    total: int
    answer: str


builder = StateGraph(State)
builder.add_node("load", lambda state: {"prices": [12, 7, 21]})
builder.add_node("total", lambda state: {"total": 42})
builder.add_node("report", lambda state: {"answer": f"The total is {state['total']} euros."})
builder.add_edge(START, "load").add_edge("load", "total").add_edge("total", "report")

builder.compile(name="invoice").invoke({"question": "What is the total of the invoice?"})
print(blamespan.record_outcome("failed", reason="the total is 40"))
