"""An asynchronous graph within a program's own function, several awaits deep.

task: Translate: the lamp is broken.
step: translator message Die Lampe ist grün
step: reviewer message Looks right
"""

import asyncio

from langgraph.graph import START, MessagesState, StateGraph
from scripted import scripted

import blamespan

blamespan.instrument(embedded=True)


def node(*answers):
    """A node that asks a model."""
    model = scripted(*answers)

    async def ask(state):
        return {"messages": await model.ainvoke(state["messages"])}

    return ask


builder = StateGraph(MessagesState)
builder.add_node("translator", node("Die Lampe ist grün."))
builder.add_node("reviewer", node("Looks right."))
builder.add_edge(START, "translator").add_edge("translator", "reviewer")
graph = builder.compile(name="translation")


async def main():
    return await asyncio.wait_for(graph.ainvoke({"messages": [("user", "Translate: the lamp is broken.")]}), 30)


asyncio.run(main())
print(blamespan.record_outcome("failed", reason="broken is kaputt"))
