"""Each construct of LangGraph by which graphs ask other graphs: several in one node, and ready-made teams."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph

from blamespan.testing import SpanRecorder
from tests.integrations.drawing import literal
from tests.integrations.langgraph_programs import ScriptedModel, add, asks_for, chain, drawn, model, says, tree

ASK: Any = {"messages": [("user", "1 + 2?")]}


def an_agent(name: str, wait_s: float = 0) -> Any:
    """Make a graph of one agent that takes its time."""

    def speak(_: Any) -> Any:
        time.sleep(wait_s)
        return {"messages": [AIMessage(f"{name} says")]}

    graph = StateGraph(MessagesState)
    graph.add_node(name, speak)
    graph.add_edge(START, name)
    return graph.compile(name=f"team {name}")


def last(answers: Sequence[Any]) -> Any:
    return {"messages": [AIMessage(" & ".join(one["messages"][-1].content for one in answers))]}


def gathered(members: Sequence[Any]) -> Any:
    async def panel(state: Any) -> Any:
        return last(await asyncio.gather(*(member.ainvoke(state) for member in members)))

    return panel


def in_threads(members: Sequence[Any]) -> Any:
    def panel(state: Any) -> Any:
        with ThreadPoolExecutor(len(members)) as pool:
            asked = []
            for member in members:
                asked.append(pool.submit(contextvars.copy_context().run, member.invoke, state))
                time.sleep(0.05)
            return last([one.result() for one in asked])

    return panel


@pytest.mark.construct("LangGraph", "Several graphs asked at once in a node (gather, threads)")
@pytest.mark.parametrize("asking", [gathered, in_threads])
async def test_graphs_asked_at_once(recorder: SpanRecorder, asking: Any) -> None:
    """They stand side by side below the node, each builds on what the node builds on, and the node on all of them."""
    graph = StateGraph(MessagesState)
    graph.add_node("opener", lambda _: {"messages": [AIMessage("go on")]})
    graph.add_node("panel", asking([an_agent("a"), an_agent("b", 0.2), an_agent("c", 0.4)]))
    graph.add_node("judge", lambda _: {"messages": [AIMessage("a wins")]})
    graph.add_edge(START, "opener")
    graph.add_edge("opener", "panel")
    graph.add_edge("panel", "judge")
    await graph.compile(name="g").ainvoke(ASK)

    assert tree(recorder) == [
        "invoke_workflow g",
        "  invoke_agent opener",
        "  invoke_workflow panel",
        "    invoke_workflow team a",
        "      invoke_agent a",
        "    invoke_workflow team b",
        "      invoke_agent b",
        "    invoke_workflow team c",
        "      invoke_agent c",
        "    invoke_agent panel",
        "  invoke_agent judge",
    ]
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: 1 + 2?
        agents: opener, a, b, c, panel, judge
        0 opener: message 'go on', langgraph.step=1
        1 a: message 'a says' after 0, blamespan.agent.id='team a/a', langgraph.step=1
        2 b: message 'b says' after 0, blamespan.agent.id='team b/b', langgraph.step=1
        3 c: message 'c says' after 0, blamespan.agent.id='team c/c', langgraph.step=1
        4 panel: message 'a says & b says & c says' after 1 2 3, langgraph.step=2
        5 judge: message 'a wins' after 4, langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "A graph's batch within a node")
def test_batch_within_a_node(recorder: SpanRecorder) -> None:
    """Each input is a run of its own below the node, none builds on another, and the node builds on all."""
    member = an_agent("a")
    graph = StateGraph(MessagesState)
    graph.add_node("panel", lambda state: last(member.batch([state, state, state])))
    graph.add_edge(START, "panel")
    graph.compile(name="g").invoke(ASK)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: 1 + 2?
        agents: a, panel
        0 a: message 'a says', blamespan.agent.id='team a/a', langgraph.step=1
        1 a: message 'a says', blamespan.agent.id='team a/a', langgraph.step=1
        2 a: message 'a says', blamespan.agent.id='team a/a', langgraph.step=1
        3 panel: message 'a says & a says & a says' after 0 1 2, langgraph.step=1
    """)


