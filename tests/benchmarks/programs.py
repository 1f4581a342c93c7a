"""The programs that are measured: scripted, offline, the same for every recorder."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from typing import Any

MESSAGE_BYTES = 1_024
NODE = "speaker"
"""The one node of the loop; no other name in the program contains it."""
SPEAKERS = ("ada", "bob")

Run = Callable[[], None]


def langgraph_loop(steps: int, callbacks: Sequence[Any] = ()) -> Run:
    """Build a loop in which one node speaks *steps* times; give what runs it.

    Args:
        steps: How often the node runs; each adds a message of `MESSAGE_BYTES` to the state.
        callbacks: For recorders that want to be passed along with each call.
    """
    from langchain_core.messages import AIMessage
    from langgraph.graph import END, START, MessagesState, StateGraph

    def speak(state: MessagesState) -> dict[str, Any]:
        return {"messages": [AIMessage(_message(len(state["messages"])))]}

    builder = StateGraph(MessagesState)
    builder.add_node(NODE, speak)
    builder.add_edge(START, NODE)
    builder.add_conditional_edges(NODE, lambda state: END if len(state["messages"]) > steps else NODE, [NODE, END])
    graph: Any = builder.compile(name="loop")
    config: Any = {"recursion_limit": steps + 10, "callbacks": list(callbacks)}
    return lambda: _expect(len(graph.invoke({"messages": [("user", "go")]}, config)["messages"]), steps + 1)


def autogen_chat(turns: int, callbacks: Sequence[Any] = ()) -> Run:
    """Build a team of two who speak in turn, *turns* messages in all, each with one model call."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.teams import RoundRobinGroupChat
    from autogen_ext.models.replay import ReplayChatCompletionClient

    del callbacks  # AutoGen has none
    replies = [_message(number) for number in range(turns)]
    members: list[Any] = [AssistantAgent(name, ReplayChatCompletionClient(list(replies))) for name in SPEAKERS]
    team = RoundRobinGroupChat(members, max_turns=turns)
    return lambda: _expect(len(_finished(team.run(task="go")).messages), turns + 1)


def autogen_tool_chat(turns: int) -> Run:
    """Build a team of two who answer each turn with what a tool says: *turns* tool calls."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.teams import RoundRobinGroupChat
    from autogen_core import FunctionCall
    from autogen_core.models import CreateResult, RequestUsage
    from autogen_ext.models.replay import ReplayChatCompletionClient

    async def look(word: str) -> str:
        """Look a word up."""
        return f"{word} is a word"

    def call(number: int) -> CreateResult:
        calls = [FunctionCall(id=f"call-{number}", name="look", arguments='{"word": "loop"}')]
        usage = RequestUsage(prompt_tokens=1, completion_tokens=1)
        return CreateResult(finish_reason="function_calls", content=calls, usage=usage, cached=False)

    model_info: Any = dict.fromkeys(("vision", "json_output", "structured_output"), False)
    model_info |= {"function_calling": True, "family": "unknown"}
    members: list[Any] = [
        AssistantAgent(name, ReplayChatCompletionClient([call(n) for n in range(turns)], model_info), tools=[look])
        for name in SPEAKERS
    ]
    team = RoundRobinGroupChat(members, max_turns=turns)
    return lambda: _expect(len(_finished(team.run(task="go")).messages), 3 * turns + 1)


def _message(number: int) -> str:
    return f"{number} ".ljust(MESSAGE_BYTES, "x")


def _finished(run: Awaitable[Any]) -> Any:
    async def wait() -> Any:
        return await run

    return asyncio.run(wait())


def _expect(messages: int, expected: int) -> None:
    if messages != expected:
        raise RuntimeError(
            f"the measured program must give {expected} messages, got {messages}: its figures mean nothing"
        )


@cache
def _tiny_graph() -> Any:
    from langgraph.graph import END, START, MessagesState, StateGraph

    builder = StateGraph(MessagesState)
    builder.add_node(NODE, lambda state: {"messages": [("ai", "done")]})
    builder.add_edge(START, NODE)
    builder.add_edge(NODE, END)
    return builder.compile(name="tiny")


async def langgraph_tiny() -> object:
    """Run a graph of one node."""
    return await _tiny_graph().ainvoke({"messages": [("user", "go")]})


async def autogen_tiny() -> object:
    """Make a team of one agent and let it speak once."""
    from autogen_agentchat.agents import AssistantAgent
    from autogen_agentchat.teams import RoundRobinGroupChat
    from autogen_ext.models.replay import ReplayChatCompletionClient

    return await RoundRobinGroupChat([AssistantAgent("ada", ReplayChatCompletionClient(["done"]))], max_turns=1).run(
        task="go"
    )
