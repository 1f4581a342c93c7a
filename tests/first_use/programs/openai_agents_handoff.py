"""OpenAI Agents SDK, instrumented by OpenInference, judged in the program.

task: Write a line about the sea.
outcome: False
needs: openai-agents openinference-instrumentation-openai-agents
step: writer handoff transfer_to_critic
step: critic tool_call count_words
step: critic tool_result 4
step: critic message Nine words
"""

import asyncio

from agents import Agent, ModelResponse, Runner, Usage, function_tool, generation_span
from agents.models.interface import Model
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor

import blamespan

blamespan.instrument(embedded=True)
OpenAIAgentsInstrumentor().instrument()


class ScriptedModel(Model):
    """Answers one after the other."""

    def __init__(self, *answers):
        self._answers = iter(answers)

    async def get_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002  # the package's word
        """Answer with a text, or call a tool; traced as the package's own models are."""
        answer = next(self._answers)
        if isinstance(answer, str):
            text = ResponseOutputText(text=answer, type="output_text", annotations=[])
            item = ResponseOutputMessage(
                id="msg_1", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            name, arguments = answer
            item = ResponseFunctionToolCall(
                id=f"fc_{name}", call_id=f"call_{name}", type="function_call", name=name, arguments=arguments
            )
        messages = [{"role": "user", "content": input}] if isinstance(input, str) else input
        with generation_span(model="scripted", input=messages, output=[item.model_dump()]):
            usage = Usage(requests=1, input_tokens=20, output_tokens=5, total_tokens=25)
            return ModelResponse(output=[item], usage=usage, response_id=None)

    def stream_response(self, *args, **kwargs):
        """Not needed here."""
        raise NotImplementedError


@function_tool
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


critic = Agent(
    name="critic",
    instructions="You criticise lines of at most 6 words.",
    model=ScriptedModel(("count_words", '{"text": "The sea is wide."}'), "Nine words, too long."),
    tools=[count_words],
)
writer = Agent(name="writer", model=ScriptedModel(("transfer_to_critic", "{}")), handoffs=[critic])

asyncio.run(Runner.run(writer, "Write a line about the sea."))
print(blamespan.record_outcome("failed", reason="four words"))
