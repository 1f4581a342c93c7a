"""The desk with the OpenAI Agents SDK: the boss asks the researcher by a tool and hands over to the writer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from agents import Agent, ModelResponse, Runner, Usage, function_tool
from agents.models.interface import Model
from agents.tracing import generation_span
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from tests.integrations.frameworks import desk

Call = tuple[str, dict[str, str]]


class ScriptedModel(Model):
    """Answers as a function of what it reads says; traced as the package's own chat model is."""

    def __init__(self, reply: Callable[[str], str | Call]) -> None:
        self._reply = reply

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        instructions = kwargs.get("system_instructions", args[0] if args else None)
        given = kwargs.get("input", args[1] if len(args) > 1 else [])
        messages = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        reply = self._reply(json.dumps(messages))
        output: Any
        if isinstance(reply, str):
            text = ResponseOutputText(text=reply, type="output_text", annotations=[])
            output = ResponseOutputMessage(
                id="msg", type="message", role="assistant", status="completed", content=[text]
            )
        else:
            name, arguments = reply
            output = ResponseFunctionToolCall(
                id="fc", call_id=f"call_{name}", type="function_call", name=name, arguments=json.dumps(arguments)
            )
        usage = Usage(requests=1, input_tokens=20, output_tokens=5, total_tokens=25)
        prompt = [{"role": "system", "content": instructions}, *messages]
        with generation_span(model="scripted", input=prompt, output=[output.model_dump()]) as span:
            span.span_data.usage = {"input_tokens": 20, "output_tokens": 5}
        return ModelResponse(output=[output], usage=usage, response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError


def run(fault: desk.Fault) -> str:
    """Run the desk once; return the answer."""

    def research(read: str) -> str | Call:
        return ("look_up", desk.CALL) if not desk.FOUND.search(read) else desk.report(read, fault)

    writer = Agent(name="writer", instructions=desk.WRITER, model=ScriptedModel(lambda read: desk.answer(read, fault)))
    researcher = Agent(
        name="researcher",
        instructions=desk.RESEARCHER,
        model=ScriptedModel(research),
        tools=[function_tool(desk.look_up)],
    )
    boss = Agent(
        name="boss",
        model=ScriptedModel(
            lambda read: (
                ("ask_researcher", {"input": desk.TASK})
                if not desk.REPORTED.search(read)
                else ("transfer_to_writer", {})
            )
        ),
        tools=[researcher.as_tool("ask_researcher", "Ask the researcher.")],
        handoffs=[writer],
    )
    return str(asyncio.run(Runner.run(boss, desk.TASK)).final_output)
