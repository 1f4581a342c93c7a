"""pydantic-ai, which writes its own spans, judged in the program.

task: Write a line about the sea.
outcome: False
needs: pydantic-ai-slim
step: writer tool_call count_words
step: writer tool_result 4
step: writer message The sea is wide
"""

from opentelemetry import trace
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.instrumented import InstrumentationSettings

import blamespan

blamespan.instrument(embedded=True)
Agent.instrument_all(InstrumentationSettings(tracer_provider=trace.get_tracer_provider()))

answers = iter(
    [
        ToolCallPart("count_words", {"text": "The sea is wide."}, "call_1"),
        TextPart("The sea is wide. (Nine words)"),
    ]
)
writer = Agent(
    FunctionModel(lambda messages, info: ModelResponse([next(answers)]), model_name="scripted"),
    name="writer",
    instructions="You write lines of at most 6 words.",
)


@writer.tool_plain
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


writer.run_sync("Write a line about the sea.")
print(blamespan.record_outcome("failed", reason="four words"))
