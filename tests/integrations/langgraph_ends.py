"""Runs of LangGraph graphs that end in every way there is."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, TypedDict

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import RetryPolicy, Send, interrupt

from tests.integrations.ends import (
    Watch,
    by_name,
    close_loop_within,
    in_a_thread,
    leave_stream_with_its_loop,
    outlive_loop,
)


class Document:
    """A large thing in a state."""

    def __init__(self) -> None:
        self.body = bytearray(10_000)


class State(TypedDict, total=False):
    document: Any


class OwnError(Exception):
    """An error of the program's own."""


def document(watch: Watch) -> Any:
    return {"document": watch(Document())}


def graph(watch: Watch, *nodes: Any, name: str = "graph", **options: Any) -> Any:
    retry, timeout_s = options.pop("retry", None), options.pop("timeout_s", None)
    builder, before = StateGraph(State), START
    for index, node in enumerate(nodes):
        builder.add_node(f"node{index}", node, retry_policy=retry)
        builder.add_edge(before, f"node{index}")
        before = f"node{index}"
    compiled = builder.compile(name=name, **options)
    compiled.step_timeout = timeout_s
    return watch(compiled)


def good(state: State) -> State:
    return {"document": state["document"]}


def bad(_: State) -> None:
    raise ValueError("it broke")


def stopped(_: State) -> None:
    raise KeyboardInterrupt


async def a_good(state: State) -> State:
    return {"document": state["document"]}


async def a_bad(_: State) -> None:
    raise OwnError


async def slow(_: State) -> None:
    await asyncio.sleep(0.5)


def ask(_: State) -> State:
    return {"document": interrupt("well?")}


def succeeds(watch: Watch) -> None:
    graph(watch, good, good).invoke(document(watch))


def fails(watch: Watch) -> None:
    with suppress(ValueError):
        graph(watch, good, bad).invoke(document(watch))


def is_retried(watch: Watch) -> None:
    left = [1, 2]

    def flaky(state: State) -> State:
        if left:
            left.pop()
            raise ConnectionError
        return good(state)

    policy = RetryPolicy(initial_interval=0.0001, max_interval=0.0001, jitter=False)
    graph(watch, flaky, retry=policy).invoke(document(watch))


def is_interrupted_by_the_keyboard(watch: Watch) -> None:
    with suppress(KeyboardInterrupt):
        graph(watch, good, stopped).invoke(document(watch))


def is_left_after_one_item(watch: Watch) -> None:
    next(graph(watch, good, good).stream(document(watch)))


def is_never_begun(watch: Watch) -> None:
    graph(watch, good).stream(document(watch))


def is_thrown_into(watch: Watch) -> None:
    stream = graph(watch, good, good).stream(document(watch))
    next(stream)
    with suppress(OwnError):
        stream.throw(OwnError())


def fails_async(watch: Watch) -> None:
    with suppress(OwnError):
        asyncio.run(graph(watch, a_good, a_bad).ainvoke(document(watch)))


def times_out(watch: Watch) -> None:
    async def go() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(graph(watch, a_good, slow).ainvoke(document(watch)), 0.005)

    asyncio.run(go())


def exceeds_the_time_of_a_step(watch: Watch) -> None:
    async def go() -> None:
        with suppress(TimeoutError):
            await graph(watch, a_good, slow, timeout_s=0.005).ainvoke(document(watch))

    asyncio.run(go())


def is_cancelled(watch: Watch) -> None:
    async def go() -> None:
        task = asyncio.create_task(graph(watch, slow).ainvoke(document(watch)))
        await asyncio.sleep(0.005)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    asyncio.run(go())


def outlives_its_loop(watch: Watch) -> None:
    outlive_loop(watch, lambda: graph(watch, slow).ainvoke(document(watch)), 0.005)


def is_dropped_with_its_loop(watch: Watch) -> None:
    close_loop_within(watch, lambda: graph(watch, slow).ainvoke(document(watch)), 0.005)


def is_left_with_its_loop(watch: Watch) -> None:
    leave_stream_with_its_loop(lambda: graph(watch, a_good, a_good).astream(document(watch)))


def is_left_async(watch: Watch) -> None:
    async def go() -> None:
        async for _ in graph(watch, a_good, slow).astream(document(watch)):
            break

    asyncio.run(go())


def is_never_awaited(watch: Watch) -> None:
    graph(watch, a_good).ainvoke(document(watch))


def fails_within_a_node(watch: Watch) -> None:
    inner = graph(watch, good, bad, name="inner")

    def catch(state: State) -> State:
        with suppress(ValueError):
            inner.invoke(state)
        return good(state)

    with suppress(ValueError):
        graph(watch, catch, lambda state: inner.invoke(state)).invoke(document(watch))


def fails_in_a_subgraph(watch: Watch) -> None:
    with suppress(ValueError):
        graph(watch, good, graph(watch, good, bad, name="inner")).invoke(document(watch))


def waits_for_somebody(watch: Watch) -> None:
    graph(watch, good, ask, checkpointer=InMemorySaver()).invoke(
        {"document": "plain"}, {"configurable": {"thread_id": "1"}}
    )


def fails_in_a_thread(watch: Watch) -> None:
    in_a_thread(fails, watch)


def fails_in_a_batch(watch: Watch) -> None:
    graph(watch, good, bad).batch([document(watch) for _ in range(3)], return_exceptions=True)


def fails_among_siblings(watch: Watch) -> None:
    builder = StateGraph(State)
    builder.add_node("worker", bad)
    builder.add_conditional_edges(START, lambda state: [Send("worker", state) for _ in range(3)])
    with suppress(ValueError):
        watch(builder.compile()).invoke(document(watch))


def has_no_input(watch: Watch) -> None:
    with suppress(Exception):
        asyncio.run(
            graph(watch, a_good, checkpointer=InMemorySaver()).ainvoke(None, {"configurable": {"thread_id": "1"}})
        )


def fails_in_a_tool(watch: Watch) -> None:
    @tool
    def boom(a: int) -> str:
        """Break."""
        raise ValueError(a)

    call = watch(AIMessage("", tool_calls=[{"name": "boom", "args": {"a": 1}, "id": "call"}]))
    builder = StateGraph(MessagesState)
    builder.add_node("tools", ToolNode([boom], handle_tool_errors=False))
    builder.add_edge(START, "tools")
    with suppress(ValueError):
        builder.compile().invoke({"messages": [call]})


ENDS = by_name(
    *(succeeds, fails, is_retried, is_interrupted_by_the_keyboard, is_left_after_one_item, is_never_begun),
    *(is_thrown_into, fails_async, times_out, exceeds_the_time_of_a_step, is_cancelled, outlives_its_loop),
    *(is_dropped_with_its_loop, is_left_with_its_loop, is_left_async, is_never_awaited, fails_within_a_node),
    *(fails_in_a_subgraph, waits_for_somebody, fails_in_a_thread, fails_in_a_batch, fails_among_siblings),
    *(has_no_input, fails_in_a_tool),
)
