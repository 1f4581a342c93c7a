"""How LangGraph runs end: in order, failed, retried, interrupted and resumed, cancelled, abandoned."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, RetryPolicy, interrupt

from blamespan import conventions as words
from blamespan import rebuild
from blamespan.rebuilding.messages import text_of
from blamespan.testing import SpanRecorder
from tests.integrations.langgraph_programs import (
    Words,
    add,
    asks_for,
    calculator,
    chain,
    model,
    named,
    says,
    steps,
    tree,
)

ASK = {"messages": [("user", "1 / 0?")]}
THREAD: Any = {"configurable": {"thread_id": "t-1"}}


def raises(error: BaseException) -> Any:
    def node(_: Any) -> None:
        raise error

    return node


def test_raising_node_is_an_error_and_passes_unchanged(recorder: SpanRecorder) -> None:
    """The node's span and the run's have the exception's type; the program gets the very exception."""
    error = KeyError("nothing there")

    with pytest.raises(KeyError) as caught:
        chain(("good", says("fine")), ("bad", raises(error))).invoke({"words": []})

    assert caught.value is error
    for name in ("invoke_agent bad", "invoke_workflow chain"):
        [span] = named(recorder, name)
        assert (span.status, span.attributes[words.ERROR_TYPE]) == ("error", "KeyError")
    assert named(recorder, "invoke_agent good")[0].status == "unset"
    assert rebuild(recorder.spans()).outcome == "failed"


def test_failing_tool_that_stops_the_run_is_one_error_step(recorder: SpanRecorder) -> None:
    """A tool's exception that the tool node lets through is the tool's failure and the run's, nobody else's."""
    with pytest.raises(ZeroDivisionError):
        calculator(asks_for("divide", a=1, b=0)).invoke(ASK)

    statuses = {span.name: (span.status, span.attributes.get(words.ERROR_TYPE)) for span in recorder.spans()}
    assert statuses == {
        "invoke_agent solver": ("unset", None),
        "chat ScriptedModel": ("unset", None),
        "execute_tool divide": ("error", "ZeroDivisionError"),
        "invoke_workflow calculator": ("error", "ZeroDivisionError"),
    }


def test_failing_tool_turned_into_a_message_is_still_an_error(recorder: SpanRecorder) -> None:
    """Where the tool node hands the exception to the agent as text, the tool's span says what was raised."""
    calculator(asks_for("divide", a=1, b=0), "It cannot be.", handle_tool_errors=True).invoke(ASK)

    [span] = named(recorder, "execute_tool divide")
    assert (span.status, span.attributes[words.ERROR_TYPE]) == ("error", "ZeroDivisionError")
    assert named(recorder, "invoke_workflow calculator")[0].status == "unset"


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


def test_retry_is_a_step_of_its_own(recorder: SpanRecorder) -> None:
    """Each failed attempt is an error step, and later ones say which attempt they are."""
    left = [ConnectionError("first"), ConnectionError("second")]

    def flaky(_: Words) -> dict[str, list[str]]:
        if left:
            raise left.pop(0)
        return {"words": ["at last"]}

    graph = StateGraph(Words)
    policy = RetryPolicy(retry_on=ConnectionError, initial_interval=0.001, jitter=False)
    graph.add_node("flaky", flaky, retry_policy=policy)
    graph.add_edge(START, "flaky")
    graph.compile(name="graph").invoke({"words": []})

    attempts = named(recorder, "invoke_agent flaky")
    assert [span.status for span in attempts] == ["error", "error", "unset"]
    assert [span.attributes.get("blamespan.step.attempt") for span in attempts] == [None, 2, 3]
    assert named(recorder, "invoke_workflow graph")[0].status == "unset"


def test_interrupt_is_no_error_and_its_resume_links_back(recorder: SpanRecorder) -> None:
    """A run that waits for somebody is neither failed nor complete; the run that goes on links to it."""
    graph = chain(("asker", lambda _: {"words": [interrupt("May I?")]}), name="g", checkpointer=InMemorySaver())

    graph.invoke({"words": []}, THREAD)
    graph.invoke(Command(resume="yes"), THREAD)

    paused, resumed = named(recorder, "invoke_workflow g")
    question, answer = named(recorder, "invoke_agent asker")
    assert [span.status for span in (paused, question, resumed, answer)] == ["unset"] * 4
    assert paused.attributes["blamespan.run.interrupted"] is True
    assert question.attributes["blamespan.step.interrupted"] is True
    assert "May I?" in str(question.attributes[words.OUTPUT_MESSAGES])
    assert [span.attributes[words.RUN_COMPLETE] for span in (paused, resumed)] == [False, True]
    assert [(link.trace_id, link.span_id) for link in resumed.links] == [(paused.trace_id, paused.span_id)]


def test_new_question_after_an_interrupt_is_no_resume(recorder: SpanRecorder) -> None:
    """A run with new input does not continue the interrupted one."""
    graph = chain(("asker", lambda _: {"words": [interrupt("May I?")]}), name="g", checkpointer=InMemorySaver())

    graph.invoke({"words": []}, THREAD)
    graph.invoke({"words": ["something else"]}, THREAD)

    assert [list(span.links) for span in named(recorder, "invoke_workflow g")] == [[], []]


