"""A policy behind LangChain's `BaseChatModel`, and a task's tools as LangChain's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

try:
    from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, SystemMessage, ToolMessage
    from langchain_core.messages import ToolCall as LangChainCall
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool, StructuredTool
    from pydantic import BaseModel, Field, create_model
except ImportError as error:
    raise ImportError("simulated LangGraph teams need LangGraph: pip install 'blamespan[langgraph]'") from error

from blamespan_lab.make.simulation.agents.policy import InputMessage, Reply, RequestedCall, ToolSpec
from blamespan_lab.make.simulation.simulated_run import CURRENT_RUN
from blamespan_lab.make.simulation.tasks.task import Tool


class PolicyModel(BaseChatModel):
    """Answers as the agent *agent* of the run that is on in this context does.

    Attributes:
        agent: Its name.
    """

    agent: str

    @property
    def _llm_type(self) -> str:
        return "simulated"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:  # LangChain's signature
        """Offer *tools* in each call."""
        return self.bind(tools=[_describe_tool(tool) for tool in tools], **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = CURRENT_RUN.get().reply(self.agent, list_inputs(self.agent, messages), _read_specs(kwargs))
        return self._result(reply, messages)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        reply = CURRENT_RUN.get().reply(self.agent, list_inputs(self.agent, messages), _read_specs(kwargs))
        return self._result(reply, messages)

    def _result(self, reply: Reply, messages: Sequence[BaseMessage]) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=_format_reply(reply, self.agent, len(messages)))])


def tool_for(tool: Tool) -> BaseTool:
    """Make LangChain's tool of a task's."""

    async def run(**arguments: str) -> str:
        return tool.function(**arguments)

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        args_schema=_arguments(tool.name, tuple(tool.parameters.items())),
        coroutine=run,
    )


def list_inputs(agent: str, messages: Sequence[BaseMessage]) -> list[InputMessage]:
    """Return what *agent* gets of *messages*: its own, the task, what the others say, its own tools' answers."""
    return list(_read_messages(agent, messages))


def _read_messages(agent: str, messages: Sequence[BaseMessage]) -> Iterator[InputMessage]:
    names: dict[str, str] = {}
    for message in messages:
        text = message.text if isinstance(message.text, str) else str(message.content)
        if isinstance(message, SystemMessage):
            yield InputMessage("system", text)
        elif isinstance(message, ToolMessage):
            yield InputMessage("tool_result", text, names.get(message.tool_call_id, message.name or ""))
        elif isinstance(message, AIMessage) and message.name in (agent, None):
            calls = tuple(RequestedCall.of(call["name"], call["args"]) for call in message.tool_calls)
            wrong = tuple(RequestedCall(call["name"] or "", call["args"] or "") for call in message.invalid_tool_calls)
            names |= {str(call["id"]): call["name"] for call in message.tool_calls}
            yield InputMessage("own", text, agent, calls + wrong)
        else:
            yield InputMessage("message" if message.name else "task", text, message.name or "")


def _read_specs(options: Mapping[str, Any]) -> list[ToolSpec]:
    return [
        ToolSpec(tool["name"], tool["description"], tuple(tool["parameters"]["properties"]))
        for tool in options.get("tools", ())
    ]


def _format_reply(reply: Reply, agent: str, number: int) -> AIMessage:
    good: list[LangChainCall] = []
    bad: list[InvalidToolCall] = []
    for index, call in enumerate(reply.calls):
        label = f"call_{agent}_{number}_{index}"
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            arguments = None
        if isinstance(arguments, dict):
            good.append(LangChainCall(name=call.name, args=arguments, id=label, type="tool_call"))
        else:
            bad.append(
                InvalidToolCall(
                    name=call.name, args=call.arguments, id=label, error="no JSON object", type="invalid_tool_call"
                )
            )
    return AIMessage(reply.text, name=agent, tool_calls=good, invalid_tool_calls=bad)


def _describe_tool(tool: Any) -> Mapping[str, Any]:
    """Describe a tool as a model's endpoint is told of it."""
    return {
        "name": tool.name,
        "description": tool.description,
        "parameters": {
            "type": "object",
            "properties": {key: {"type": "string"} for key in tool.args_schema.model_fields},
        },
    }


@lru_cache(maxsize=64)
def _arguments(name: str, parameters: tuple[tuple[str, str], ...]) -> type[BaseModel]:
    fields: dict[str, Any] = {key: (str, Field(description=text)) for key, text in parameters}
    return create_model(f"{name}_arguments", **fields)