@pytest.mark.construct("LangGraph", "Several graphs asked one after another in a node")
def test_graphs_asked_in_turn(recorder: SpanRecorder) -> None:
    """One that is given another's answer builds on that; one that is not, on what the node builds on."""
    first, second, third = an_agent("a"), an_agent("b"), an_agent("c")

    def panel(state: Any) -> Any:
        draft = first.invoke(state)
        review = second.invoke({"messages": [("user", f"Review: {draft['messages'][-1].content}")]})
        return last([draft, review, third.invoke(state)])

    graph = StateGraph(MessagesState)
    graph.add_node("panel", panel)
    graph.add_edge(START, "panel")
    graph.compile(name="g").invoke(ASK)

    assert tree(recorder) == [
        "invoke_workflow g",
        "  invoke_workflow panel",
        "    invoke_workflow team a",
        "      invoke_agent a",
        "    invoke_workflow team b",
        "      invoke_agent b",
        "    invoke_workflow team c",
        "      invoke_agent c",
        "    invoke_agent panel",
    ]
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: 1 + 2?
        agents: a, b, c, panel
        0 a: message 'a says', blamespan.agent.id='team a/a', langgraph.step=1
        1 b: message 'b says' after 0, blamespan.agent.id='team b/b', langgraph.step=1
        2 c: message 'c says', blamespan.agent.id='team c/c', langgraph.step=1
        3 panel: message 'a says & b says & c says' after 0 1 2, langgraph.step=1
    """)


@pytest.mark.construct("LangGraph", "A graph's failure that its node catches")
def test_failure_caught_by_the_node(recorder: SpanRecorder) -> None:
    """The team has failed, the node has not, and what the node says builds on the failed step."""

    def caller(state: Any) -> Any:
        try:
            return chain(("breaker", lambda _: 1 / 0), name="team").invoke(state)
        except ZeroDivisionError:
            return {"words": ["saved"]}

    chain(("caller", caller), ("next", says("on")), name="g").invoke({"words": []})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: breaker, caller, next
        0 breaker: message '', error ZeroDivisionError, blamespan.agent.id='team/breaker', langgraph.step=1
        1 caller: message 'words: saved' after 0, langgraph.step=1
        2 next: message 'words: on' after 1, langgraph.step=2
    """)
    assert [span.status for span in recorder.spans() if span.name == "invoke_workflow team"] == ["error"]


@pytest.mark.construct("LangGraph", "Functional API: tasks that nobody joins")
def test_tasks_joined_by_their_entrypoint(recorder: SpanRecorder) -> None:
    """What the entrypoint says builds on every task that no other task has gone on from."""

    @task
    def look_up(word: str) -> str:
        time.sleep(0.2 if word == "two" else 0)
        return f"{word} found"

    @entrypoint()
    def flow(words: list[str]) -> str:
        found = [look_up(word) for word in words]
        return " and ".join(one.result() for one in found)

    flow.invoke(["one", "two"])

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow LangGraph, complete
        task: '- one\\n- two'
        agents: look_up, flow
        0 look_up: message 'one found', blamespan.agent.id='flow/look_up', langgraph.step=0
        1 look_up: message 'two found', blamespan.agent.id='flow/look_up', langgraph.step=0
        2 flow: message 'one found and two found' after 0 1, langgraph.step=0
    """)


@pytest.mark.construct("LangGraph", "Functional API: entrypoint.final")
def test_entrypoint_final(recorder: SpanRecorder) -> None:
    """What the entrypoint gives back is what it says; what it saves for the next run is not."""

    @entrypoint()
    def flow(word: str) -> Any:
        return entrypoint.final(value=f"{word}!", save={"secret": 1})

    flow.invoke("hey")

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow LangGraph, complete
        task: hey
        agents: flow
        0 flow: message 'hey!', langgraph.step=0
    """)


