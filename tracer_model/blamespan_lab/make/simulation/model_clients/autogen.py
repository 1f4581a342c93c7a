"""A policy behind AutoGen's `ChatCompletionClient`, and a task's tools as AutoGen's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

try:
    from autogen_core import CancellationToken, FunctionCall
    from autogen_core.models import (
        AssistantMessage,
        ChatCompletionClient,
        CreateResult,
        FunctionExecutionResultMessage,
        LLMMessage,
        ModelFamily,
        ModelInfo,
        RequestUsage,
        SystemMessage,
    )
    from autogen_core.tools import BaseTool, ToolSchema
    from autogen_core.tools import Tool as AutoGenTool
    from pydantic import BaseModel, Field, create_model
except ImportError as error:
    raise ImportError("simulated AutoGen teams need AutoGen: pip install 'blamespan[autogen]'") from error

from blamespan_lab.make.simulation.agents.policy import InputMessage, Reply, RequestedCall, ToolSpec
from blamespan_lab.make.simulation.simulated_run import SimulatedRun
from blamespan_lab.make.simulation.tasks.task import Tool

_INFO = ModelInfo(
    vision=False, function_calling=True, json_output=True, family=ModelFamily.UNKNOWN, structured_output=False
)
_CHARS_PER_TOKEN = 4


class PolicyClient(ChatCompletionClient):
    """Answers as the agent *name* of *run* does."""

    def __init__(self, run: SimulatedRun, name: str) -> None:
        self._run, self._name = run, name
        self._usage = RequestUsage(0, 0)

    async def create(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[AutoGenTool | ToolSchema] = (),
        tool_choice: Any = "auto",  # AutoGen's type: a tool or one of three words
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] = {},  # AutoGen's signature
        cancellation_token: CancellationToken | None = None,
    ) -> CreateResult:
        """Hand the messages and tools to the policy."""
        inputs = [item for message in messages for item in _read_messages(message, self._name)]
        reply = self._run.reply(self._name, inputs, [_read_spec(tool) for tool in tools])
        usage = RequestUsage(
            sum(len(item.text) for item in inputs) // _CHARS_PER_TOKEN, len(reply.text) // _CHARS_PER_TOKEN
        )
        self._usage = RequestUsage(
            self._usage.prompt_tokens + usage.prompt_tokens, self._usage.completion_tokens + usage.completion_tokens
        )
        return _format_reply(reply, usage, f"{self._name}_{len(inputs)}")

    async def create_stream(
        self,
        messages: Sequence[LLMMessage],
        *,
        tools: Sequence[AutoGenTool | ToolSchema] = (),
        tool_choice: Any = "auto",
        json_output: bool | type[BaseModel] | None = None,
        extra_create_args: Mapping[str, Any] = {},
        cancellation_token: CancellationToken | None = None,
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Yield the whole answer as the only chunk."""
        yield await self.create(messages, tools=tools)

    async def close(self) -> None:
        """Nothing is open."""

    def actual_usage(self) -> RequestUsage:
        """Count what was used, a token for four characters."""
        return self._usage

    def total_usage(self) -> RequestUsage:
        """Count what was used, a token for four characters."""
        return self._usage

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[AutoGenTool | ToolSchema] = ()) -> int:
        """Count a token for four characters."""
        return sum(len(str(message.content)) for message in messages) // _CHARS_PER_TOKEN

    def remaining_tokens(
        self, messages: Sequence[LLMMessage], *, tools: Sequence[AutoGenTool | ToolSchema] = ()
    ) -> int:
        """There is always room."""
        return 1_000_000

    @property
    def capabilities(self) -> Any:  # deprecated by AutoGen, but abstract
        """Return what `model_info` returns."""
        return _INFO

    @property
    def model_info(self) -> ModelInfo:
        """Calls functions, writes JSON."""
        return _INFO


def tool_for(tool: Tool) -> BaseTool[Any, Any]:
    """Make AutoGen's tool of a task's."""
    return _TaskTool(tool)


class _TaskTool(BaseTool[Any, Any]):  # AutoGen has its results be models, and takes texts
    def __init__(self, tool: Tool) -> None:
        super().__init__(_arguments(tool.name, tuple(tool.parameters.items())), str, tool.name, tool.description)
        self._function = tool.function

    async def run(self, args: Any, cancellation_token: CancellationToken) -> str:  # args: the model made for the tool
        """Call the task's function."""
        return self._function(**args.model_dump())


@lru_cache(maxsize=64)
def _arguments(name: str, parameters: tuple[tuple[str, str], ...]) -> type[BaseModel]:
    fields: dict[str, Any] = {key: (str, Field(description=text)) for key, text in parameters}
    return create_model(f"{name}_arguments", **fields)


def _read_spec(tool: AutoGenTool | ToolSchema) -> ToolSpec:
    schema = tool if isinstance(tool, dict) else tool.schema
    parameters = schema.get("parameters")
    return ToolSpec(
        schema["name"], schema.get("description", ""), tuple(parameters["properties"]) if parameters else ()
    )


def _read_messages(message: LLMMessage, name: str) -> Iterator[InputMessage]:
    if isinstance(message, SystemMessage):
        yield InputMessage("system", message.content)
    elif isinstance(message, FunctionExecutionResultMessage):
        for result in message.content:
            yield InputMessage("tool_result", result.content, result.name)
    elif isinstance(message, AssistantMessage):
        if isinstance(message.content, str):
            kind = "own" if message.source == name else "message"
            yield InputMessage("own" if kind == "own" else "message", message.content, message.source)
        else:
            calls = tuple(RequestedCall(call.name, call.arguments) for call in message.content)
            yield InputMessage("own", message.thought or "", message.source, calls)
    else:
        text = message.content if isinstance(message.content, str) else " ".join(map(str, message.content))
        is_asked = message.source in ("user", name)  # what MagenticOne asks itself is its framework's question
        yield InputMessage("task" if is_asked else "message", text, "" if is_asked else message.source)


def _format_reply(reply: Reply, usage: RequestUsage, label: str) -> CreateResult:
    if not reply.calls:
        return CreateResult(finish_reason="stop", content=reply.text, usage=usage, cached=False)
    calls = [
        FunctionCall(id=f"call_{label}_{index}", name=call.name, arguments=call.arguments)
        for index, call in enumerate(reply.calls)
    ]
    return CreateResult(
        finish_reason="function_calls", content=calls, usage=usage, cached=False, thought=reply.text or None
    )
