"""A CrewAI program: a writer, then a critic with a tool; the model is scripted."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def crew(verdict: str = "Four words. Make it longer.", *, counts: bool = True) -> None:
    """A crew of two agents, one after the other; the second calls a tool.

    Args:
        verdict: What the second says.
        counts: Whether the tool works.
    """
    os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OPENAI_API_KEY": "none"}
    from crewai import Agent, BaseLLM, Crew, Process, Task
    from crewai.tools import tool

    @tool("count_words")
    def count_words(text: str) -> int:
        """Count the words of a text."""
        if not counts:
            raise OSError("the counter is out of order")
        return len(text.split())

    class ScriptedModel(BaseLLM):  # type: ignore[misc]
        replies: list[str]

        def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
            return self.replies.pop(0)

        def supports_function_calling(self) -> bool:
            return False

    def model(*replies: str) -> Any:
        return ScriptedModel(model="scripted", replies=list(replies))

    def agent(role: str, llm: Any, tools: Any = ()) -> Any:
        return Agent(role=role, goal="a good line", backstory="", llm=llm, tools=list(tools), allow_delegation=False)

    writer = agent("writer", model("Thought: I can answer.\nFinal Answer: The sea is wide."))
    critic = agent(
        "critic",
        model(
            'Thought: count.\nAction: count_words\nAction Input: {"text": "The sea is wide."}',
            f"Thought: done.\nFinal Answer: {verdict}",
        ),
        [count_words],
    )
    tasks = [
        Task(description="Write a line about the sea.", expected_output="a line", agent=writer),
        Task(description="Criticise the line.", expected_output="a verdict", agent=critic),
    ]
    Crew(agents=[writer, critic], tasks=tasks, process=Process.sequential).kickoff()


PROGRAMS: dict[str, Callable[[], None]] = {
    "crewai-crew": crew,
    "crewai-failing": lambda: crew("Nine words, too long.", counts=False),
}
