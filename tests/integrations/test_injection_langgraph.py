"""Faults injected into LangGraph graphs, beyond what holds in every framework."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import StructuredTool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command

import blamespan
from blamespan import rebuild
from blamespan.trace import MessageActionTrace
from tests.integrations.hosts import recording
from tests.integrations.injected_langgraph import TOOLS, member, members
from tests.integrations.injection_laws import PLAN, TASK, WORK, drawn, run_team
from tests.integrations.langgraph_programs import ScriptedModel, asks_for, chain, model, says


class Streaming(ScriptedModel):
    """Says what it is told to, word by word."""

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for word in re.findall(r"\S+\s*", next(self.answers).text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


def run_recorded(graph: Any, task: Any = TASK) -> MessageActionTrace:
    """Run a graph with LangGraph instrumented."""
    with recording("langgraph") as recorder:
        graph.invoke({"messages": [("user", task)]} if isinstance(task, str) else task)
    return rebuild(recorder.spans())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("operator", "is_called"), [("tool-error", False), ("tool-timeout", False), ("tool-empty", True)]
)
def test_tool_that_fails_is_not_called(operator: str, is_called: bool, is_async: bool) -> None:
    """A call that fails has no effect on the world; one whose answer is wrong was made."""
    asked: list[str] = []

    def book(city: str) -> str:
        """Book rooms."""
        asked.append(city)
        return "booked, thank you"

    async def abook(city: str) -> str:
        return book(city)

    booking = StructuredTool.from_function(book, None if not is_async else abook, response_format="content")
    agent = create_agent(model(asks_for("book", "call_1", city="Paris"), AIMessage("done")), [booking])
    asking = {"messages": [("user", "Book")]}
    with blamespan.inject("blamespan:X4", operator=operator) as injection:
        try:
            asyncio.run(agent.ainvoke(asking)) if is_async else agent.invoke(asking)
        except (OSError, RuntimeError, ValueError, LookupError, MemoryError):  # whatever services raise
            assert not is_called

    assert [applied.operator for applied in injection.applied] == [operator]
    assert asked == (["Paris"] if is_called else [])


def test_async_graphs_err_as_sync_ones_do() -> None:
    """`ainvoke` of async nodes gives the trace that `invoke` of sync ones gives."""
    with blamespan.inject("aegis:FM-3.2", seed=4):
        inside = run_team("langgraph")
    with recording("langgraph") as recorder, blamespan.inject("aegis:FM-3.2", seed=4):
        asyncio.run(members(is_async=True).ainvoke({"messages": [("user", TASK)]}))

    assert drawn(rebuild(recorder.spans())) == drawn(inside)


@pytest.mark.parametrize("is_async", [False, True])
def test_streams_are_rewritten_as_a_whole(is_async: bool) -> None:
    """A stream's chunks add up to the faulty text."""

    async def astreamed(speaker: BaseChatModel) -> list[str]:
        return [chunk.text async for chunk in speaker.astream("How many?")]

    speaker = Streaming(answers=iter([AIMessage("It is 48, and no more.")]))
    with blamespan.inject("aegis:FM-3.1") as injection:
        told = asyncio.run(astreamed(speaker)) if is_async else [chunk.text for chunk in speaker.stream("How many?")]

    assert "".join(told) == injection.applied[0].after


def test_prebuilt_agents_are_called_by_their_name() -> None:
    """A fault for an agent made by `create_agent` finds it by the name its steps have."""
    agent = create_agent(model(asks_for("look", city="Paris", nights=2), WORK[0]), TOOLS, name="clerk")
    with blamespan.inject("aegis:FM-3.1", agent="clerk") as injection:
        trace = run_recorded(agent)

    (applied,) = injection.applied
    assert applied.step is not None
    assert (trace.steps[applied.step].agent, trace.steps[applied.step].content) == ("clerk", applied.after)


def test_node_without_a_model_can_err() -> None:
    """What a node of the program's own says is rewritten where it is said."""
    with blamespan.inject("aegis:FM-3.1", agent="second") as injection:
        trace = run_recorded(chain(("first", says("It is 48.")), ("second", says("48 then."))), {"words": []})

    assert [step.content for step in trace.steps] == [
        "words: It is 48.",
        f"words: {injection.applied[0].after}",
    ]


def test_command_goes_elsewhere() -> None:
    """Where a node says by `Command(goto=...)` who is next, a misrouted message changes that."""
    graph = StateGraph(MessagesState)
    graph.add_node("planner", lambda _: Command(goto="worker", update={"messages": [AIMessage("Do it.")]}))
    graph.add_node("worker", says_message("Done: 48."))
    graph.add_node("clerk", says_message("Filed: 48."))
    graph.add_edge(START, "planner")
    with blamespan.inject("blamespan:X6", operator="misroute", agent="planner"):
        trace = run_recorded(graph.compile(name="team"))

    assert [step.agent for step in trace.steps] == ["planner", "clerk"]


def says_message(text: str) -> Any:
    """Make a node that says *text*."""
    return lambda _: {"messages": [AIMessage(text)]}


def test_lost_message_is_not_in_the_state() -> None:
    """Who comes next does not read what was lost."""
    with blamespan.inject("blamespan:X6", operator="lose-message", agent="first"):
        state = chain(("first", says("It is 48.")), ("second", says("48 then."))).invoke({"words": []})

    assert state["words"] == ["48 then."]


def test_branches_side_by_side_err_alike_each_time() -> None:
    """Agents of one superstep run in threads; who errs, and how, is the same every time."""

    def graph() -> Any:
        wide = StateGraph(MessagesState)
        for name in ("left", "right"):
            wide.add_node(name, member(name, model(PLAN[0])))
            wide.add_edge(START, name)
        return wide.compile(name="wide")

    def written() -> set[tuple[str, str]]:
        with blamespan.inject("aegis:FM-1.1", probability=0.7, seed=11) as injection:
            graph().invoke({"messages": [("user", "Book")]})
        return {(one.agent, one.after) for one in injection.applied}

    assert written() == written() != set()
