"""LangChain messages, in all their forms, to our messages; and any value to text. Pure.

`Any` stands for what programs put into their graph's state, which can be anything.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.content import is_data_content_block
from langgraph.types import Command, Send

from blamespan.messages import Message, Part

__all__ = [
    "are_messages",
    "as_state",
    "as_text",
    "content_text",
    "is_kind_of",
    "is_message",
    "message_text",
    "text_or_none",
    "to_message",
]

_ROLES = {"human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "AIMessageChunk": "assistant"}
_ROLES |= {"system": "system", "developer": "system", "tool": "tool", "function": "tool"}


is_kind_of: Callable[[type, type], bool] = lru_cache(maxsize=1_024)(issubclass)
"""Tells whether a class derives from a pydantic one; asked of the classes each time, that costs 1 us."""


def is_message(value: Any) -> bool:
    """Tell whether *value* is a message, in one of the forms LangGraph's `add_messages` takes (but bare text)."""
    if is_kind_of(type(value), BaseMessage):
        return True
    if isinstance(value, tuple):
        return len(value) == 2 and _is_role(value[0]) and isinstance(value[1], str | list)
    return isinstance(value, dict) and "content" in value and _is_role(value.get("role", value.get("type")))


def _is_role(value: Any) -> bool:
    return isinstance(value, str) and value in _ROLES


def are_messages(value: Any) -> bool:
    """Tell whether *value* is a message, or a list of nothing but messages."""
    if type(value) is not list and is_message(value):
        return True
    return isinstance(value, (list, tuple)) and bool(value) and all(map(is_message, value))


def to_message(value: Any) -> Message:
    """Convert a message of any form `is_message` accepts."""
    if isinstance(value, tuple):
        return Message(_ROLES[value[0]], tuple(_parts(value[1])))
    if isinstance(value, dict):
        role = _ROLES[str(value.get("role", value.get("type")))]
        calls = [_call_part(call) for call in value.get("tool_calls") or () if isinstance(call, Mapping)]
        return Message(role, (*_parts(value["content"]), *calls), text_or_none(value.get("name")))
    role = _ROLES.get(value.type) or getattr(value, "role", None) or "user"
    if value.type == "remove":
        return Message.of_text("assistant", f"removes message {value.id}")
    if is_kind_of(type(value), ToolMessage):
        part = {"type": "tool_call_response", "id": value.tool_call_id, "response": content_text(value.content)}
        return Message("tool", (part,), value.name)
    parts = list(_parts(value.content))
    if is_kind_of(type(value), AIMessage) and (value.tool_calls or value.invalid_tool_calls):
        parts += [_call_part(call) for call in [*value.tool_calls, *value.invalid_tool_calls]]
    return Message(role, tuple(parts), value.name, _finish_reason(value))


def message_text(value: Any) -> str:
    """Read the text of a message, its tool calls included: what two messages that say the same share."""
    message = to_message(value)
    return "\n".join(
        str(part.get("content") or part.get("response") or "")
        if part["type"] != "tool_call"
        else f"{part.get('name')}({as_text(part.get('arguments'))})"
        for part in message.parts
    )


def _parts(content: Any) -> Iterator[Part]:
    """Convert contents block by block; data (images, audio) is named, not copied."""
    if isinstance(content, str):
        if content:
            yield {"type": "text", "content": content}
        return
    for block in content if isinstance(content, list) else [content]:
        if isinstance(block, str):
            if block:
                yield {"type": "text", "content": block}
        elif isinstance(block, Mapping):
            yield from _block_part(block)
        else:
            yield {"type": "text", "content": as_text(block)}


def _block_part(block: Mapping[str, Any]) -> Iterator[Part]:
    kind = block.get("type")
    if kind == "text":
        yield {"type": "text", "content": str(block.get("text", ""))}
    elif kind in ("reasoning", "thinking"):
        yield {"type": "reasoning", "content": str(block.get("reasoning") or block.get("thinking") or "")}
    elif kind in ("tool_use", "tool_call", "function_call", "input_json_delta"):
        return  # said again, in one form for all providers, by the message's own tool_calls
    elif kind in ("image_url", "image", "audio", "video", "file") or is_data_content_block(dict(block)):
        url = block.get("url") or block.get("image_url")
        url = url.get("url") if isinstance(url, Mapping) else url
        is_reference = isinstance(url, str) and not url.startswith("data:")
        yield {"type": "uri", "modality": kind, "uri": url} if is_reference else {"type": "blob", "modality": kind}
    else:
        yield {"type": "text", "content": as_text(dict(block))}


