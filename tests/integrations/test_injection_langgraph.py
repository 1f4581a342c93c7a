"""Faults injected into LangGraph graphs: every kind shows in a rebuilt trace, and nothing in it says so."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import StructuredTool, tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode
from langgraph.pregel import Pregel
from langgraph.types import Command

import blamespan
from blamespan import rebuild
from blamespan.intercepting.boundaries import Mechanism
from blamespan.trace import MessageActionTrace
from tests.integrations.injection_laws import check_is_shown, drawn, every_fault, faulty, words_of
from tests.integrations.langgraph_programs import ScriptedModel, asks_for, chain, model, recorded, says

PLAN = (
    "We need 48 rooms in Paris for 2 nights. The budget must be at least 300 euros. The hotel is not far, before June.",
    "So it is 48 rooms and not 50, as the clerk in Paris told us. DONE",
    *("We stay with 48 rooms.",) * 4,
)
WORK = ("Paris has 120 rooms, we take 48.", "Rome has 90 rooms, so 48 is valid and correct.", *("Still 48.",) * 4)
REVIEW = ("I checked it: 48 is right. APPROVED", "I checked it again: 48 is right. APPROVED", *("48. APPROVED",) * 4)


class Quoting(ScriptedModel):
    """Says what it is told to, and after that everything that it was sent: so what it was sent shows."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **options: Any) -> ChatResult:
        (generation,) = super()._generate(messages, *args, **options).generations
        told = " / ".join(message.text for message in messages)
        said = generation.message
        text = said.text if getattr(said, "tool_calls", None) else f"{said.text} <- {told}"
        return ChatResult(generations=[ChatGeneration(message=said.model_copy(update={"content": text}))])


