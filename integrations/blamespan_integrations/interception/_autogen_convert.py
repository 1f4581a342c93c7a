"""AutoGen's messages as records of `blamespan.intercepting.boundaries`, and back. Pure: nothing here patches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from autogen_agentchat.base import Handoff
from autogen_core import FunctionCall
from autogen_core.models import (
    AssistantMessage,
    CreateResult,
    FunctionExecutionResultMessage,
    LLMMessage,
    RequestUsage,
    SystemMessage,
    UserMessage,
)

from blamespan.intercepting.boundaries import Line, Role, Said, ToolCall
from blamespan.trace import Usage

_ROLES: Final[Mapping[type, Role]] = {SystemMessage: "system", AssistantMessage: "assistant"}


def as_lines(messages: Sequence[LLMMessage], authors: Mapping[str, str]) -> tuple[Line, ...]:
    """Read what a model is sent; here every message has its author's name."""
    del authors
    return tuple(_line(message, index) for index, message in enumerate(messages))


def new_message(line: Line) -> LLMMessage:
    """Write a message that the program has none for."""
    return UserMessage(content=line.text, source=line.sender or "user")


def with_text(message: LLMMessage, text: str) -> LLMMessage:
    """Write a message that says something else; pictures stay."""
    if isinstance(message.content, str):
        return message.model_copy(update={"content": text})
    if isinstance(message, UserMessage):
        pictures = [part for part in message.content if not isinstance(part, str)]
        return message.model_copy(update={"content": [text, *pictures]})
    return message


def read_answer(result: Any) -> Said | None:  # whatever a client gives
    """Read what a model answers."""
    if not isinstance(result, CreateResult):
        return None
    usage = Usage(result.usage.prompt_tokens, result.usage.completion_tokens)
    if isinstance(result.content, str):
        return Said(result.content, usage=usage)
    return Said(result.thought or "", tuple(_call(call) for call in result.content), usage=usage)


def find_handoff(tool: Any) -> str:  # of AutoGen's, or anybody's
    """Return whom a tool hands the work to, where it is one that `Handoff` makes and so does nothing else."""
    function = getattr(tool, "_func", None)
    if getattr(function, "__qualname__", "") != "Handoff.handoff_tool.<locals>._handoff_tool":
        return ""
    if getattr(function, "__module__", "") != Handoff.__module__:
        return ""
    cells = getattr(function, "__closure__", None) or ()
    handoff = next((cell.cell_contents for cell in cells if isinstance(cell.cell_contents, Handoff)), None)
    return handoff.target if handoff is not None else ""


def as_result(result: CreateResult, answer: Said) -> CreateResult:
    """Write what a model answers instead."""
    if not answer.calls:
        thought = result.thought if isinstance(result.content, str) else None
        return result.model_copy(update={"content": answer.text, "finish_reason": "stop", "thought": thought})
    calls = [FunctionCall(id=call.id, name=call.name, arguments=call.arguments) for call in answer.calls]
    return result.model_copy(update={"content": calls, "thought": answer.text or result.thought})


def answer_unasked(answer: Said) -> CreateResult:
    """Write what a model answers that is not asked."""
    reason: Literal["function_calls", "stop"] = "function_calls" if answer.calls else "stop"
    none = CreateResult(finish_reason=reason, content="", usage=RequestUsage(0, 0), cached=True)
    return as_result(none, answer)


def is_last_item(item: object) -> bool:
    """Check whether an item of a stream is the whole answer."""
    return isinstance(item, CreateResult)


def read_items(items: Sequence[Any]) -> Said | None:
    """Read what a model streams: the whole answer comes last."""
    return read_answer(items[-1]) if items else None


def as_items(items: Sequence[Any], answer: Said) -> list[Any]:
    """Write what a model streams instead."""
    result = as_result(items[-1], answer)
    return [*([result.content] if isinstance(result.content, str) else []), result]


def items_unasked(answer: Said) -> list[Any]:
    """Write what a model streams that is not asked."""
    return [answer_unasked(answer)]


def _line(message: LLMMessage, index: int) -> Line:
    content, role = message.content, _ROLES.get(type(message), "user")
    sender = getattr(message, "source", "")
    if isinstance(content, str):  # most are, and long
        return Line(role, content, sender, (), index)
    if isinstance(message, FunctionExecutionResultMessage):
        sender = message.content[0].name if len(message.content) == 1 else ""
        return Line("tool", "\n".join(result.content for result in message.content), sender, place=index)
    text = "\n".join(part for part in content if isinstance(part, str))
    calls = tuple(_call(part) for part in content if isinstance(part, FunctionCall)) if role == "assistant" else ()
    return Line(role, text, sender, calls, index)


def _call(call: FunctionCall) -> ToolCall:
    return ToolCall(call.name, call.arguments, call.id)