def _call_part(call: Mapping[str, Any]) -> Part:
    function = call.get("function")
    if isinstance(function, Mapping):  # OpenAI's own form, in a message given as a dict
        call = {"name": function.get("name"), "args": function.get("arguments"), "id": call.get("id")}
    return {
        "type": "tool_call",
        "id": call.get("id"),
        "name": call.get("name"),
        "arguments": _plain(call.get("args")),
    }


def _finish_reason(message: BaseMessage) -> str | None:
    metadata = getattr(message, "response_metadata", None)
    return text_or_none(metadata.get("finish_reason") or metadata.get("stop_reason")) if metadata else None


def as_state(value: Any) -> dict[str, Any] | None:
    """Read a graph's state as a mapping: a dict, a dataclass or a pydantic model; None for anything else.

    It may be *value* itself: for reading at once.
    """
    if type(value) is dict and set(map(type, value)) <= _ONLY_TEXT:
        return value
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else _shown(key): item for key, item in value.items()}
    if isinstance(value, (list, str, Send, Command)) or is_kind_of(type(value), BaseMessage):
        return None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if hasattr(value, f.name)}
    fields = getattr(type(value), "model_fields", None)
    if isinstance(fields, Mapping):
        return {name: getattr(value, name) for name in fields if hasattr(value, name)}
    return None


_ONLY_TEXT = {str}


def as_text(value: Any) -> str:
    """Write any value as compact JSON; text stays as it is. What cannot be written becomes its text or type."""
    if isinstance(value, str):
        return value
    try:
        return _encoder.encode(_plain(value))
    except Exception:  # an integer of thousands of digits; a mapping of the program's own may raise anything
        return _shown(value)


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def content_text(content: Any) -> str:
    """Write a message's contents as text: text blocks by themselves, others as JSON."""
    if isinstance(content, str):
        return content
    parts = list(_parts(content))
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["content"] for part in parts)
    return as_text(parts)


def _plain(value: Any, room: _Room | None = None, depth: int = 0) -> Any:
    """Make *value* such that JSON holds it. Deep or foreign objects become their text; what is very long, its start."""
    room = room or _Room()
    room.left -= 1
    if isinstance(value, int) and value.bit_length() > _MAX_INTEGER_BITS:
        return f"<integer of {value.bit_length()} bits>"
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if depth > _MAX_DEPTH or room.left < 0:
        return _shown(value) if room.left >= 0 else _LEFT_OUT
    if is_kind_of(type(value), BaseMessage):
        return message_text(value)
    if isinstance(value, list | tuple | set | frozenset):
        items = [_plain(item, room, depth + 1) for item in islice(value, max(0, room.left))]
        return [*items, _LEFT_OUT] if len(items) < len(value) else items
    if isinstance(value, Send):
        return {"node": value.node, "arg": _plain(value.arg, room, depth + 1)}
    state = as_state(value)
    if state is None:
        return _shown(value)
    found = {key: _plain(item, room, depth + 1) for key, item in islice(state.items(), max(0, room.left))}
    return {**found, _LEFT_OUT: len(state) - len(found)} if len(found) < len(state) else found


@dataclasses.dataclass(slots=True)
class _Room:
    """How many more values are worth writing: far more than fit into an attribute, few enough to take no time."""

    left: int = 20_000


_LEFT_OUT = "..."
_MAX_INTEGER_BITS = 14_000
"""Python refuses to write longer integers: it takes quadratic time."""
_MAX_DEPTH = 20
"""States nest a few levels; a structure that holds itself must come to an end."""


def _shown(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # a program's own __str__ may raise anything
        return f"<{type(value).__name__}>"


def text_or_none(value: Any) -> str | None:
    """Take *value* if it is a text that says something."""
    return value if isinstance(value, str) and value else None