class Streaming(ScriptedModel):
    """Says what it is told to, word by word."""

    def _stream(self, *_: Any, **__: Any) -> Iterator[ChatGenerationChunk]:
        for word in re.findall(r"\S+\s*", next(self.answers).text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


@tool
def look(city: str, nights: int) -> str:
    """Look up a city's rooms."""
    return f"{city} has {120 if city == 'Paris' else 90} rooms\nfor {nights} nights\nin all hotels"


@tool
def count(city: str, nights: int) -> str:
    """Count a city's rooms."""
    return f"{city}: {nights}"


def members(quoting: bool = False, is_async: bool = False) -> CompiledStateGraph:
    """Make a planner, a worker with tools and a reviewer, who go through it twice."""
    first, second = (asks_for("look", f"call_{city}", city=city, nights=2) for city in ("Paris", "Rome"))
    scripts = {"planner": PLAN, "worker": (first, WORK[0], second, *WORK[1:]), "reviewer": REVIEW}
    graph = StateGraph(MessagesState)
    for name, script in scripts.items():
        graph.add_node(name, _member(name, model(*script), quoting, is_async))
    graph.add_node("tools", ToolNode([look, count], handle_tool_errors=True))
    graph.add_edge(START, "planner")
    graph.add_edge("planner", "worker")
    graph.add_conditional_edges("worker", _after_work, ["tools", "reviewer"])
    graph.add_edge("tools", "worker")
    graph.add_conditional_edges("reviewer", _after_review, ["planner", END])
    return graph.compile(name="team")


def _member(name: str, speaker: ScriptedModel, quoting: bool, is_async: bool) -> Any:
    speaker = Quoting(answers=speaker.answers) if quoting else speaker
    told = SystemMessage(f"You are the {name}. You must check each number. Only 2 nights in Paris.")
    bound = speaker.bind_tools([look, count]) if name == "worker" else speaker

    async def aspeak(state: Any) -> Any:
        return {"messages": [await bound.ainvoke([told, *state["messages"]])]}

    return aspeak if is_async else lambda state: {"messages": [bound.invoke([told, *state["messages"]])]}


def _after_work(state: Any) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else "reviewer"


def _after_review(state: Any) -> str:
    return "planner" if sum("APPROVED" in message.text for message in state["messages"]) < 2 else END


def run_members(quoting: bool = False) -> MessageActionTrace:
    """Run them recorded."""
    return run_recorded(members(quoting))


def run_recorded(graph: Any, task: Any = "Book 48 rooms in Paris") -> MessageActionTrace:
    """Run a graph with LangGraph instrumented."""
    with recorded() as recorder:
        graph.invoke({"messages": [("user", task)]} if isinstance(task, str) else task)
    return rebuild(recorder.spans())


@pytest.mark.parametrize(("kind", "mechanism"), every_fault())
def test_every_kind_shows_in_a_rebuilt_trace(kind: str, mechanism: Mechanism) -> None:
    """Whatever the fault, its step is where the label says, and the trace is another one than without it."""
    quoting = mechanism in ("prompt", "memory")
    clean = run_members(quoting)

    trace, injection = faulty(lambda: run_members(quoting), kind, mechanism)

    assert injection.missed == []
    for applied in injection.applied:
        check_is_shown(clean, trace, applied)


@pytest.mark.parametrize("kind", ["aegis:FM-3.2", "blamespan:X4", "blamespan:X2", "mas-fire:message-cycle"])
def test_order_of_activation_does_not_matter(kind: str) -> None:
    """Recording first or injecting first: the spans show the faulty text."""
    with blamespan.inject(kind, seed=4):
        inside = run_members()
    with recorded() as recorder, blamespan.inject(kind, seed=4):
        members().invoke({"messages": [("user", "Book 48 rooms in Paris")]})

    assert drawn(rebuild(recorder.spans())) == drawn(inside)


@pytest.mark.parametrize(("kind", "operator"), [("blamespan:X4", "tool-timeout"), ("aegis:FM-3.2", None)])
def test_spans_say_nothing_of_the_injection(kind: str, operator: str | None) -> None:
    """Apart from the faulty content no word is in the spans that is not in a clean run's; stacks show no hook."""
    with recorded() as clean:
        members().invoke({"messages": [("user", "Book")]})
    with recorded() as recorder, blamespan.inject(kind, operator=operator) as injection:
        members().invoke({"messages": [("user", "Book")]})

    (applied,) = injection.applied
    new = {word for word in words_of(recorder.spans()) - words_of(clean.spans()) if word not in applied.after}
    assert {word for word in new if re.search("inject|fault|splice|boundar|hook|asking", word, re.IGNORECASE)} == set()
    assert operator is not None or new == set()


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
        inside = run_members()
    with recorded() as recorder, blamespan.inject("aegis:FM-3.2", seed=4):
        asyncio.run(members(is_async=True).ainvoke({"messages": [("user", "Book 48 rooms in Paris")]}))

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
    agent = create_agent(model(asks_for("look", city="Paris", nights=2), WORK[0]), [look], name="clerk")
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


def test_originals_are_back_after_the_block() -> None:
    """Leaving the last block restores every method and function."""
    from langgraph.pregel import _runner

    def methods() -> list[Any]:
        owners: tuple[Any, ...] = (ScriptedModel, BaseChatModel, StructuredTool, Pregel, _runner)
        names = ("_generate", "_agenerate", "_run", "_arun", "stream", "astream", "run_with_retry", "__init_subclass__")
        return [vars(owner).get(name) for owner in owners for name in names]

    before = methods()
    with blamespan.inject("aegis:FM-3.2"):
        assert methods() != before
    assert methods() == before


def test_clean_runs_pass_through_hooks_unchanged() -> None:
    """A block whose fault is never written leaves the run as it is."""
    clean = run_members()
    with blamespan.inject("aegis:FM-3.2", agent="nobody") as injection:
        trace = run_members()

    assert drawn(trace) == drawn(clean)
    assert "never reached agent='nobody'; reached at response boundaries: agent 'planner'" in injection.missed[0].reason


def test_branches_side_by_side_err_alike_each_time() -> None:
    """Agents of one superstep run in threads; who errs, and how, is the same every time."""

    def graph() -> Any:
        wide = StateGraph(MessagesState)
        for name in ("left", "right"):
            wide.add_node(name, _member(name, model(PLAN[0]), False, False))
            wide.add_edge(START, name)
        return wide.compile(name="wide")

    def written() -> set[tuple[str, str]]:
        with blamespan.inject("aegis:FM-1.1", probability=0.7, seed=11) as injection:
            graph().invoke({"messages": [("user", "Book")]})
        return {(one.agent, one.after) for one in injection.applied}

    assert written() == written() != set()
