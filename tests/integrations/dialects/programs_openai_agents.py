"""An OpenAI Agents program: a desk that hands over to a critic with a tool; the model is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


def handoff(verdict: str = "Four words. Make it longer.", *, counts: bool = True) -> None:
    """A writer that hands over to a critic, who calls a tool before it answers.

    Args:
        verdict: What the critic says.
        counts: Whether the tool works; if not, the critic calls it twice.
    """
    from agents import Agent, ModelResponse, Runner, Usage, function_tool
    from agents.models.interface import Model
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    def count_words(text: str) -> int:
        """Count the words of a text."""
        if not counts:
            raise OSError("the counter is out of order")
        return len(text.split())

    class ScriptedModel(Model):
        def __init__(self, *replies: Any) -> None:
            self._replies = iter(replies)

        async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
            output: Any
            reply = next(self._replies)
            if isinstance(reply, str):
                text = ResponseOutputText(text=reply, type="output_text", annotations=[])
                output = ResponseOutputMessage(
                    id="msg_1", type="message", role="assistant", status="completed", content=[text]
                )
            else:
                id_, name, arguments = reply
                output = ResponseFunctionToolCall(
                    id="fc_1", call_id=id_, type="function_call", name=name, arguments=arguments
                )
            usage = Usage(requests=1, input_tokens=20, output_tokens=5, total_tokens=25)
            traced(args, kwargs, output, usage)
            return ModelResponse(output=[output], usage=usage, response_id=None)

        async def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError
            yield

    def traced(args: Any, kwargs: Any, output: Any, usage: Any) -> None:
        """Trace the call as the package's own models do."""
        from agents.tracing import generation_span

        given = kwargs.get("input", args[1] if len(args) > 1 else None)
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else list(given or [])
        with generation_span(model="scripted", input=messages, output=[output.model_dump()]) as span:
            span.span_data.usage = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}

    asked = [("call_2", "count_words", '{"text": "The sea is wide."}')]
    asked += [] if counts else [("call_3", "count_words", '{"text": "The sea is wide."}')]
    critic = Agent(
        name="critic",
        instructions="You criticise lines of at most 6 words.",
        model=ScriptedModel(*asked, verdict),
        tools=[function_tool(count_words)],
    )
    writer = Agent(name="writer", model=ScriptedModel(("call_1", "transfer_to_critic", "{}")), handoffs=[critic])
    asyncio.run(Runner.run(writer, "Write a line about the sea."))


PROGRAMS: dict[str, Callable[[], None]] = {
    "openai-agents-handoff": handoff,
    "openai-agents-failing": lambda: handoff("Nine words, too long.", counts=False),
}
