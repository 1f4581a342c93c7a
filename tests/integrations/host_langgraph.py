"""The LangGraph program that the laws of every framework watch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from langchain_core.tools import base
from langgraph._internal import _runnable
from langgraph.pregel import _loop, _retry, main

from blamespan_integrations.langgraph import LangGraphInstrumentor
from tests.integrations.hosts import Host
from tests.integrations.langgraph_programs import asks_for, calculator, chain, says

ASK: Any = {"messages": [("user", "1 + 2?")]}


def graph() -> Any:
    """Make a graph whose first agent uses a tool."""
    return calculator(asks_for("add", a=1, b=2), "It is 3.")


def texts(state: Any) -> list[str]:
    """List what was said."""
    return [message.text for message in state["messages"]]


async def awaited() -> list[object]:
    """Run the graph on the event loop."""
    return [*texts(await graph().ainvoke(ASK))]


async def invoked() -> list[object]:
    """Run the graph without it."""
    return [*texts(graph().invoke(ASK))]


async def streamed() -> list[object]:
    """Run the graph and list what it streams."""
    return [text async for state in graph().astream(ASK, stream_mode="values") for text in texts(state)]


def _raising(error: BaseException) -> Any:
    def bad(_: Any) -> None:
        raise error

    return chain(("good", says("fine")), ("bad", bad))


async def raising(error: BaseException) -> object:
    """Run a graph whose second node raises."""
    return await _raising(error).ainvoke({"words": []})


async def raising_streamed(error: BaseException) -> object:
    """Read the stream of a graph whose second node raises."""
    return list(_raising(error).stream({"words": []}))


HOST = Host(
    "langgraph",
    LangGraphInstrumentor,
    (
        (_runnable, "_set_config_context"),
        *((_loop.PregelLoop, name) for name in ("_first", "after_tick")),
        *((_loop.SyncPregelLoop, name) for name in ("__exit__", "_checkpointer_put_after_previous")),
        *((_loop.AsyncPregelLoop, name) for name in ("__aenter__", "__aexit__", "_checkpointer_put_after_previous")),
        (_loop.SyncPregelLoop, "match_cached_writes"),
        (_loop.AsyncPregelLoop, "amatch_cached_writes"),
        (_retry, "_arun_with_timeout"),
        *((main, f"get_{a}callback_manager_for_config") for a in ("", "async_")),
        (base, "set_config_context"),
    ),
    (awaited, invoked, streamed),
    Counter(
        {
            "invoke_workflow calculator": 1,
            "invoke_agent solver": 2,
            "execute_tool add": 1,
            "invoke_agent checker": 1,
            "chat ScriptedModel": 3,
        }
    ),
    (raising, raising_streamed),
)
