"""The desk with smolagents: the writer asks the researcher, an agent that it manages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolagents import ChatMessage, MessageRole, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction
from smolagents.monitoring import LogLevel, TokenUsage

from tests.integrations.frameworks import desk

Call = tuple[str, dict[str, Any]]


class ScriptedModel(Model):
    """Answers by what it reads."""

    def __init__(self, reply: Callable[[str], Call]) -> None:
        super().__init__(model_id="scripted")
        self._reply = reply

    def generate(self, messages: Any, *_: Any, **__: Any) -> ChatMessage:
        name, arguments = self._reply(" ".join(str(message.content) for message in messages[1:]))
        call = ChatMessageToolCallFunction(name=name, arguments=arguments)
        return ChatMessage(
            role=MessageRole.ASSISTANT,
            content="",
            tool_calls=[ChatMessageToolCall(id=f"call_{name}", type="function", function=call)],
            token_usage=TokenUsage(input_tokens=20, output_tokens=5),
        )


def run(fault: desk.Fault) -> str:
    """Run the desk once; return the answer."""

    def research(read: str) -> Call:
        if desk.FOUND.search(read):
            return "final_answer", {"answer": desk.report(read, fault)}
        return "look_up", desk.CALL

    def write(read: str) -> Call:
        if desk.REPORTED.search(read):
            return "final_answer", {"answer": desk.answer(read, fault)}
        return "researcher", {"task": desk.TASK}

    researcher = ToolCallingAgent(
        tools=[tool(desk.look_up)],
        model=ScriptedModel(research),
        name="researcher",
        description=desk.RESEARCHER,
        verbosity_level=LogLevel.OFF,
    )
    writer = ToolCallingAgent(
        tools=[],
        model=ScriptedModel(write),
        managed_agents=[researcher],
        name="writer",
        description=desk.WRITER,
        verbosity_level=LogLevel.OFF,
    )
    return str(writer.run(desk.TASK))
