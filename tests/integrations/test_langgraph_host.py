"""What recording does to the program that is watched: nothing but record."""

from __future__ import annotations

import asyncio
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from langgraph import types
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from opentelemetry import trace

from blamespan.testing import SpanRecorder
from blamespan_integrations.langgraph import LangGraphInstrumentor
from blamespan_integrations.langgraph._wrap import _hook
from tests.integrations.hosts import recording
from tests.integrations.langgraph_programs import Words, add, asks_for, calculator, chain, model, named, says, tree

ASK = {"messages": [("user", "1 + 2?")]}


def test_uninstrumented_graph_has_no_handler_of_ours() -> None:
    """After `uninstrument()` no handler joins a run."""
    with recording("langgraph"):
        pass

    heard: list[int] = []
    chain(("one", lambda _, config: heard.append(len(config["callbacks"].handlers)))).invoke({"words": []})

    assert heard == [0]


def test_uninstrument_in_the_middle_of_a_run_ends_its_spans() -> None:
    """Spans open at `uninstrument()` are ended, and the run goes on."""
    with recording("langgraph") as recorder:
        stream = chain(("one", says("1")), ("two", says("2")), name="g").stream({"words": []})
        next(stream)

    assert len(list(stream)) == 1
    assert tree(recorder) == ["invoke_workflow g", "  invoke_agent one"]


def test_node_that_its_run_outlives_is_ended_as_cancelled() -> None:
    """A node still at work when its run's recording ends keeps no span open."""

    def switch_off(_: Words) -> dict[str, list[str]]:
        LangGraphInstrumentor().uninstrument()
        return {"words": ["off"]}

    with recording("langgraph") as recorder:
        result = chain(("one", switch_off), name="g").invoke({"words": []})

    assert result == {"words": ["off"]}
    assert named(recorder, "invoke_agent one")[0].attributes["blamespan.step.cancelled"] is True
    assert tree(recorder) == ["invoke_workflow g", "  invoke_agent one"]


def test_nothing_outside_graphs_is_recorded(recorder: SpanRecorder) -> None:
    """Plain runnables, models and tools leave no spans."""
    (RunnableLambda(lambda text: text) | model("hi")).invoke("hello")
    model("hi").invoke("hello")
    add.invoke({"a": 1, "b": 2})

    assert recorder.spans() == []


def test_graph_within_a_plain_runnable_is_a_run(recorder: SpanRecorder) -> None:
    """A graph in a sequence is recorded; the sequence is not."""
    (RunnableLambda(lambda _: {"words": []}) | chain(("one", says("1")), name="g")).invoke("go")

    assert tree(recorder) == ["invoke_workflow g", "  invoke_agent one"]


def test_run_is_a_child_of_the_programs_span(recorder: SpanRecorder) -> None:
    """A run lies below the span that was current when the program started it."""
    with recorder.provider.get_tracer("program").start_as_current_span("request"):
        chain(("one", says("1")), name="g").invoke({"words": []})

    assert tree(recorder) == ["request", "  invoke_workflow g", "    invoke_agent one"]


@pytest.mark.parametrize("is_async", [False, True])
def test_spans_of_the_program_nest_under_node_and_tool(recorder: SpanRecorder, is_async: bool) -> None:
    """What the program records within a node or a tool lies below that node or tool, in threads and tasks too."""
    from langchain_core.tools import tool

    tracer = recorder.provider.get_tracer("program")

    @tool
    def look() -> str:
        """Look."""
        with tracer.start_as_current_span("query"):
            return "seen"

    async def act(_: Words) -> dict[str, list[str]]:
        await asyncio.sleep(0)
        with tracer.start_as_current_span("work"):
            return {"words": [await look.ainvoke({})]}

    def act_sync(_: Words) -> dict[str, list[str]]:
        with tracer.start_as_current_span("work"):
            return {"words": [look.invoke({})]}

    graph = StateGraph(Words)
    for name in ("left", "right"):
        graph.add_node(name, act if is_async else act_sync)
        graph.add_edge(START, name)
    compiled = graph.compile(name="g")
    asyncio.run(compiled.ainvoke({"words": []})) if is_async else compiled.invoke({"words": []})

    drawn = tree(recorder)
    assert drawn.count("  invoke_agent left") == drawn.count("  invoke_agent right") == 1
    for name in ("left", "right"):
        place = drawn.index(f"  invoke_agent {name}")
        assert sorted(drawn[place + 1 : place + 4]) == ["      query", "    execute_tool look", "    work"] or drawn[
            place + 1 : place + 4
        ] == ["    work", "    execute_tool look", "      query"]


async def test_spans_of_sync_nodes_and_tools_nest_in_async_runs_too(recorder: SpanRecorder) -> None:
    """A sync node or tool of an async run works in a thread pool; what the program records there lies below it."""
    from langchain_core.tools import tool

    tracer = recorder.provider.get_tracer("program")

    @tool
    def look() -> str:
        """Look."""
        with tracer.start_as_current_span("query"):
            return "seen"

    async def act(_: Words) -> dict[str, list[str]]:
        return {"words": [await look.ainvoke({})]}

    def work(_: Words) -> dict[str, list[str]]:
        with tracer.start_as_current_span("work"):
            return {"words": ["done"]}

    await chain(("act", act), ("work", work), name="g").ainvoke({"words": []})

    assert tree(recorder) == [
        "invoke_workflow g",
        "  invoke_agent act",
        "    execute_tool look",
        "      query",
        "  invoke_agent work",
        "    work",
    ]


