"""The AutoGen program that the laws of every framework watch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from autogen_agentchat.agents import AssistantAgent, BaseChatAgent
from autogen_agentchat.base import Response
from autogen_agentchat.teams import BaseGroupChat, RoundRobinGroupChat
from autogen_core import BaseAgent, CancellationToken, SingleThreadedAgentRuntime
from autogen_core._telemetry import _genai, _tracing
from autogen_core.tools import BaseTool, StaticWorkbench
from autogen_ext.models.replay import ReplayChatCompletionClient
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from blamespan_integrations.autogen import AutoGenInstrumentor
from tests.integrations.autogen_runs import Echo, assistant, calls
from tests.integrations.hosts import Host


def add(one: int, other: int) -> int:
    """Add two numbers."""
    return one + other


def team() -> RoundRobinGroupChat:
    """Make a team that uses a tool."""
    writer = assistant("writer", calls(("add", {"one": 1, "other": 2})), "fine", tools=[add])
    return RoundRobinGroupChat([writer, Echo()], max_turns=3)


async def awaited() -> list[object]:
    """Run the team and list what its result holds."""
    result = await team().run(task="go")
    return [(type(message).__name__, message.to_text()) for message in result.messages]


async def streamed() -> list[object]:
    """Run the team and list what it streams."""
    return [type(item).__name__ async for item in team().run_stream(task="go")]


class Fails(Echo):
    """Raises what it was made with."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    async def on_messages(self, messages: Any, cancellation_token: CancellationToken) -> Response:
        raise self.error


async def raising(error: BaseException) -> object:
    """Run an agent that raises."""
    return await Fails(error).run(task="go")


async def raising_streamed(error: BaseException) -> object:
    """Read the stream of an agent that raises."""
    return [item async for item in Fails(error).run_stream(task="go")]


HOST = Host(
    "autogen",
    AutoGenInstrumentor,
    (
        (BaseGroupChat, "run"),
        (BaseGroupChat, "run_stream"),
        (BaseChatAgent, "on_messages_stream"),
        (AssistantAgent, "on_messages"),
        (AssistantAgent, "on_messages_stream"),
        (AssistantAgent, "_execute_tool_call"),
        (BaseTool, "run_json"),
        (StaticWorkbench, "call_tool"),
        (ReplayChatCompletionClient, "create"),
        (ReplayChatCompletionClient, "create_stream"),
        (SingleThreadedAgentRuntime, "send_message"),
        (SingleThreadedAgentRuntime, "publish_message"),
        (BaseAgent, "on_message"),
        (BaseAgent, "publish_message"),
        (BaseInstrumentor, "uninstrument"),
        (_tracing.TraceHelper, "trace_block"),
        (_genai, "trace"),
    ),
    (awaited, streamed),
    Counter(
        {
            "invoke_workflow RoundRobinGroupChat": 1,
            "invoke_agent writer": 2,
            "invoke_agent echo": 1,
            "execute_tool add": 1,
            "chat ReplayChatCompletionClient": 2,
        }
    ),
    (raising, raising_streamed),
    "blamespan_integrations.autogen._wrap.model_start",
    ("autogen SingleThreadedAgentRuntime", 30),
)
