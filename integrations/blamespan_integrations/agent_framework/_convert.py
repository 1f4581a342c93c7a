"""Agent Framework's objects as our records. Pure: nothing here patches or records."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from agent_framework import (
    AgentExecutorRequest,
    AgentExecutorResponse,
    AgentResponse,
    AgentResponseUpdate,
    Content,
)
from agent_framework import Message as FrameworkMessage

from blamespan.genai_messages import Message, Part
from blamespan.trace import Usage

_RANDOM = re.compile(r"[-_ ][0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}$")
"""What a builder adds to the name of a workflow that the program gave none."""

_UNREAD = frozenset({"usage", "function_result"})
"""Contents that are no part of what is said: tokens, and answers of tools, which have spans of their own."""


def plain_name(owner: object) -> str:
    """Return the name of a workflow or agent; its class where it has none."""
    name = getattr(owner, "name", None)
    return _RANDOM.sub("", name) if isinstance(name, str) and name else type(owner).__name__


def as_messages(payload: object) -> list[FrameworkMessage]:
    """List the messages in what was asked or passed on; nothing where it holds none."""
    if isinstance(payload, FrameworkMessage):
        return [payload]
    if isinstance(payload, AgentExecutorResponse):
        return as_messages(payload.agent_response)
    if isinstance(payload, AgentExecutorRequest | AgentResponse):
        return list(payload.messages)
    if isinstance(payload, AgentResponseUpdate):
        return [FrameworkMessage(role=payload.role or "assistant", contents=list(payload.contents))]
    if isinstance(payload, list | tuple):
        return [message for item in payload for message in as_messages(item)]
    return []


def from_payload(payload: object, role: str, name: str) -> list[Message]:
    """Convert anything that executors send each other, or a workflow is given or yields."""
    if isinstance(payload, str):
        return [Message(role, [{"type": "text", "content": payload}], name)]
    messages = as_messages(payload)
    if messages:
        return [message for item in messages if (message := from_message(item, name=item.author_name or name)).parts]
    return [] if payload is None else [Message(role, [{"type": "object", "content": _plain(payload)}], name)]


def payload_text(payload: object) -> str:
    """Read what `from_payload` converts as one text: two payloads of equal text say the same."""
    if isinstance(payload, str):
        return payload
    messages = as_messages(payload)
    return "\n".join(message.text for message in messages) if messages else f"object {id(payload)}"


def from_message(message: FrameworkMessage, role: str | None = None, *, name: str = "") -> Message:
    """Convert a message; calls and answers of tools become parts only where a model or a person reads them."""
    parts = [part for content in message.contents if (part := _part(content)) is not None]
    return Message(role or str(message.role), parts, message.author_name or name or None)


def from_answer(messages: Iterable[FrameworkMessage], open_calls: Sequence[Content], name: str) -> list[Message]:
    """Convert what an agent says to others: its texts, and of its calls those that nobody answered within its turn."""
    asked = {id(call) for call in open_calls}  # of approvals the request holds the call
    parts = [
        part
        for message in messages
        if message.role == "assistant"
        for content in message.contents
        if content.type not in _UNREAD and (content.type != "function_call" or id(content) in asked)
        if (part := _part(content)) is not None
    ]
    return [Message("assistant", parts, name)] if parts else []


def split_calls(messages: Iterable[FrameworkMessage]) -> tuple[list[Content], dict[str, Content]]:
    """Return the calls of tools in an agent's answer, and the answers to them by call id."""
    contents = [content for message in messages for content in message.contents]
    calls = [content for content in contents if content.type == "function_call"]
    return calls, {str(content.call_id): content for content in contents if content.type == "function_result"}


def result_of(answer: object) -> object:
    """Read what a tool returned: text where Agent Framework has made contents of it."""
    if isinstance(answer, Content):
        answer = answer.items or answer.result
    if isinstance(answer, list) and answer and all(isinstance(item, Content) for item in answer):
        texts = [item.text if item.type == "text" else f"[{item.media_type or item.type}]" for item in answer]
        return "\n".join(text or "" for text in texts)
    return answer


def usage_of(details: Mapping[str, Any] | None) -> Usage | None:
    """Convert counts of tokens; None where there are none."""
    if not details:
        return None
    given, made = details.get("input_token_count"), details.get("output_token_count")
    return Usage(given or 0, made or 0) if given is not None or made is not None else None


def _part(content: Content) -> Part | None:
    """Convert a content; None for what is no content to a reader. Bytes do not belong in a trace."""
    kind = content.type
    if kind == "text":
        return {"type": "text", "content": content.text or ""}
    if kind == "text_reasoning":
        return {"type": "reasoning", "content": content.text or ""}
    if kind == "function_call":
        return {"type": "tool_call", "id": content.call_id, "name": content.name, "arguments": content.arguments or {}}
    if kind == "function_approval_request" and content.function_call is not None:
        return _part(content.function_call)
    if kind == "function_approval_response":
        return {"type": "text", "content": "approved" if content.approved else "not approved"}
    if kind == "function_result":
        return {"type": "tool_call_response", "id": content.call_id, "response": result_of(content)}
    if kind == "error":
        return {"type": "text", "content": content.message or ""}
    return None if kind == "usage" else {"type": "text", "content": f"[{content.media_type or kind}]"}


def _plain(payload: object) -> object:
    """Return the fields of a dataclass, messages among them as their text: what a person would read of it."""
    if not is_dataclass(payload) or isinstance(payload, type):
        return payload
    values = {field.name: getattr(payload, field.name, None) for field in fields(payload)}
    return {name: payload_text(value) if as_messages(value) else value for name, value in values.items()}
