"""The desk with LlamaIndex: the researcher of a workflow hands over to the writer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import ChatMessage, ChatResponse, LLMMetadata
from llama_index.core.llms.callbacks import llm_chat_callback
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool

from tests.integrations.frameworks import desk

Call = tuple[str, dict[str, Any]]


class ScriptedModel(FunctionCallingLLM):
    """Answers by what it reads."""

    reply: Callable[[str], str | Call]

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(model_name="scripted", is_function_calling_model=True)

    def _prepare_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, *_: Any, **__: Any
    ) -> dict[str, Any]:
        return {"messages": [*(chat_history or ()), *([user_msg] if user_msg else ())]}

    def get_tool_calls_from_response(self, response: ChatResponse, *_: Any, **__: Any) -> list[ToolSelection]:
        calls = response.message.additional_kwargs.get("tool_calls", ())
        return [
            ToolSelection(
                tool_id=call["id"],
                tool_name=call["function"]["name"],
                tool_kwargs=json.loads(call["function"]["arguments"]),
            )
            for call in calls
        ]

    @llm_chat_callback()  # type: ignore[untyped-decorator]
    async def achat(self, messages: Sequence[ChatMessage], **_: Any) -> ChatResponse:
        said = self.reply(" ".join(f"{message.role.value}: {message.content}" for message in messages))
        if isinstance(said, str):
            return ChatResponse(message=ChatMessage(role="assistant", content=said))
        call = {
            "id": f"call_{said[0]}",
            "type": "function",
            "function": {"name": said[0], "arguments": json.dumps(said[1])},
        }
        return ChatResponse(message=ChatMessage(role="assistant", content="", additional_kwargs={"tool_calls": [call]}))

    async def astream_chat(self, messages: Sequence[ChatMessage], **kwargs: Any) -> Any:
        async def answered() -> Any:
            yield await self.achat(messages, **kwargs)

        return answered()

    async def astream_chat_with_tools(
        self, tools: Any, user_msg: Any = None, chat_history: Any = None, **_: Any
    ) -> Any:
        return await self.astream_chat(self._prepare_chat_with_tools(tools, user_msg, chat_history)["messages"])

    def chat(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    complete = stream_chat = stream_complete = acomplete = astream_complete = chat


def run(fault: desk.Fault) -> str:
    """Run the desk once; return the answer."""

    def research(read: str) -> str | Call:
        if not desk.FOUND.search(read):
            return "look_up", desk.CALL
        return "handoff", {"to_agent": "writer", "reason": desk.report(read, fault)}

    def agent(name: str, prompt: str, reply: Any, **changes: Any) -> FunctionAgent:
        return FunctionAgent(
            name=name, description=prompt, system_prompt=prompt, llm=ScriptedModel(reply=reply), **changes
        )

    researcher = agent(
        "researcher",
        desk.RESEARCHER,
        research,
        tools=[FunctionTool.from_defaults(desk.look_up)],
        can_handoff_to=["writer"],
    )
    writer = agent("writer", desk.WRITER, lambda read: desk.answer(read, fault), can_handoff_to=[])

    async def answered() -> str:
        return str(await AgentWorkflow([researcher, writer], root_agent="researcher").run(user_msg=desk.TASK))

    return asyncio.run(answered())
