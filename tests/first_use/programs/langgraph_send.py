"""A node for each item of a list (Send), and a plain state.

task: Write a line each about the sea and the wind.
step: plan message
step: write message A line about the sea
step: write message A line about the wind
step: join message
"""

import operator
from typing import Annotated, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

import blamespan

blamespan.instrument(embedded=True)


class State(TypedDict):
    """What the nodes share."""

    request: str
    topics: list[str]
    lines: Annotated[list[str], operator.add]
    text: str


builder = StateGraph(State)
builder.add_node("plan", lambda state: {"topics": ["the sea", "the wind"]})
builder.add_node("write", lambda given: {"lines": [f"A line about {given['topic']}."]})
builder.add_node("join", lambda state: {"text": state["lines"][0]})
builder.add_edge(START, "plan")
builder.add_conditional_edges("plan", lambda state: [Send("write", {"topic": t}) for t in state["topics"]], ["write"])
builder.add_edge("write", "join").add_edge("join", END)

builder.compile(name="lines").invoke({"request": "Write a line each about the sea and the wind.", "lines": []})
print(blamespan.record_outcome("failed", reason="the wind is missing"))
