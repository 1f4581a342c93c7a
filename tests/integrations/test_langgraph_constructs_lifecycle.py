"""Each construct of LangGraph that stops a run, or lets it go on: the whole trace that comes of it."""

from __future__ import annotations

import asyncio
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from langchain_core.tools import tool
from langgraph.cache.memory import InMemoryCache
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError, NodeTimeoutError
from langgraph.func import entrypoint, task
from langgraph.graph import START, StateGraph
from langgraph.types import CachePolicy, Command, RetryPolicy, interrupt

from blamespan.otlp import request_from_json, spans_from_proto
from blamespan.testing import SpanRecorder
from blamespan_integrations.langgraph import LangGraphInstrumentor
from tests.integrations.drawing import literal
from tests.integrations.langgraph_programs import Words, asks_for, calculator, chain, drawn, says

ASK: Any = {"messages": [("user", "1 / 0?")]}
THREAD: Any = {"configurable": {"thread_id": "t-1"}}
ASKER = ("asker", lambda _: {"words": [interrupt("May I?")]})


@pytest.mark.construct("LangGraph", "Retries")
@pytest.mark.parametrize("is_async", [False, True])
def test_retries(recorder: SpanRecorder, is_async: bool) -> None:
    """Each failed attempt is an error step of its own, and later ones say which attempt they are."""
    left = [ConnectionError("first"), ConnectionError("second")]

    def flaky(_: Words) -> dict[str, list[str]]:
        if left:
            raise left.pop(0)
        return {"words": ["at last"]}

    graph = StateGraph(Words)
    policy = RetryPolicy(retry_on=ConnectionError, initial_interval=0.001, jitter=False)
    graph.add_node("flaky", flaky, retry_policy=policy)
    graph.add_edge(START, "flaky")
    compiled = graph.compile(name="g")
    asyncio.run(compiled.ainvoke({"words": []})) if is_async else compiled.invoke({"words": []})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: flaky
        0 flaky: message '', error ConnectionError, langgraph.step=1
        1 flaky: message '', error ConnectionError, blamespan.step.attempt=2, langgraph.step=1
        2 flaky: message 'words: at last', blamespan.step.attempt=3, langgraph.step=1
    """)


@pytest.mark.construct("LangGraph", "interrupt() and resume")
@pytest.mark.parametrize("is_async", [False, True])
def test_interrupt_and_resume(recorder: SpanRecorder, is_async: bool) -> None:
    """The question is a step and no error, the run is marked as waiting, and the run that goes on links to it."""
    graph = chain(("first", says("hello")), ASKER, name="g", checkpointer=InMemorySaver())
    for given in ({"words": []}, Command(resume="yes")):
        asyncio.run(graph.ainvoke(given, THREAD)) if is_async else graph.invoke(given, THREAD)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, incomplete, interrupted
        task: words: []
        agents: first, asker
        0 first: message 'words: hello', langgraph.step=1
        1 asker: message 'May I?' after 0, blamespan.step.interrupted=True, langgraph.step=2
        run 1: invoke_workflow g, complete, continues run 0
        task: words: []
        agents: asker
        0 asker: message 'words: yes', langgraph.step=2
    """)


