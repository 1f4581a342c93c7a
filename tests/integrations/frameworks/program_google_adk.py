"""The desk with Google's ADK: the boss asks the researcher by a tool and hands over to the writer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools.agent_tool import AgentTool
from google.genai import types

from tests.integrations.frameworks import desk

Call = tuple[str, dict[str, str]]


class ScriptedModel(BaseLlm):
    """Answers by what it reads."""

    reply: Callable[[str], str | Call]

    async def generate_content_async(
        self, request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, Any]:
        said = self.reply(" ".join(content.model_dump_json(exclude_none=True) for content in request.contents))
        part = (
            types.Part(text=said)
            if isinstance(said, str)
            else types.Part.from_function_call(name=said[0], args=said[1])
        )
        yield LlmResponse(
            content=types.Content(role="model", parts=[part]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=20, candidates_token_count=5),
        )


def run(fault: desk.Fault) -> str:
    """Run the desk once; return the answer."""

    def research(read: str) -> str | Call:
        return desk.report(read, fault) if desk.FOUND.search(read) else ("look_up", desk.CALL)

    def lead(read: str) -> str | Call:
        if desk.REPORTED.search(read):
            return "transfer_to_agent", {"agent_name": "writer"}
        return "researcher", {"request": desk.TASK}

    def model(reply: Any) -> ScriptedModel:
        return ScriptedModel(model="scripted", reply=reply)

    researcher = LlmAgent(name="researcher", instruction=desk.RESEARCHER, model=model(research), tools=[desk.look_up])
    writer = LlmAgent(name="writer", instruction=desk.WRITER, model=model(lambda read: desk.answer(read, fault)))
    boss = LlmAgent(name="boss", model=model(lead), tools=[AgentTool(researcher)], sub_agents=[writer])

    async def answered() -> str:
        runner = InMemoryRunner(agent=boss, app_name="desk")
        session = await runner.session_service.create_session(app_name="desk", user_id="user")
        message = types.Content(role="user", parts=[types.Part(text=desk.TASK)])
        texts = [
            part.text
            async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message)
            for part in (event.content.parts if event.content else None) or ()
            if part.text
        ]
        return str(texts[-1])

    return asyncio.run(answered())
