"""AutoGen's objects as our records. Pure: nothing here patches, records or raises on odd content."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from autogen_agentchat.agents import CodeExecutorAgent, UserProxyAgent
from autogen_agentchat.base import Response
from autogen_agentchat.messages import (
    BaseChatMessage,
    HandoffMessage,
    MultiModalMessage,
    StopMessage,
    ThoughtEvent,
)
from autogen_agentchat.teams._group_chat._magentic_one._magentic_one_orchestrator import MagenticOneOrchestrator
from autogen_agentchat.teams._group_chat._selector_group_chat import SelectorGroupChatManager
from autogen_core import FunctionCall
from autogen_core.code_executor import CodeResult
from autogen_core.models import (
    AssistantMessage,
    ChatCompletionClient,
    CreateResult,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    RequestUsage,
    SystemMessage,
)
from autogen_core.tools import ToolResult

from blamespan.genai_messages import Message, Part
from blamespan.trace import AgentRole, StepKind, Usage

_IMAGE = "[image]"
"""Stands for a picture: its bytes do not belong in a trace."""

_PROVIDERS = {
    "autogen_ext.models.anthropic": "anthropic",
    "autogen_ext.models.azure": "azure.ai.inference",
    "autogen_ext.models.ollama": "ollama",
    "autogen_ext.models.openai": "openai",
}
"""Modules of model clients to values of `gen_ai.provider.name`."""


def agent_role(agent: object) -> AgentRole:
    """Return whether a participant asks, only executes what others wrote, or decides."""
    if isinstance(agent, UserProxyAgent):
        return "user"
    if isinstance(agent, CodeExecutorAgent) and getattr(agent, "_model_client", None) is None:
        return "executor"
    return "agent"


def text_attribute(owner: object, name: str) -> str:
    """Read a text of an object of the program's own; empty where that is no text, or raises."""
    try:
        value = getattr(owner, name, "")
    except Exception:  # a property of the program's own: its bugs are not ours to raise
        return ""
    return value if isinstance(value, str) else ""


def task_messages(task: object) -> list[BaseChatMessage | str]:
    """List what a run was asked: text, a message, or several."""
    if task is None:
        return []
    if isinstance(task, str | BaseChatMessage):
        return [task]
    if isinstance(task, Iterable):
        return [message for message in task if isinstance(message, BaseChatMessage)]
    return []


def chat_message_text(message: BaseChatMessage) -> str:
    """Read a message as other agents' models read it; without what cannot be read."""
    value = _readable(message)
    return value if isinstance(value, str) else ""


def _readable(message: BaseChatMessage) -> object:
    """Return a message's text, or the object in its place: what of it can be recorded is the recorder's to find out."""
    try:
        return message.to_model_text()
    except Exception:  # a message type of the program's own: its bugs are not ours to raise
        return getattr(message, "content", "")


def _part(content: object) -> Part:
    return _text(content) if isinstance(content, str) else {"type": "object", "content": content}


def from_chat_message(message: object, role: str, thoughts: Sequence[str] = (), *, name: str = "") -> Message:
    """Convert a message between agents; *thoughts* stand before it. What is none is shown, under *name*."""
    parts: list[Part] = [{"type": "reasoning", "content": thought} for thought in thoughts]
    if not isinstance(message, BaseChatMessage):
        return Message(role, [*parts, _part(message)], name)
    if isinstance(message, MultiModalMessage):
        parts.extend(_text(item if isinstance(item, str) else _IMAGE) for item in message.content)
    else:
        parts.append(_part(_readable(message)))
    return Message(role, parts, message.source)


def thoughts_of(response: Response) -> list[str]:
    """List what the model thought aloud on the way to *response*."""
    name = getattr(response.chat_message, "source", None)
    inner = response.inner_messages or ()
    return [event.content for event in inner if isinstance(event, ThoughtEvent) and event.source == name]


def kind_of(message: object) -> StepKind:
    """Return what kind of step a message is."""
    if isinstance(message, HandoffMessage):
        return "handoff"
    return "termination" if isinstance(message, StopMessage) else "message"


def selection_reason(manager: object, advice: str | None, name: str) -> str | None:
    """Return why a team's manager chose *name*; None where the team's kind says it all, as in a round robin.

    Args:
        manager: The team's manager.
        advice: What its model answered last, if it asked one.
        name: Who is to speak next.
    """
    if isinstance(manager, MagenticOneOrchestrator):
        return _ledger_reason(advice or "")
    if advice is not None:
        is_named = any(spelled in advice for spelled in (name, name.replace("_", " "), name.replace("_", "\\_")))
        return advice if is_named else f"nobody that could be chosen was named in {advice!r}"
    if not isinstance(manager, SelectorGroupChatManager):
        return None
    function = getattr(manager, "_selector_func", None)
    if function is not None:
        return f"selector_func {getattr(function, '__name__', type(function).__name__)}"
    return "the only candidate"