@pytest.mark.construct("LangGraph", "interrupt() in a subgraph")
def test_interrupt_in_a_subgraph(recorder: SpanRecorder) -> None:
    """The member that asks is the step, and its whole run waits."""
    graph = chain(("desk", chain(ASKER, name="team")), name="g", checkpointer=InMemorySaver())
    graph.invoke({"words": []}, THREAD)
    graph.invoke(Command(resume="yes"), THREAD)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, incomplete, interrupted
        task: words: []
        agents: asker
        0 asker: message 'May I?', blamespan.agent.id='team/asker', blamespan.step.interrupted=True, langgraph.step=1
        run 1: invoke_workflow g, complete, continues run 0
        task: words: []
        agents: asker
        0 asker: message 'words: yes', blamespan.agent.id='team/asker', langgraph.step=1
    """)


@pytest.mark.construct("LangGraph", "interrupt() in a tool")
def test_interrupt_in_a_tool(recorder: SpanRecorder) -> None:
    """The call that asks a person is interrupted, not failed; after the answer it is its agent's call again."""

    @tool
    def book() -> str:
        """Book."""
        return f"booked: {interrupt('Really?')}"

    graph = calculator(asks_for("book"), "Done.", tools=[book], checkpointer=InMemorySaver())
    graph.invoke(ASK, THREAD)
    graph.invoke(Command(resume="yes"), THREAD)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow calculator, incomplete, interrupted
        task: 1 / 0?
        agents: solver
        0 solver: message 'book({})', 3+4 tokens, langgraph.step=1
        1 solver: tool_call 'book({})' after 0, blamespan.step.interrupted=True, gen_ai.tool.call.id='call_0'
        2 solver: tool_result 'Really?' after 1
        run 1: invoke_workflow calculator, complete, continues run 0
        task: 1 / 0?
        agents: solver, checker
        0 solver: tool_call 'book({})', gen_ai.tool.call.id='call_0'
        1 solver: tool_result 'booked: yes' after 0
        2 solver: message 'Done.' after 1, langgraph.step=3
        3 checker: message 'I checked it.' after 2, langgraph.step=4
    """)


@pytest.mark.construct("LangGraph", "interrupt_before and interrupt_after")
@pytest.mark.parametrize("is_async", [False, True])
def test_breakpoints(recorder: SpanRecorder, is_async: bool) -> None:
    """A run that pauses at a breakpoint waits as one that asks does, and says before or after which node."""
    nodes = ("one", says("1")), ("two", says("2")), ("three", says("3"))
    graph = chain(*nodes, name="g", checkpointer=InMemorySaver(), interrupt_before=["two"], interrupt_after=["two"])
    for given in ({"words": []}, None, None):
        asyncio.run(graph.ainvoke(given, THREAD)) if is_async else graph.invoke(given, THREAD)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, incomplete, interrupted, breakpoint=before, next=('two',)
        task: words: []
        agents: one
        0 one: message 'words: 1', langgraph.step=1
        run 1: invoke_workflow g, incomplete, interrupted, breakpoint=after, continues run 0
        task: words: []
        agents: two
        0 two: message 'words: 2', langgraph.step=2
        run 2: invoke_workflow g, complete, continues run 1
        task: words: []
        agents: three
        0 three: message 'words: 3', langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "Breakpoint in a subgraph")
def test_breakpoint_in_a_subgraph(recorder: SpanRecorder) -> None:
    """A team that pauses before its first member says nothing."""
    team = chain(("one", says("1")), name="team", interrupt_before=["one"])
    graph = chain(("desk", team), name="g", checkpointer=InMemorySaver())
    graph.invoke({"words": []}, THREAD)
    graph.invoke(None, THREAD)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, incomplete, interrupted, breakpoint=before, next=('one',)
        task: words: []
        agents:
        run 1: invoke_workflow g, complete, continues run 0
        task: words: []
        agents: one
        0 one: message 'words: 1', blamespan.agent.id='team/one', langgraph.step=1
    """)


PROGRAM = """
import sys
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from opentelemetry.exporter.otlp.json.file import FileSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from langchain_core.tools import tool
from langgraph.types import interrupt
from blamespan_integrations.langgraph import LangGraphInstrumentor
from tests.integrations.langgraph_programs import asks_for, calculator

@tool
def book() -> str:
    "Book."
    return f"booked: {interrupt('Really?')}"

provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(FileSpanExporter(sys.argv[2])))
LangGraphInstrumentor().instrument(tracer_provider=provider, link_checkpoints=True)
with SqliteSaver.from_conn_string(sys.argv[1]) as saver:
    graph = calculator(*([asks_for("book")] if sys.argv[3] == "ask" else ["Done."]), tools=[book], checkpointer=saver)
    given = {"messages": [("user", "Book it.")]} if sys.argv[3] == "ask" else Command(resume="yes")
    graph.invoke(given, {"configurable": {"thread_id": "t-1"}})
provider.shutdown()
"""


