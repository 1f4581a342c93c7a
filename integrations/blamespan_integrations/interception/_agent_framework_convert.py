"""Agent Framework's messages as records of `blamespan.intercepting.boundaries`, and back. Pure."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

from agent_framework import ChatResponse, ChatResponseUpdate, Content, Message

from blamespan.intercepting.boundaries import Line, Role, Said, ToolCall
from blamespan_integrations.agent_framework._convert import result_of, usage_of
from blamespan_integrations.interception._offering import as_json

_ROLES: Final[Mapping[str, Role]] = {"system": "system", "assistant": "assistant", "tool": "tool"}
_SPOKEN = ("text", "function_call")


def as_lines(messages: Sequence[Message], authors: Mapping[str, str]) -> tuple[Line, ...]:
    """Read what a model is sent; a message without a name is by whoever said it, as *authors* has it by text."""
    return tuple(_line(message, index, authors) for index, message in enumerate(messages))


def new_message(line: Line) -> Message:
    """Write a message that the program has none for."""
    return Message("user", [line.text])


def with_text(message: Message, text: str) -> Message:
    """Write a message that says something else, or a tool's that answers something else."""
    changed = copy.copy(message)
    results = [content for content in message.contents if content.type == "function_result"]
    if results:
        first = Content.from_function_result(call_id=results[0].call_id or "", result=text)
        changed.contents = [first, *(content for content in message.contents if content.type != "function_result")]
    else:
        changed.contents = [Content.from_text(text), *(item for item in message.contents if item.type != "text")]
    return changed


def read_answer(result: Any) -> Said | None:  # whatever a client gives
    """Read what a model answers."""
    if not isinstance(result, ChatResponse) or not result.messages:
        return None
    contents = [content for message in result.messages for content in message.contents]
    text = "".join(content.text or "" for content in contents if content.type == "text")
    usage = usage_of(result.usage_details)
    return Said(text, _calls(contents), usage=usage, model=result.model or "")


def as_result(result: ChatResponse[Any], answer: Said) -> ChatResponse[Any]:
    """Write what a model answers instead: in its last message, what it thought aloud stays."""
    changed = copy.copy(result)
    last = copy.copy(result.messages[-1])
    others = [content for content in last.contents if content.type not in _SPOKEN]
    last.contents = [*others, *_contents(answer)]
    changed.messages = [last]
    return changed


def answer_unasked(answer: Said) -> ChatResponse[Any]:
    """Write what a model answers that is not asked."""
    return ChatResponse(messages=[Message("assistant", _contents(answer), author_name=answer.name or None)])


def is_last_item(_: object) -> bool:
    """Check whether an item of a stream is the whole answer: here each is a part."""
    return False


def read_items(items: Sequence[ChatResponseUpdate]) -> Said | None:
    """Read what a model streams."""
    return read_answer(ChatResponse.from_updates(items)) if items else None


def as_items(items: Sequence[ChatResponseUpdate], answer: Said) -> list[ChatResponseUpdate]:
    """Write what a model streams instead, in one piece; what is no text and no call stays."""
    others = [content for item in items for content in item.contents if content.type not in _SPOKEN]
    last = copy.copy(items[-1])
    last.contents = [*_contents(answer), *others]
    last.role = last.role or "assistant"
    return [last]


def items_unasked(answer: Said) -> list[ChatResponseUpdate]:
    """Write what a model streams that is not asked."""
    return [ChatResponseUpdate(role="assistant", contents=_contents(answer), author_name=answer.name or None)]


def _line(message: Message, index: int, authors: Mapping[str, str]) -> Line:
    role, text = _ROLES.get(str(message.role), "user"), message.text
    if role == "tool":
        text = "\n".join(str(result_of(item)) for item in message.contents if item.type == "function_result")
    sender = message.author_name or (authors.get(text, "") if role == "assistant" else "")
    return Line(role, text, sender, _calls(message.contents) if role == "assistant" else (), index)


def _calls(contents: Sequence[Content]) -> tuple[ToolCall, ...]:
    calls = [content for content in contents if content.type == "function_call"]
    return tuple(ToolCall(call.name or "", _arguments(call), call.call_id or "") for call in calls)


def _arguments(call: Content) -> str:
    return call.arguments if isinstance(call.arguments, str) else as_json(call.arguments or {})


def _contents(answer: Said) -> list[Content]:
    said = [Content.from_text(answer.text)] if answer.text else []
    calls = [
        Content.from_function_call(call_id=call.id, name=call.name, arguments=call.arguments) for call in answer.calls
    ]
    return [*said, *calls]