def test_model_called_by_a_retriever_is_its_nodes(recorder: SpanRecorder) -> None:
    """A retriever is no step, but the model it asks is a call of the node it works for."""
    speaker = model("lamps")

    class Expanding(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            found = speaker.invoke(query, {"callbacks": run_manager.get_child()})
            return [Document(str(found.text))]

    retriever = Expanding()
    graph = chain(("finder", lambda _: {"words": [one.page_content for one in retriever.invoke("light?")]}), name="g")
    graph.invoke({"words": []})

    assert tree(recorder) == ["invoke_workflow g", "  invoke_agent finder", "    chat ScriptedModel"]


def test_consumers_current_span_stays_its_own(recorder: SpanRecorder) -> None:
    """Between two chunks of a stream, after it, and after walking away, the program's span is current."""
    graph = chain(("one", says("1")), ("two", says("2")), ("three", says("3")))
    with recorder.provider.get_tracer("program").start_as_current_span("consumer") as span:
        seen = [trace.get_current_span() for _ in graph.stream({"words": []}, stream_mode=["messages", "values"])]
        stream = graph.stream({"words": []})
        next(stream)
        stream.close()
        after = trace.get_current_span()

    assert all(one is span for one in [*seen, after])


async def test_async_consumers_current_span_stays_its_own(recorder: SpanRecorder) -> None:
    """The same holds for async streams, read to the end or not."""

    async def one(_: Words) -> dict[str, list[str]]:
        return {"words": ["1"]}

    graph = chain(("one", one), ("two", one))
    with recorder.provider.get_tracer("program").start_as_current_span("consumer") as span:
        seen = [trace.get_current_span() async for _ in graph.astream({"words": []})]
        async for _ in graph.astream({"words": []}):
            break
        after = trace.get_current_span()

    assert all(one is span for one in [*seen, after])


def test_other_callbacks_hear_what_they_would_without_us(recorder: SpanRecorder) -> None:
    """Handlers of the program's own, in the config, keep their events, and ours is not doubled."""

    class Counter(BaseCallbackHandler):
        def __init__(self) -> None:
            self.starts: list[str] = []

        def on_chain_start(self, *_: Any, name: str = "", **__: Any) -> None:
            self.starts.append(name)

    counter = Counter()
    graph = chain(("one", says("1")), name="g")
    graph.invoke({"words": []}, {"callbacks": [counter]})

    assert counter.starts == ["g", "one"]
    assert tree(recorder) == ["invoke_workflow g", "  invoke_agent one"]


def test_interrupt_makes_no_noise(recorder: SpanRecorder, caplog: pytest.LogCaptureFixture) -> None:
    """An interrupt asks nothing of our handler that it does not have."""
    from langgraph.checkpoint.memory import InMemorySaver

    graph = chain(("asker", lambda _: {"words": [interrupt("?")]}), checkpointer=InMemorySaver())
    handler = _hook.handler
    assert handler is not None
    graph.invoke({"words": []}, {"configurable": {"thread_id": "t"}, "callbacks": [handler]})

    assert caplog.records == []
    assert len(named(recorder, "invoke_workflow chain")) == 1


def test_state_that_a_trace_policy_hides_is_not_recorded(recorder: SpanRecorder) -> None:
    """What a node's `TracePolicy` keeps from tracers is kept from spans."""
    graph = StateGraph(Words)
    if not hasattr(types, "TracePolicy"):
        pytest.skip("this LangGraph has no trace policies")
    policy = types.TracePolicy(process_inputs=types.omit_payload, process_outputs=types.omit_payload)
    graph.add_node("secret", says("hunter2"), trace_policy=policy)
    graph.add_edge(START, "secret")
    graph.compile(name="g").invoke({"words": ["public"]})

    [span] = named(recorder, "invoke_agent secret")
    assert "hunter2" not in str(span.attributes)


def test_nothing_is_remembered_after_the_runs(recorder: SpanRecorder) -> None:
    """When all runs have ended, however they ended, no record of them is left."""
    graph = chain(("one", says("1")), ("two", says("2")))
    threads = [threading.Thread(target=graph.invoke, args=({"words": []},)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    next(stream := graph.stream({"words": []}))
    stream.close()
    calculator(asks_for("add", a=1, b=2), "3").invoke(ASK)
    with pytest.raises(TypeError):
        chain(("bad", lambda _: 1 + "")).invoke({"words": []})  # type: ignore[operator]
    RunnableLambda(lambda text: text).invoke("plain")

    handler = _hook.handler
    assert handler is not None
    graphs = handler.graphs
    assert (graphs._frames, graphs._runs, graphs._waiting) == ({}, {}, {})
    assert (handler.run_map, handler.order_map) == ({}, {})


def test_supported_releases_are_those_of_the_package() -> None:
    """The instrumentor asks for the very releases that the extra installs: below them zero-code leaves it off."""
    extras = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    asked = [one.replace(" ", "") for one in LangGraphInstrumentor().instrumentation_dependencies()]

    assert set(asked) <= set(extras["optional-dependencies"]["langgraph"])