@pytest.mark.construct("LangGraph", "Resume in another process (SQLite checkpointer)")
def test_resume_in_another_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `link_checkpoints` the link to the first half, and who asked for the open call, travel in the checkpoint."""
    pytest.importorskip("langgraph.checkpoint.sqlite")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [str(program), str(tmp_path / "db"), str(tmp_path / "spans.jsonl")]
    monkeypatch.setattr(sys, "argv", [*command, "ask"])
    runpy.run_path(str(program))
    LangGraphInstrumentor().uninstrument()
    subprocess.run([sys.executable, *command, "answer"], env={**os.environ, "PYTHONPATH": "."}, check=True, timeout=100)

    requests = map(request_from_json, (tmp_path / "spans.jsonl").read_text().splitlines())
    spans = [span for request in requests for span in spans_from_proto(request.resource_spans)]
    assert drawn(spans) == literal("""
        run 0: invoke_workflow calculator, incomplete, interrupted
        task: Book it.
        agents: solver
        0 solver: message 'book({})', 3+4 tokens, langgraph.step=1
        1 solver: tool_call 'book({})' after 0, blamespan.step.interrupted=True, gen_ai.tool.call.id='call_0'
        2 solver: tool_result 'Really?' after 1
        run 1: invoke_workflow calculator, complete, continues run 0
        task: yes
        agents: solver, checker
        0 solver: tool_call 'book({})', gen_ai.tool.call.id='call_0'
        1 solver: tool_result 'booked: yes' after 0
        2 solver: message 'Done.' after 1, langgraph.step=3
        3 checker: message 'I checked it.' after 2, langgraph.step=4
    """)


@pytest.mark.construct("LangGraph", "Checkpointer: a conversation of several runs")
def test_conversation(recorder: SpanRecorder) -> None:
    """A later run on the same thread has the same conversation id and is no continuation of the earlier one."""
    graph = chain(("clerk", lambda state: {"words": [f"answer {len(state['words'])}"]}), checkpointer=InMemorySaver())
    for question in ("first", "second"):
        graph.invoke({"words": [question]}, THREAD)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow chain, complete
        task: words: first
        agents: clerk
        0 clerk: message 'words: answer 1', langgraph.step=1
        run 1: invoke_workflow chain, complete
        task: words: second
        agents: clerk
        0 clerk: message 'words: answer 3', langgraph.step=4
    """)


@pytest.mark.construct("LangGraph", "Time travel")
@pytest.mark.parametrize("is_async", [False, True])
def test_time_travel(recorder: SpanRecorder, is_async: bool) -> None:
    """A run that starts from an earlier checkpoint links to the run that wrote it, and names it."""
    graph = chain(("one", says("1")), ("two", says("2")), name="g", checkpointer=InMemorySaver())
    graph.invoke({"words": ["first"]}, THREAD)
    graph.invoke({"words": ["second"]}, THREAD)
    first = [state for state in graph.get_state_history(THREAD) if state.next == ("two",)][-1]
    forked = asyncio.run(graph.ainvoke(None, first.config)) if is_async else graph.invoke(None, first.config)

    assert forked["words"] == ["first", "1", "2"]
    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: first
        agents: one, two
        0 one: message 'words: 1', langgraph.step=1
        1 two: message 'words: 2' after 0, langgraph.step=2
        run 1: invoke_workflow g, complete
        task: words: second
        agents: one, two
        0 one: message 'words: 1', langgraph.step=5
        1 two: message 'words: 2' after 0, langgraph.step=6
        run 2: invoke_workflow g, complete, forks run 0
        task: ''
        agents: two
        0 two: message 'words: 2', langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "Fork: update_state, then go on")
@pytest.mark.parametrize("is_async", [False, True])
def test_fork_by_update_state(recorder: SpanRecorder, is_async: bool) -> None:
    """A run from a checkpoint that the program wrote itself links to the run before that."""
    graph = chain(("one", says("1")), ("two", says("2")), name="g", checkpointer=InMemorySaver())
    graph.invoke({"words": ["first"]}, THREAD)
    before = next(state for state in graph.get_state_history(THREAD) if state.next == ("two",))
    if is_async:
        fork = asyncio.run(graph.aupdate_state(before.config, {"words": ["corrected"]}))
        asyncio.run(graph.ainvoke(None, fork))
    else:
        graph.invoke(None, graph.update_state(before.config, {"words": ["corrected"]}))

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: first
        agents: one, two
        0 one: message 'words: 1', langgraph.step=1
        1 two: message 'words: 2' after 0, langgraph.step=2
        run 1: invoke_workflow g, complete, forks run 0
        task: ''
        agents: two
        0 two: message 'words: 2', langgraph.step=3
    """)


@pytest.mark.construct("LangGraph", "Going on after a failure")
def test_going_on_after_a_failure(recorder: SpanRecorder) -> None:
    """A run that goes on where another failed links to it."""
    left = [ConnectionError("down")]

    def flaky(_: Words) -> dict[str, list[str]]:
        if left:
            raise left.pop()
        return {"words": ["up"]}

    graph = chain(("one", says("1")), ("flaky", flaky), name="g", checkpointer=InMemorySaver())
    with pytest.raises(ConnectionError):
        graph.invoke({"words": []}, THREAD)
    graph.invoke(None, THREAD)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete, error ConnectionError
        task: words: []
        agents: one, flaky
        outcome: failed
        0 one: message 'words: 1', langgraph.step=1
        1 flaky: message '' after 0, error ConnectionError, langgraph.step=2
        run 1: invoke_workflow g, complete, continues run 0
        task: words: []
        agents: flaky
        0 flaky: message 'words: up', langgraph.step=2
    """)


