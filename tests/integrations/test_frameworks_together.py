"""One framework within the other: a single trace, in which steps build on each other across both."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from autogen_agentchat.messages import TextMessage
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_core import CancellationToken

from blamespan.testing import SpanRecorder
from tests.integrations.autogen_runs import Echo, assistant, calls
from tests.integrations.drawing import literal
from tests.integrations.hosts import recording
from tests.integrations.langgraph_programs import chain, drawn, says, tree


@pytest.fixture
def both() -> Iterator[SpanRecorder]:
    """Keeps the spans of the test, both frameworks being instrumented."""
    with recording("langgraph", "autogen") as recorder:
        yield recorder


def shown(recorder: SpanRecorder) -> str:
    """Draw what was recorded, without AutoGen's ids, which are random."""
    return re.sub(r", (blamespan\.autogen|blamespan\.agent|gen_ai\.agent)[^,\n]*", "", drawn(recorder))


@pytest.mark.construct("LangGraph", "An AutoGen team within a node")
async def test_autogen_team_within_a_node(both: SpanRecorder) -> None:
    """One trace: the team's first agent builds on what the node builds on, the node's message on the team's last."""

    async def desk(_: object) -> dict[str, list[str]]:
        team = RoundRobinGroupChat([assistant("ada", "a draft"), assistant("bob", "fine")], max_turns=2)
        return {"words": [str((await team.run(task="write")).messages[-1].to_text()) + "!"]}

    await chain(("opener", says("go")), ("desk", desk), ("closer", says("done")), name="g").ainvoke({"words": []})

    assert tree(both) == [
        "invoke_workflow g",
        "  invoke_agent opener",
        "  invoke_agent desk",
        "    invoke_workflow RoundRobinGroupChat",
        "      invoke_agent ada",
        "        chat ReplayChatCompletionClient",
        "      invoke_agent bob",
        "        chat ReplayChatCompletionClient",
        "  invoke_agent closer",
    ]
    assert shown(both) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: opener, desk, closer, ada, bob
        0 opener: message 'words: go', langgraph.step=1
        1 ada: message 'a draft' to bob after 0, 5+2 tokens
        2 bob: message 'fine' to ada after 1, 7+1 tokens
        3 desk: message 'words: fine!' after 0 2, langgraph.step=2
        4 closer: message 'words: done' after 3, langgraph.step=3
    """)


@pytest.mark.construct("AutoGen", "A LangGraph graph within a tool")
@pytest.mark.parametrize("is_async", [False, True])
async def test_graph_within_an_autogen_tool(both: SpanRecorder, is_async: bool) -> None:
    """One trace: the graph's first node builds on the tool's call."""
    graph = chain(("reader", says("read")), ("writer", says("written")), name="inner")

    def ask(word: str) -> str:
        """Ask the graph."""
        return str(graph.invoke({"words": [word]})["words"][-1])

    async def ask_later(word: str) -> str:
        """Ask the graph."""
        return str((await graph.ainvoke({"words": [word]}))["words"][-1])

    ask_later.__name__ = "ask"
    boss = assistant("boss", calls(("ask", {"word": "hey"})), tools=[ask_later if is_async else ask])
    await RoundRobinGroupChat([boss], max_turns=1).run(task="do it")

    assert shown(both) == literal("""
        run 0: invoke_workflow RoundRobinGroupChat, complete
        task: do it
        agents: boss, reader, writer
        0 boss: tool_call 'ask({"word": "hey"})', gen_ai.tool.call.id='call-0'
        1 reader: message 'words: read' after 0, langgraph.step=1
        2 writer: message 'words: written' after 1, langgraph.step=2
        3 boss: tool_result 'written' after 0
        4 boss: message 'written' after 3, 0+7 tokens
    """)


@pytest.mark.construct("LangGraph", "An AutoGen agent asked within a node")
async def test_autogen_agent_within_a_node(both: SpanRecorder) -> None:
    """One trace: the agent builds on what the node builds on, and the node's message on the agent's."""

    async def desk(_: object) -> dict[str, list[str]]:
        asked = [TextMessage(content="hey", source="user")]
        answer = await Echo("echo").on_messages(asked, CancellationToken())
        return {"words": [answer.chat_message.to_text() + "!"]}

    await chain(("opener", says("go")), ("desk", desk), name="g").ainvoke({"words": []})

    assert shown(both) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: opener, desk, echo
        0 opener: message 'words: go', langgraph.step=1
        1 echo: message 'echo: hey' after 0
        2 desk: message 'words: echo: hey!' after 0 1, langgraph.step=2
    """)


@pytest.mark.construct("AutoGen", "A LangGraph graph within a tool within a graph")
async def test_frameworks_within_each_other(both: SpanRecorder) -> None:
    """However deep, the innermost step counts: a team in a node in a tool builds on that node's grounds."""

    async def desk(_: object) -> dict[str, list[str]]:
        team = RoundRobinGroupChat([Echo("inner")], max_turns=1)
        return {"words": [str((await team.run(task="write")).messages[-1].to_text()) + "!"]}

    graph = chain(("reader", says("read")), ("desk", desk), name="inner")

    async def ask(word: str) -> str:
        """Ask the graph."""
        return str((await graph.ainvoke({"words": [word]}))["words"][-1])

    boss = assistant("boss", calls(("ask", {"word": "hey"})), tools=[ask])
    await RoundRobinGroupChat([boss], max_turns=1).run(task="do it")

    assert shown(both) == literal("""
        run 0: invoke_workflow RoundRobinGroupChat, complete
        task: do it
        agents: boss, reader, inner, desk
        0 boss: tool_call 'ask({"word": "hey"})', gen_ai.tool.call.id='call-0'
        1 reader: message 'words: read' after 0, langgraph.step=1
        2 inner: message 'inner: write' after 1
        3 desk: message 'words: inner: write!' after 1 2, langgraph.step=2
        4 boss: tool_result 'inner: write!' after 0
        5 boss: message 'inner: write!' after 4, 0+7 tokens
    """)
