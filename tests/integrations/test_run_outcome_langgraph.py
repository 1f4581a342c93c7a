"""What a program says of how a LangGraph run ended is on the run's trace: said within it, or right after it."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langgraph.graph import START, MessagesState, StateGraph

import blamespan
from blamespan import conventions as words
from blamespan.testing import SpanRecorder
from tests.integrations.drawing import literal
from tests.integrations.langgraph_programs import Words, chain, drawn, named, says

ASK: Any = {"messages": [("user", "What is 12 * 3?")]}


def solver(answer: str = "12 * 3 = 35") -> Any:
    """Make a graph of one node that asks a model."""
    speaker = GenericFakeChatModel(messages=iter([AIMessage(answer)]))
    graph = StateGraph(MessagesState)
    graph.add_node("solver", lambda state: {"messages": [speaker.invoke(state["messages"])]})
    graph.add_edge(START, "solver")
    return graph.compile(name="desk")


def fails(_: Words) -> Words:
    """Say within a node that the run has failed."""
    blamespan.record_outcome("failed", "expected 36")
    return {"words": ["no"]}


async def fails_async(_: Words) -> Words:
    """Say so within an asynchronous node."""
    return fails(_)


@pytest.mark.construct("LangGraph", "`record_outcome()` after a run")
def test_outcome_said_after_a_run_is_that_runs(recorder: SpanRecorder) -> None:
    """Said where the run was awaited, how it ended stands on a span below the run's; it is no step."""
    solver().invoke(ASK)

    assert blamespan.record_outcome("failed", "expected 36")
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow desk, complete
        task: What is 12 * 3?
        agents: solver
        outcome: failed
        0 solver: message '12 * 3 = 35', langgraph.step=1
    """)
    [said] = named(recorder, words.RUN_OUTCOME_SPAN)
    assert said.attributes == {words.RUN_OUTCOME: "failed", words.RUN_OUTCOME_REASON: "expected 36"}


async def test_outcome_said_after_an_awaited_run_is_that_runs(recorder: SpanRecorder) -> None:
    """Likewise of `ainvoke` and of streams read to their end."""
    await solver().ainvoke(ASK)
    blamespan.record_outcome("failed")
    async for _ in solver().astream(ASK):
        pass
    blamespan.record_outcome("succeeded")
    for _ in solver().stream(ASK):
        pass
    blamespan.record_outcome("failed")

    assert drawn(recorder).count("outcome: failed") == 2
    assert drawn(recorder).count("outcome: succeeded") == 1


@pytest.mark.construct("LangGraph", "`record_outcome()` within a run")
def test_outcome_said_within_a_run_stands_on_its_span(recorder: SpanRecorder) -> None:
    """Said by a node, also of a graph within the graph, how the run ended stands on the outermost run's span."""
    chain(("inner", chain(("judge", fails), name="inner")), ("last", says("done")), name="outer").invoke({"words": []})

    [outer] = named(recorder, "invoke_workflow outer")
    assert (outer.attributes[words.RUN_OUTCOME], outer.attributes[words.RUN_OUTCOME_REASON]) == (
        "failed",
        "expected 36",
    )
    assert named(recorder, words.RUN_OUTCOME_SPAN) == []
    assert "outcome: failed" in drawn(recorder)


async def test_asynchronous_nodes_can_say_it_too(recorder: SpanRecorder) -> None:
    """An outcome said within a coroutine of the run stands on the run's span."""
    await chain(("judge", fails_async)).ainvoke({"words": []})

    [run] = named(recorder, "invoke_workflow chain")
    assert run.attributes[words.RUN_OUTCOME] == "failed"


def test_outcome_said_while_reading_a_stream_is_its_runs(recorder: SpanRecorder) -> None:
    """Between the parts of a stream, how the run ended is said of the run under way, never of one before."""
    chain(("a", says("before")), name="before").invoke({"words": []})
    for _ in chain(("a", says("x")), ("b", says("y")), name="now").stream({"words": []}):
        blamespan.record_outcome("failed")

    [before], [now] = named(recorder, "invoke_workflow before"), named(recorder, "invoke_workflow now")
    assert (before.attributes.get(words.RUN_OUTCOME), now.attributes[words.RUN_OUTCOME]) == (None, "failed")
