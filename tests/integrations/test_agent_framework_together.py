"""Agent Framework beside others: within a LangGraph node, around a LangGraph graph, and with contents off or masked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

pytest.importorskip("langgraph")

from agent_framework_orchestrations import SequentialBuilder

from blamespan.testing import SpanRecorder
from tests.integrations.agent_framework_runs import agent, call, look_up
from tests.integrations.drawing import literal
from tests.integrations.hosts import recording
from tests.integrations.langgraph_programs import chain, drawn, says, tree


@pytest.fixture
def both() -> Iterator[SpanRecorder]:
    """Keeps the spans of the test, both frameworks being instrumented."""
    with recording("langgraph", "agent_framework") as recorder:
        yield recorder


def shown(recorder: SpanRecorder) -> str:
    """Draw what was recorded, without ids, which are random."""
    return re.sub(r", (blamespan\.agent|gen_ai\.(agent|tool))[^,\n]*", "", drawn(recorder))


@pytest.mark.construct("LangGraph", "An Agent Framework workflow within a node")
async def test_workflow_within_a_node(both: SpanRecorder) -> None:
    """One trace: the workflow's first agent builds on what the node builds on, the node's message on its last."""

    async def desk(_: object) -> dict[str, list[str]]:
        team = SequentialBuilder(participants=[agent("ada", "a draft"), agent("bob", "fine")]).build()
        return {"words": [(await team.run("write")).get_outputs()[-1].text + "!"]}

    await chain(("opener", says("go")), ("desk", desk), ("closer", says("done")), name="g").ainvoke({"words": []})

    assert tree(both) == [
        "invoke_workflow g",
        "  invoke_agent opener",
        "  invoke_agent desk",
        "    invoke_workflow Sequential",
        "      invoke_agent ada",
        "        chat rule",
        "      invoke_agent bob",
        "        chat rule",
        "  invoke_agent closer",
    ]
    assert shown(both) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: opener, desk, closer, ada, bob
        0 opener: message 'words: go', langgraph.step=1
        1 ada: message 'a draft' to bob after 0, 1+2 tokens
        2 bob: message 'fine' after 1, 2+2 tokens
        3 desk: message 'words: fine!' after 0 2, langgraph.step=2
        4 closer: message 'words: done' after 3, langgraph.step=3
        """)


@pytest.mark.construct("Agent Framework", "A LangGraph graph within a tool")
async def test_graph_within_a_tool(both: SpanRecorder) -> None:
    """One trace: the graph's first node builds on the tool's call."""
    graph = chain(("reader", says("read")), ("writer", says("written")), name="inner")

    async def ask(word: str) -> str:
        """Ask the graph."""
        return str((await graph.ainvoke({"words": [word]}))["words"][-1])

    await agent("boss", call("ask", word="hey"), "done", tools=[ask]).run("do it")

    assert shown(both) == literal("""
        run 0: invoke_workflow boss, complete
        task: do it
        agents: boss, reader, writer
        0 boss: tool_call 'ask({"word": "hey"})'
        1 reader: message 'words: read' after 0, langgraph.step=1
        2 writer: message 'words: written' after 1, langgraph.step=2
        3 boss: tool_result 'written' after 0
        4 boss: message 'done' after 3, 4+4 tokens
        """)


async def test_secrets_are_masked() -> None:
    """A key in a message, an argument or an answer is masked, and the program has it."""
    key = "sk-proj-" + "a1B2c3D4" * 6
    with recording("agent_framework") as recorder:
        clerk = agent("clerk", call("look_up", city=key), f"it is {key}", tools=[look_up])
        response = await clerk.run(f"use {key}")

    assert response.text == f"it is {key}"
    assert key not in json.dumps([dict(span.attributes) for span in recorder.spans()], default=str)
