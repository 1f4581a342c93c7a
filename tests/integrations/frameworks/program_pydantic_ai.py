"""The desk with pydantic-ai: the writer asks the researcher by a tool."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from tests.integrations.frameworks import desk

Call = tuple[str, dict[str, str]]


def scripted(reply: Callable[[str], str | Call]) -> FunctionModel:
    """Make a model that answers by what it reads."""

    def answer(messages: Any, info: Any) -> ModelResponse:
        said = reply(json.dumps(ModelMessagesTypeAdapter.dump_python(messages, mode="json")))
        return ModelResponse([TextPart(said) if isinstance(said, str) else ToolCallPart(*said)])

    return FunctionModel(answer, model_name="scripted")


def run(fault: desk.Fault) -> str:
    """Run the desk once; return the answer."""

    def research(read: str) -> str | Call:
        return desk.report(read, fault) if desk.FOUND.search(read) else ("look_up", desk.CALL)

    def write(read: str) -> str | Call:
        return desk.answer(read, fault) if desk.REPORTED.search(read) else ("ask_researcher", {"question": desk.TASK})

    researcher = Agent(scripted(research), name="researcher", instructions=desk.RESEARCHER)
    researcher.tool_plain(desk.look_up)
    writer = Agent(scripted(write), name="writer", instructions=desk.WRITER)

    @writer.tool_plain
    async def ask_researcher(question: str) -> str:
        """Ask the researcher."""
        return (await researcher.run(question)).output

    return writer.run_sync(desk.TASK).output