def test_interrupt_within_a_tool_is_no_error(recorder: SpanRecorder) -> None:
    """A tool that asks a person first is not a failed tool, and its tool node is still no agent."""

    def book() -> str:
        return f"booked: {interrupt('Really?')}"

    booker = tool(book, description="Book.")
    graph = StateGraph(MessagesState)
    graph.add_node("clerk", lambda _: {"messages": [asks_for("book")]})
    graph.add_node("tools", ToolNode([booker]))
    graph.add_edge(START, "clerk")
    graph.add_edge("clerk", "tools")
    compiled = graph.compile(name="g", checkpointer=InMemorySaver())

    compiled.invoke(ASK, THREAD)
    compiled.invoke(Command(resume="yes"), THREAD)

    first, second = named(recorder, "execute_tool book")
    assert {span.status for span in recorder.spans()} == {"unset"}
    assert first.attributes["blamespan.step.interrupted"] is True
    assert second.attributes[words.TOOL_RESULT] == "booked: yes"
    assert len(named(recorder, "invoke_agent clerk")) == 1
    assert named(recorder, "invoke_agent tools") == []


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


def test_interrupt_in_a_subgraph_pauses_the_whole_run(recorder: SpanRecorder) -> None:
    """An interrupt deep inside is asked once, by the member that asks."""
    team = chain(("asker", lambda _: {"words": [interrupt("May I?")]}), name="team")
    graph = chain(("desk", team), name="g", checkpointer=InMemorySaver())

    graph.invoke({"words": []}, THREAD)

    assert steps(recorder) == [("asker", "message", "May I?", ())]
    assert named(recorder, "invoke_workflow g")[0].attributes["blamespan.run.interrupted"] is True
    assert {span.status for span in recorder.spans()} == {"unset"}


def test_recursion_limit_fails_the_run(recorder: SpanRecorder) -> None:
    """A run that never comes to an end is an error of the run, not of a step."""
    graph = StateGraph(Words)
    graph.add_node("loop", says("again"))
    graph.add_edge(START, "loop")
    graph.add_edge("loop", "loop")

    with pytest.raises(GraphRecursionError):
        graph.compile(name="g").invoke({"words": []}, {"recursion_limit": 3})

    [run] = named(recorder, "invoke_workflow g")
    assert (run.status, run.attributes[words.ERROR_TYPE]) == ("error", "GraphRecursionError")
    assert [span.status for span in named(recorder, "invoke_agent loop")] == ["unset"] * 3


def test_abandoned_stream_ends_the_run_incomplete(recorder: SpanRecorder) -> None:
    """A consumer that stops reading leaves a run that ended, without error, but not in order."""
    stream = chain(("one", says("1")), ("two", says("2")), name="g").stream({"words": []})
    next(stream)
    del stream
    gc.collect()

    [run] = named(recorder, "invoke_workflow g")
    assert (run.status, run.attributes[words.RUN_COMPLETE]) == ("unset", False)


async def test_abandoned_async_stream_closes_what_is_open(recorder: SpanRecorder) -> None:
    """Branches that are still at work when the consumer stops are ended as cancelled, not as failed."""

    async def slow(_: Words) -> None:
        await asyncio.sleep(60)

    async def quick(_: Words) -> dict[str, list[str]]:
        return {"words": ["quick"]}

    graph = StateGraph(Words)
    for name, node in (("slow", slow), ("quick", quick)):
        graph.add_node(name, node)
        graph.add_edge(START, name)
    stream = graph.compile(name="g").astream({"words": []})
    async for _ in stream:
        break
    await stream.aclose()

    [run], [branch] = named(recorder, "invoke_workflow g"), named(recorder, "invoke_agent slow")
    assert (run.status, run.attributes[words.RUN_COMPLETE]) == ("unset", False)
    assert (branch.status, branch.attributes["blamespan.step.cancelled"]) == ("unset", True)


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


STREAM_MODES = ["values", "updates", "messages", "custom", "tasks", "checkpoints", "debug"]


@pytest.mark.parametrize("mode", STREAM_MODES)
def test_every_stream_mode_gives_the_same_spans(recorder: SpanRecorder, mode: Any) -> None:
    """How the program reads a run does not change what is recorded."""
    list(calculator(asks_for("divide", a=1, b=2), "0.5").stream(ASK, stream_mode=mode))
    streamed = tree(recorder), steps(recorder)
    recorder.clear()

    calculator(asks_for("divide", a=1, b=2), "0.5").invoke(ASK)

    assert streamed == (tree(recorder), steps(recorder))


def test_streamed_answer_is_recorded_whole(recorder: SpanRecorder) -> None:
    """A model that streams its words still gives one model call with the whole answer."""
    speaker = GenericFakeChatModel(messages=iter([AIMessage("one two three")]))
    graph = StateGraph(MessagesState)
    graph.add_node("speaker", lambda state: {"messages": [speaker.invoke(state["messages"])]})
    graph.add_edge(START, "speaker")
    chunks = list(graph.compile().stream(ASK, stream_mode="messages"))

    [chat] = named(recorder, "chat GenericFakeChatModel")
    assert len(chunks) > 3
    assert text_of(chat.attributes[words.OUTPUT_MESSAGES]) == "one two three"


async def test_async_runs_give_the_same_spans(recorder: SpanRecorder) -> None:
    """`ainvoke` and `astream` are recorded as `invoke` is."""
    await calculator(asks_for("divide", a=1, b=2), "0.5").ainvoke(ASK)
    invoked = tree(recorder), steps(recorder)
    recorder.clear()
    assert [_ async for _ in calculator(asks_for("divide", a=1, b=2), "0.5").astream(ASK)]
    streamed = tree(recorder), steps(recorder)
    recorder.clear()

    calculator(asks_for("divide", a=1, b=2), "0.5").invoke(ASK)

    assert invoked == streamed == (tree(recorder), steps(recorder))


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
