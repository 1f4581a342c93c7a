"""The Agent Framework program that the laws of every framework watch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from agent_framework import (
    Agent,
    AgentResponse,
    BaseChatClient,
    Executor,
    FunctionTool,
    InProcRunnerContext,
    RawAgent,
    Workflow,
    WorkflowContext,
    observability,
)
from agent_framework_orchestrations import SequentialBuilder
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor

from blamespan_integrations.agent_framework import AgentFrameworkInstrumentor
from tests.integrations.agent_framework_runs import agent, call, look_up
from tests.integrations.hosts import Host


def team() -> Workflow:
    """Make a team that uses a tool."""
    writer = agent("writer", call("look_up", city="Rome"), "fine", tools=[look_up])
    return SequentialBuilder(participants=[writer, agent("critic", "too short")]).build()


def plain(value: object) -> object:
    """Read what a program sees of a result, without ids that differ from run to run."""
    if isinstance(value, AgentResponse):
        return [(message.role, message.author_name, message.text) for message in value.messages]
    return value if isinstance(value, str) else type(value).__name__


async def awaited() -> list[object]:
    """Run the team and list what its result holds."""
    return [(event.type, event.executor_id, plain(event.data)) for event in await team().run("go")]


async def streamed() -> list[object]:
    """Run the team and list what it streams."""
    return [(event.type, event.executor_id) async for event in team().run("go", stream=True)]


def _raising(error: BaseException) -> Any:
    def rule(_: object) -> str:
        raise error

    return agent("a", rule=rule)


async def raising(error: BaseException) -> object:
    """Run an agent that raises."""
    return await _raising(error).run("go")


async def raising_streamed(error: BaseException) -> object:
    """Read the stream of an agent that raises."""
    return [update async for update in _raising(error).run("go", stream=True)]


HOST = Host(
    "agent_framework",
    AgentFrameworkInstrumentor,
    (
        (Workflow, "run"),
        (Agent, "run"),
        (RawAgent, "run"),
        (Executor, "execute"),
        (FunctionTool, "invoke"),
        (BaseChatClient, "get_response"),
        (WorkflowContext, "send_message"),
        (WorkflowContext, "yield_output"),
        (WorkflowContext, "request_info"),
        (InProcRunnerContext, "create_checkpoint"),
        (InProcRunnerContext, "apply_checkpoint"),
        (BaseInstrumentor, "uninstrument"),
        (observability, "get_tracer"),
        (observability, "trace"),
    ),
    (awaited, streamed),
    Counter(
        {
            "invoke_workflow Sequential": 1,
            "invoke_agent writer": 1,
            "invoke_agent critic": 1,
            "execute_tool look_up": 1,
            "chat rule": 3,
        }
    ),
    (raising, raising_streamed),
    "blamespan_integrations.agent_framework._wrap.WorkflowContext",
    ("agent_framework", 10),
)
