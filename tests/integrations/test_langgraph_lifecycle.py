"""How LangGraph runs end, beyond what drawings show; see `test_langgraph_constructs_lifecycle.py`."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

from blamespan import conventions as words
from blamespan import rebuild
from blamespan.testing import SpanRecorder
from tests.integrations.langgraph_programs import Words, add, asks_for, calculator, chain, model, named, says

ASK = {"messages": [("user", "1 / 0?")]}
THREAD: Any = {"configurable": {"thread_id": "t-1"}}


def test_tool_that_answers_with_an_error_message_is_an_error(recorder: SpanRecorder) -> None:
    """A tool that handles its own exception still answered with an error."""

    def refuse() -> str:
        raise ToolException("not today")

    refuser = tool(refuse, description="Refuse.")
    refuser.handle_tool_error = True
    calculator(asks_for("refuse"), "Pity.", tools=[refuser]).invoke(ASK)

    [span] = named(recorder, "execute_tool refuse")
    keys = [words.ERROR_TYPE, words.TOOL_RESULT, words.AGENT_NAME]
    assert [span.status, *(span.attributes[key] for key in keys)] == ["error", "tool_error", "not today", "solver"]


def test_call_of_a_tool_that_does_not_exist_is_a_failed_call(recorder: SpanRecorder) -> None:
    """A tool node refuses an unknown tool without running anything; the agent's call is recorded all the same."""
    calculator(asks_for("conquer", planet="Mars"), "Sorry.").invoke(ASK)

    call = rebuild(recorder.spans()).steps[1]
    assert (call.agent, call.kind, call.content) == ("solver", "tool_call", 'conquer({"planet":"Mars"})')
    assert (call.status, call.error, call.inputs) == ("error", "tool_error", (0,))


def test_failing_model_call_is_an_error(recorder: SpanRecorder) -> None:
    """A model that raises fails its span, its agent's and the run."""
    with pytest.raises(RuntimeError):
        calculator().invoke(ASK)

    assert [span.status for span in recorder.spans()] == ["error", "error", "error"]


def test_new_question_after_an_interrupt_is_no_resume(recorder: SpanRecorder) -> None:
    """A run with new input does not continue the interrupted one."""
    graph = chain(("asker", lambda _: {"words": [interrupt("May I?")]}), name="g", checkpointer=InMemorySaver())

    graph.invoke({"words": []}, THREAD)
    graph.invoke({"words": ["something else"]}, THREAD)

    assert [list(span.links) for span in named(recorder, "invoke_workflow g")] == [[], []]


def test_tool_resumed_after_approval_belongs_to_who_asked(recorder: SpanRecorder) -> None:
    """A call approved by a person is still its agent's, and hooks that only keep books are no steps."""
    approval = HumanInTheLoopMiddleware(interrupt_on={"add": True})
    speaker = model(asks_for("add", a=1, b=2), "3")
    agent = create_agent(speaker, [add], name="adder", middleware=[approval], checkpointer=InMemorySaver())

    agent.invoke(ASK, THREAD)
    agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)

    first, second = (
        rebuild(span for span in recorder.spans() if span.trace_id == run.trace_id)
        for run in named(recorder, "invoke_workflow adder")
    )
    assert [(step.agent, step.kind) for step in second.steps] == [
        ("adder", "tool_call"),
        ("adder", "tool_result"),
        ("adder", "message"),
    ]
    assert {name.name: name.role for name in first.agents} == {
        "adder": "agent",
        "HumanInTheLoopMiddleware.after_model": "executor",
    }


async def test_cancelled_run_is_incomplete(recorder: SpanRecorder) -> None:
    """A run that its caller cancels has not failed."""

    async def slow(_: Words) -> None:
        await asyncio.sleep(60)

    with pytest.raises(TimeoutError):
        await asyncio.wait_for(chain(("slow", slow), name="g").ainvoke({"words": []}), 0.05)

    assert {(span.name, span.status) for span in recorder.spans()} == {
        ("invoke_workflow g", "unset"),
        ("invoke_agent slow", "unset"),
    }


async def test_sibling_of_a_failing_branch_is_cancelled_not_failed(recorder: SpanRecorder) -> None:
    """When one branch raises, LangGraph stops the others; only the one that raised is an error."""

    async def slow(_: Words) -> None:
        await asyncio.sleep(60)

    async def bad(_: Words) -> None:
        await asyncio.sleep(0.01)
        raise KeyError("bad")

    graph = StateGraph(Words)
    for name, node in (("slow", slow), ("bad", bad)):
        graph.add_node(name, node)
        graph.add_edge(START, name)
    with pytest.raises(KeyError):
        await graph.compile(name="g").ainvoke({"words": []})

    assert [step.agent for step in rebuild(recorder.spans()).steps if step.status == "error"] == ["bad"]


def test_runs_without_an_end_are_closed_when_there_are_too_many(
    recorder: SpanRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Streams that are neither read nor closed do not pile up: beyond the limit the oldest is ended."""
    monkeypatch.setattr("blamespan_integrations.langgraph._graphs.MAX_RUNS", 2)
    graph = chain(("one", says("1")), ("two", says("2")), name="g")
    streams = [graph.stream({"words": []}) for _ in range(3)]
    for stream in streams:
        next(stream)

    assert len(named(recorder, "invoke_workflow g")) == 1
    for stream in streams:
        stream.close()
    assert len(named(recorder, "invoke_workflow g")) == 3


def test_batch_gives_one_trace_per_run(recorder: SpanRecorder) -> None:
    """Runs of a batch run in threads and do not mix."""

    def slow_echo(state: Words) -> dict[str, list[str]]:
        time.sleep(0.005)
        return {"words": [state["words"][0] * 2]}

    chain(("echo", slow_echo), ("end", says("end")), name="g").batch([{"words": [str(n)]} for n in range(8)])

    spans = recorder.spans()
    found = {trace_id: rebuild(s for s in spans if s.trace_id == trace_id) for trace_id in {s.trace_id for s in spans}}
    assert sorted((trace.task, trace.steps[0].content) for trace in found.values()) == [
        (f"words: {n}", f"words: {n}{n}") for n in range(8)
    ]
    assert {len(trace.steps) for trace in found.values()} == {2}


async def test_abatch_gives_one_trace_per_run(recorder: SpanRecorder) -> None:
    """Concurrent tasks do not mix either."""

    async def echo(state: Words) -> dict[str, list[str]]:
        await asyncio.sleep(0.005)
        return {"words": state["words"]}

    await chain(("echo", echo), name="g").abatch([{"words": [str(n)]} for n in range(8)])

    assert len({span.trace_id for span in named(recorder, "invoke_workflow g")}) == 8


def test_cut_off_answer_shows_its_finish_reason(recorder: SpanRecorder) -> None:
    """Why a model stopped is on its span."""
    cut = AIMessage("It is", response_metadata={"finish_reason": "length", "model_name": "m-1"})
    calculator(cut).invoke(ASK)

    chat = named(recorder, "chat ScriptedModel")[0]
    assert chat.attributes[words.FINISH_REASONS] == ("length",)
    assert chat.attributes[words.RESPONSE_MODEL] == "m-1"
