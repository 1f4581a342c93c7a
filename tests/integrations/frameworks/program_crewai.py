"""The desk with CrewAI: the researcher's task, then the writer's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OPENAI_API_KEY": "none"}

from crewai import Agent, BaseLLM, Crew, Process, Task
from crewai.tools import tool

from tests.integrations.frameworks import desk


class ScriptedModel(BaseLLM):  # type: ignore[misc]
    """Answers by what it reads."""

    reply: Callable[[str, dict[str, Any]], Any]

    def call(
        self, messages: Any, tools: Any = None, callbacks: Any = None, available_functions: Any = None, **_: Any
    ) -> Any:
        return self.reply(json.dumps(messages, default=str), available_functions or {})

    def supports_function_calling(self) -> bool:
        return True


def run(fault: desk.Fault) -> str:
    """Run the desk once; return the answer."""

    def research(read: str, functions: dict[str, Any]) -> Any:
        if desk.FOUND.search(read):
            return desk.report(read, fault)
        return [
            {"id": "call_1", "type": "function", "function": {"name": "look_up", "arguments": json.dumps(desk.CALL)}}
        ]

    def write(read: str, functions: dict[str, Any]) -> Any:
        return desk.answer(read, fault)

    researcher = Agent(
        role="researcher",
        goal=desk.RESEARCHER,
        backstory="",
        llm=ScriptedModel(model="scripted", reply=research),
        tools=[tool("look_up")(desk.look_up)],
        allow_delegation=False,
    )
    writer = Agent(role="writer", goal=desk.WRITER, backstory="", llm=ScriptedModel(model="scripted", reply=write))
    tasks = [
        Task(description=desk.TASK, expected_output="the price, the stock and the delivery time", agent=researcher),
        Task(description="Answer the customer.", expected_output="two sentences", agent=writer),
    ]
    return str(Crew(agents=[researcher, writer], tasks=tasks, process=Process.sequential).kickoff())
