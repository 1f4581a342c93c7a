"""CrewAI, instrumented by OpenInference, judged in the program.

task: Write a line about the sea.
outcome: False
needs: crewai openinference-instrumentation-crewai
step: writer message The sea is wide
step: critic message Nine words
"""

import os

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "CREWAI_TRACING_ENABLED": "false", "OPENAI_API_KEY": "none"}

from crewai import Agent, BaseLLM, Crew, Task
from openinference.instrumentation.crewai import CrewAIInstrumentor

import blamespan

blamespan.instrument(embedded=True)
CrewAIInstrumentor().instrument()


class ScriptedModel(BaseLLM):
    """Answers one after the other."""

    replies: list[str]

    def call(self, messages, *args, **kwargs):
        """Answer."""
        return self.replies.pop(0)

    def supports_function_calling(self):
        """Tools are asked for by text."""
        return False


def agent(role, *replies):
    """An agent with these answers."""
    model = ScriptedModel(model="scripted", replies=[f"Thought: done.\nFinal Answer: {reply}" for reply in replies])
    return Agent(role=role, goal="a good line", backstory="", llm=model, allow_delegation=False)


writer, critic = agent("writer", "The sea is wide."), agent("critic", "Nine words, too long.")
tasks = [
    Task(description="Write a line about the sea.", expected_output="a line", agent=writer),
    Task(description="Criticise the line.", expected_output="a verdict", agent=critic),
]
Crew(agents=[writer, critic], tasks=tasks).kickoff()
print(blamespan.record_outcome("failed", reason="four words"))