class Chief(ScriptedModel):
    """A model that takes tools in any form."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        return self


@pytest.mark.construct("LangGraph", "langgraph-supervisor")
def test_supervisor(recorder: SpanRecorder) -> None:
    """Each handoff is a tool call of the supervisor, whose answer the worker builds on; nothing is said twice."""
    package = pytest.importorskip("langgraph_supervisor")
    mathematician = create_agent(model(asks_for("add", "m1", a=2, b=3), "2+3=5"), [add], name="math")
    researcher = create_agent(model("five letters"), [], name="research")
    chief = Chief(
        answers=iter(
            [asks_for("transfer_to_research", "s1"), asks_for("transfer_to_math", "s2"), AIMessage("Final: 5")]
        )
    )
    with pytest.warns(DeprecationWarning, match="create_react_agent"):
        team = package.create_supervisor([mathematician, researcher], model=chief, prompt="You lead")
    team.compile(name="team").invoke(ASK)

    assert drawn(recorder) == literal(r"""
        run 0: invoke_workflow team, complete
        task: 1 + 2?
        agents: supervisor, research, math
        0 supervisor: message 'transfer_to_research({})', 3+4 tokens, langgraph.node='agent', langgraph.step=1
        1 supervisor: tool_call 'transfer_to_research({})' to research after 0, gen_ai.tool.call.id='s1'
        2 supervisor: tool_result 'Successfully transferred to research' after 1
        3 research: message 'five letters' after 2, langgraph.node='model', langgraph.step=1
        4 research: message 'Transferring back to supervisor\ntransfer_back_to_supervisor({})\nSuccessfully transferred back to supervisor' after 3, langgraph.step=2
        5 supervisor: message 'transfer_to_math({})' after 4, 3+4 tokens, langgraph.node='agent', langgraph.step=1
        6 supervisor: tool_call 'transfer_to_math({})' to math after 5, gen_ai.tool.call.id='s2'
        7 supervisor: tool_result 'Successfully transferred to math' after 6
        8 math: message 'add({"a": 2, "b": 3})' after 7, 3+4 tokens, langgraph.node='model', langgraph.step=1
        9 math: tool_call 'add({"a": 2, "b": 3})' after 8, gen_ai.tool.call.id='m1'
        10 math: tool_result '5' after 9
        11 math: message '2+3=5' after 10, langgraph.node='model', langgraph.step=3
        12 math: message 'Transferring back to supervisor\ntransfer_back_to_supervisor({})\nSuccessfully transferred back to supervisor' after 11, langgraph.step=4
        13 supervisor: message 'Final: 5' after 12, langgraph.node='agent', langgraph.step=1
    """)  # noqa: E501 - a message of three


@pytest.mark.construct("LangGraph", "langgraph-swarm")
def test_swarm(recorder: SpanRecorder) -> None:
    """A handoff is a tool call whose answer the next agent builds on; no agent stands for the tools."""
    package = pytest.importorskip("langgraph_swarm")
    alice = create_agent(
        model(asks_for("transfer_to_bob", "s1")), [package.create_handoff_tool(agent_name="bob")], name="alice"
    )
    bob = create_agent(model("Ahoy"), [package.create_handoff_tool(agent_name="alice")], name="bob")
    package.create_swarm([alice, bob], default_active_agent="alice").compile(name="swarm").invoke(ASK)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow swarm, complete
        task: 1 + 2?
        agents: alice, bob
        0 alice: message 'transfer_to_bob({})', 3+4 tokens, langgraph.node='model', langgraph.step=1
        1 alice: tool_call 'transfer_to_bob({})' to bob after 0, gen_ai.tool.call.id='s1'
        2 alice: tool_result 'Successfully transferred to bob' after 1
        3 bob: message 'Ahoy' after 2, langgraph.node='model', langgraph.step=1
    """)