@pytest.mark.construct("LangGraph", "Node errors")
@pytest.mark.parametrize("is_async", [False, True])
def test_node_error(recorder: SpanRecorder, is_async: bool) -> None:
    """The node that raised and the run are errors of the exception's type; nobody else is."""

    def bad(_: Words) -> None:
        raise KeyError("nothing there")

    graph = chain(("good", says("fine")), ("bad", bad), name="g")
    with pytest.raises(KeyError):
        asyncio.run(graph.ainvoke({"words": []})) if is_async else graph.invoke({"words": []})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete, error KeyError
        task: words: []
        agents: good, bad
        outcome: failed
        0 good: message 'words: fine', langgraph.step=1
        1 bad: message '' after 0, error KeyError, langgraph.step=2
    """)


@pytest.mark.construct("LangGraph", "Node error handler")
def test_node_error_handler(recorder: SpanRecorder) -> None:
    """The failure stays visible where a handler saves the run, and what the handler says builds on it."""

    def bad(_: Words) -> None:
        raise KeyError("nothing there")

    graph = StateGraph(Words)
    graph.add_node("bad", bad, error_handler=says("ok"))
    graph.add_node("end", says("done"))
    graph.add_edge(START, "bad")
    graph.add_edge("bad", "end")
    graph.compile(name="g").invoke({"words": []})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: []
        agents: bad, bad.error_handler
        0 bad: message '', error KeyError, langgraph.step=1
        1 bad.error_handler: message 'words: ok' after 0, langgraph.node='__error_handler__bad', langgraph.step=1
    """)


@pytest.mark.construct("LangGraph", "Tool errors")
def test_tool_error_handled(recorder: SpanRecorder) -> None:
    """A tool that raised is an error, also where its agent is told and goes on."""
    calculator(asks_for("divide", a=1, b=0), "It cannot be.", handle_tool_errors=True).invoke(ASK)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow calculator, complete
        task: 1 / 0?
        agents: solver, checker
        0 solver: message 'divide({"a": 1, "b": 0})', 3+4 tokens, langgraph.step=1
        1 solver: tool_call 'divide({"a": 1, "b": 0})' after 0, error ZeroDivisionError, gen_ai.tool.call.id='call_0'
        2 solver: tool_result 'division by zero' after 1, error ZeroDivisionError
        3 solver: message 'It cannot be.' after 2, langgraph.step=3
        4 checker: message 'I checked it.' after 3, langgraph.step=4
    """)


@pytest.mark.construct("LangGraph", "Tool errors that stop the run")
def test_tool_error_unhandled(recorder: SpanRecorder) -> None:
    """A tool's exception that stops the run is the tool's failure and the run's, nobody else's."""
    with pytest.raises(ZeroDivisionError):
        calculator(asks_for("divide", a=1, b=0)).invoke(ASK)

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow calculator, complete, error ZeroDivisionError
        task: 1 / 0?
        agents: solver
        outcome: failed
        0 solver: message 'divide({"a": 1, "b": 0})', 3+4 tokens, langgraph.step=1
        1 solver: tool_call 'divide({"a": 1, "b": 0})' after 0, error ZeroDivisionError, gen_ai.tool.call.id='call_0'
        2 solver: tool_result 'division by zero' after 1, error ZeroDivisionError
    """)


def slow(_: Words) -> None:
    time.sleep(0.4)


async def slow_async(_: Words) -> None:
    await asyncio.sleep(60)


async def quick_async(_: Words) -> dict[str, list[str]]:
    return {"words": ["quick"]}


def side_by_side(**nodes: Any) -> Any:
    """Make a graph whose nodes all begin at once."""
    graph = StateGraph(Words)
    for name, node in nodes.items():
        graph.add_node(name, node)
        graph.add_edge(START, name)
    return graph.compile(name="g")


