"""One assistant with tools and no team.

task: What is 12 * 3, and 36 + 6?
step: assistant tool_call multiply
step: assistant tool_result 36
step: assistant tool_call add
step: assistant tool_result 42
step: assistant message 12 * 3 is 36 and 36 + 6 is 24
"""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_core import FunctionCall
from autogen_core.models import CreateResult, RequestUsage
from autogen_ext.models.replay import ReplayChatCompletionClient

import blamespan

blamespan.instrument(embedded=True)

INFO = {
    "vision": False,
    "function_calling": True,
    "json_output": False,
    "structured_output": False,
    "family": "unknown",
}


def call(name, arguments):
    """A model's answer that calls a tool."""
    return CreateResult(
        finish_reason="function_calls",
        content=[FunctionCall(id=f"call_{name}", name=name, arguments=arguments)],
        usage=RequestUsage(prompt_tokens=10, completion_tokens=5),
        cached=False,
    )


def multiply(a: int, b: int) -> int:
    """Multiply two numbers."""
    return a * b


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


model = ReplayChatCompletionClient(
    [call("multiply", '{"a": 12, "b": 3}'), call("add", '{"a": 36, "b": 6}'), "12 * 3 is 36 and 36 + 6 is 24."],
    model_info=INFO,
)
assistant = AssistantAgent("assistant", model, tools=[multiply, add], max_tool_iterations=3)

asyncio.run(assistant.run(task="What is 12 * 3, and 36 + 6?"))
print(blamespan.record_outcome("failed", reason="36 + 6 is 42"))