def _ledger_reason(ledger: str) -> str | None:
    try:
        reason = json.loads(ledger[ledger.index("{") : ledger.rindex("}") + 1])["next_speaker"]["reason"]
    except (ValueError, LookupError, TypeError):
        return None
    return reason if isinstance(reason, str) else None


def counted_usage(messages: Iterable[object]) -> Usage | None:
    """Add up the tokens that AutoGen itself counted for *messages*."""
    value = [getattr(message, "models_usage", None) for message in messages]
    counted = [usage_of(usage) for usage in value if isinstance(usage, RequestUsage)]
    if not counted:
        return None
    return Usage(sum(usage.input_tokens for usage in counted), sum(usage.output_tokens for usage in counted))


def usage_of(usage: RequestUsage) -> Usage:
    """Convert a count of tokens."""
    return Usage(usage.prompt_tokens, usage.completion_tokens)


def from_llm_message(message: LLMMessage, *, text: str | None = None) -> Message:
    """Convert a message to a model; *text* stands in for its own."""
    if isinstance(message, SystemMessage):
        return Message("system", (_text(text if text is not None else message.content),))
    if isinstance(message, FunctionExecutionResultMessage):
        return Message("tool", tuple(_tool_response(result) for result in message.content))
    if isinstance(message, AssistantMessage):
        thought = (message.thought,) if message.thought else ()
        return Message("assistant", _answer_parts(text or message.content, thought), message.source)
    content: Sequence[object] = [message.content] if isinstance(message.content, str) else message.content
    parts = [_text(item if isinstance(item, str) else _IMAGE) for item in ([text] if text is not None else content)]
    return Message("user", parts, message.source)


def from_create_result(result: CreateResult) -> Message:
    """Convert a model's answer."""
    thought = (result.thought,) if result.thought else ()
    return Message("assistant", _answer_parts(result.content, thought), finish_reason=result.finish_reason)


def llm_key(message: LLMMessage) -> Hashable:
    """Name a message to a model by what it says: equal messages have equal keys."""
    return type(message).__name__, llm_content_key(message.content)


def llm_content_key(content: object) -> Hashable:
    """Name a content by what it says."""
    if isinstance(content, str):
        return content
    return tuple(_item_key(item) for item in content) if isinstance(content, Iterable) else id(content)


def model_of(client: ChatCompletionClient) -> str:
    """Name the model behind a client: from its settings, else the family, else the client's class."""
    for settings in ("_create_args", "_raw_config"):
        value = getattr(client, settings, None)
        if isinstance(value, dict) and isinstance(value.get("model"), str):
            return str(value["model"])
    for name in ("model", "model_name", "_model", "_model_name"):
        value = getattr(client, name, None)
        if isinstance(value, str) and value:
            return value
    info: Any = client.model_info
    family = info.get("family") if isinstance(info, dict) else None
    return family if isinstance(family, str) and family not in ("", "unknown") else type(client).__name__


def provider_of(client: ChatCompletionClient) -> str | None:
    """Name who serves the model, for AutoGen's own clients."""
    module = type(client).__module__
    if type(client).__name__.startswith("AzureOpenAI"):
        return "azure.ai.openai"
    return next((name for prefix, name in _PROVIDERS.items() if module.startswith(prefix)), None)


def tool_outcome(item: object) -> tuple[str, bool] | None:
    """Read what a tool answered and whether that is an error; None for anything else."""
    if isinstance(item, tuple) and len(item) == 2:
        item = item[1]
    if isinstance(item, FunctionExecutionResult):
        return item.content, bool(item.is_error)
    if isinstance(item, CodeResult):
        return item.output, item.exit_code != 0
    if isinstance(item, ToolResult):
        return item.to_text(replace_image=_IMAGE), item.is_error
    return None


def answer_of(tool: object, value: object) -> object:
    """Write a tool's return value as the model gets to read it; where that raises it stays as it is."""
    try:
        return str(tool.return_value_as_string(value))  # type: ignore[attr-defined]
    except Exception:  # a tool of the program's own: its bugs are not ours to raise
        return value


def _text(content: str) -> dict[str, str]:
    return {"type": "text", "content": content}


def _answer_parts(content: str | Sequence[FunctionCall], thoughts: Sequence[str]) -> list[Part]:
    parts: list[Part] = [{"type": "reasoning", "content": thought} for thought in thoughts]
    if isinstance(content, str):
        return [*parts, _text(content)]
    return [
        *parts,
        *({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments} for call in content),
    ]


def _tool_response(result: FunctionExecutionResult) -> dict[str, str]:
    return {"type": "tool_call_response", "id": result.call_id, "response": result.content}


def _item_key(item: object) -> Hashable:
    if isinstance(item, str):
        return item
    if isinstance(item, FunctionCall):
        return item.id, item.name, item.arguments
    if isinstance(item, FunctionExecutionResult):
        return item.call_id, item.name, item.content
    return id(item)