@pytest.mark.construct("LangGraph", "Timeout of a step")
@pytest.mark.parametrize("is_async", [False, True])
def test_step_timeout(recorder: SpanRecorder, is_async: bool) -> None:
    """The node that was still at work when the step's time was up failed with it; one that had ended did not."""
    nodes = {"slow": slow_async, "quick": quick_async} if is_async else {"slow": slow, "quick": says("quick")}
    graph = side_by_side(**nodes)
    graph.step_timeout = 0.1
    with pytest.raises(TimeoutError):
        asyncio.run(graph.ainvoke({"words": []})) if is_async else graph.invoke({"words": []})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete, error TimeoutError
        task: words: []
        agents: quick, slow
        outcome: failed
        0 quick: message 'words: quick', langgraph.step=1
        1 slow: message '', error TimeoutError, langgraph.step=1
    """)


@pytest.mark.construct("LangGraph", "Timeout policy of a node")
async def test_node_timeout(recorder: SpanRecorder) -> None:
    """A node whose own time is up is an error of type NodeTimeoutError."""
    graph = StateGraph(Words)
    graph.add_node("slow", slow_async, timeout=0.05)
    graph.add_edge(START, "slow")
    with pytest.raises(NodeTimeoutError):
        await graph.compile(name="g").ainvoke({"words": []})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete, error NodeTimeoutError
        task: words: []
        agents: slow
        outcome: failed
        0 slow: message '', error NodeTimeoutError, langgraph.step=1
    """)


@pytest.mark.construct("LangGraph", "Recursion limit")
def test_recursion_limit(recorder: SpanRecorder) -> None:
    """A run that never comes to an end is an error of the run, not of a step."""
    graph = StateGraph(Words)
    graph.add_node("loop", says("again"))
    graph.add_edge(START, "loop")
    graph.add_edge("loop", "loop")
    with pytest.raises(GraphRecursionError):
        graph.compile(name="g").invoke({"words": []}, {"recursion_limit": 2})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete, error GraphRecursionError
        task: words: []
        agents: loop
        outcome: failed
        0 loop: message 'words: again', langgraph.step=1
        1 loop: message 'words: again' after 0, langgraph.step=2
    """)


@pytest.mark.construct("LangGraph", "Caching of nodes")
@pytest.mark.parametrize("is_async", [False, True])
def test_cached_node(recorder: SpanRecorder, is_async: bool) -> None:
    """A node answered from a cache is a step that says so, in its place, and calls nothing."""
    graph = StateGraph(Words)
    graph.add_node("dear", says("costly"), cache_policy=CachePolicy())
    graph.add_node("end", says("done"))
    graph.add_edge(START, "dear")
    graph.add_edge("dear", "end")
    compiled = graph.compile(name="g", cache=InMemoryCache())
    for _ in range(2):
        asyncio.run(compiled.ainvoke({"words": ["go"]})) if is_async else compiled.invoke({"words": ["go"]})

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, complete
        task: words: go
        agents: dear, end
        0 dear: message 'words: costly', langgraph.step=1
        1 end: message 'words: done' after 0, langgraph.step=2
        run 1: invoke_workflow g, complete
        task: words: go
        agents: dear, end
        0 dear: message 'words: costly', blamespan.step.cached=True, langgraph.step=1
        1 end: message 'words: done' after 0, langgraph.step=2
    """)


@pytest.mark.construct("LangGraph", "Caching of tasks")
def test_cached_task(recorder: SpanRecorder) -> None:
    """A task answered from a cache is a step that says so."""

    @task(cache_policy=CachePolicy())
    def look_up(word: str) -> str:
        return f"{word} found"

    @entrypoint(cache=InMemoryCache())
    def flow(word: str) -> str:
        return look_up(word).result()

    for _ in range(2):
        flow.invoke("one")

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow LangGraph, complete
        task: one
        agents: look_up
        0 look_up: message 'one found', blamespan.agent.id='flow/look_up', langgraph.step=0
        run 1: invoke_workflow LangGraph, complete
        task: one
        agents: look_up
        0 look_up: message 'one found', blamespan.agent.id='flow/look_up', blamespan.step.cached=True, langgraph.step=0
    """)


@pytest.mark.construct("LangGraph", "stream abandoned midway")
def test_abandoned_stream(recorder: SpanRecorder) -> None:
    """A consumer that stops reading leaves a run that ended, without error, but not in order."""
    stream = chain(("one", says("1")), ("two", says("2")), name="g").stream({"words": []})
    next(stream)
    stream.close()

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, incomplete
        task: words: []
        agents: one
        0 one: message 'words: 1', langgraph.step=1
    """)


@pytest.mark.construct("LangGraph", "astream abandoned midway")
async def test_abandoned_async_stream(recorder: SpanRecorder) -> None:
    """Branches still at work when the consumer stops are cancelled, not failed."""
    stream = side_by_side(slow=slow_async, quick=quick_async).astream({"words": []})
    async for _ in stream:
        break
    await stream.aclose()

    assert drawn(recorder) == literal("""
        run 0: invoke_workflow g, incomplete
        task: words: []
        agents: quick, slow
        0 quick: message 'words: quick', langgraph.step=1
        1 slow: message '', blamespan.step.cancelled=True, langgraph.step=1
    """)
