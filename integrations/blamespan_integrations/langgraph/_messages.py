"""LangChain messages, in all their forms, to our messages; and any value to text. Pure.

`Any` stands for what programs put into their graph's state, which can be anything.
"""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, Literal, TypeAlias

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.messages.content import is_data_content_block
from langgraph.types import Command, Send

from blamespan.genai_messages import Message, Part
from blamespan.rebuilding.state_text import state_lines, state_text, task_entries

_Role: TypeAlias = Literal["user", "assistant"]
Lost: TypeAlias = Callable[[str], None]
"""Is told what could not be written and why: names and types, no content."""

_ROLES = {"human": "user", "user": "user", "ai": "assistant", "assistant": "assistant", "AIMessageChunk": "assistant"}
_ROLES |= {"system": "system", "developer": "system", "tool": "tool", "function": "tool"}


is_kind_of: Callable[[type, type], bool] = lru_cache(maxsize=1_024)(issubclass)
"""Returns whether a class derives from a pydantic one; asked of the classes each time, that costs 1 us."""


def is_message(value: Any) -> bool:
    """Return whether *value* is a message, in one of the forms LangGraph's `add_messages` takes (but bare text)."""
    if is_kind_of(type(value), BaseMessage):
        return True
    if isinstance(value, tuple):
        return len(value) == 2 and _is_role(value[0]) and isinstance(value[1], str | list)
    return isinstance(value, dict) and "content" in value and _is_role(value.get("role", value.get("type")))


def _is_role(value: Any) -> bool:
    return isinstance(value, str) and value in _ROLES


def are_messages(value: Any) -> bool:
    """Return whether *value* is a message, or a list of nothing but messages."""
    if type(value) is not list and is_message(value):
        return True
    return type(value) in (list, tuple) and bool(value) and all(map(is_message, value))


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


def message_id(value: Any) -> str | None:
    """Read the id of a message, if it has one."""
    identifier = value.get("id") if type(value) is dict else getattr(value, "id", None)
    return identifier if isinstance(identifier, str) and identifier else None


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
        "arguments": _Writing(_ignore).plain(call.get("args"), 0),
    }


def _finish_reason(message: BaseMessage) -> str | None:
    metadata = getattr(message, "response_metadata", None)
    return text_or_none(metadata.get("finish_reason") or metadata.get("stop_reason")) if metadata else None


def as_state(value: Any) -> dict[str, Any] | None:
    """Read a graph's state as a mapping: a dict, a dataclass or a pydantic model; None for anything else.

    It may be *value* itself: for reading at once. What raises when it is read is no mapping.
    """
    if type(value) is dict and set(map(type, value)) <= _ONLY_TEXT:
        return value
    try:
        return _fields(value)
    except Exception:  # properties and mappings of the program's own may raise anything
        return None


def _fields(value: Any) -> dict[str, Any] | None:
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else _key_text(key): item for key, item in value.items()}
    if isinstance(value, (list, str, Send, Command)) or is_kind_of(type(value), BaseMessage):
        return None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if hasattr(value, f.name)}
    fields = getattr(type(value), "model_fields", None)
    if isinstance(fields, Mapping):
        return {name: getattr(value, name) for name in fields if hasattr(value, name)}
    return None


_ONLY_TEXT = {str}


def as_text(value: Any, lost: Lost | None = None) -> str:
    """Write any value as compact JSON; text stays as it is.

    Args:
        value: Anything.
        lost: Called with what could not be written and why; in its place stands its type.
    """
    if isinstance(value, str):
        return str.__str__(value)
    try:
        return _encoder.encode(_Writing(lost or _ignore).plain(value, 0))
    except Exception as error:  # what nobody foresaw
        return _unwritten(value, type(error).__name__, lost or _ignore)


def value_message(role: _Role, value: Any, lost: Lost | None = None) -> Message:
    """Make a message of any value: text as it is, a state as its lines; *lost* as for `as_text`."""
    if isinstance(value, str):
        return Message.of_text(role, str.__str__(value))
    plain = _plain(value, lost)
    return Message(role, ({"type": "text", "content": state_text(plain), "state": plain},))


def state_message(role: _Role, state: Mapping[str, Any], lost: Lost | None = None) -> Message:
    """Make a message of what changed in a state: a part for each key; *lost* as for `as_text`."""
    plain = _plain(state, lost)
    if not isinstance(plain, dict):
        return Message.of_text(role, str(plain))
    return Message(role, tuple([_state_part(key, value, is_bare=False) for key, value in plain.items()]))


def task_message(state: Mapping[str, Any], lost: Lost | None = None) -> Message:
    """Make a message of the state that a run is given: what it is to do comes first; *lost* as for `as_text`."""
    plain = _plain(state, lost)
    if not isinstance(plain, dict):
        return Message.of_text("user", str(plain))
    return Message(
        "user", tuple([_state_part(key, value, is_bare=is_bare) for key, value, is_bare in task_entries(plain)])
    )


def _state_part(key: str, value: Any, *, is_bare: bool) -> Part:
    """Make a part of a value of a state; the recorder gets the value as well, to mask what its keys say is secret."""
    text = state_text(value) if is_bare else state_lines({key: value})[0]
    return {"type": "text", "content": text, "state": value, "key": key, "is_bare": is_bare}


def _plain(value: Any, lost: Lost | None) -> Any:
    lost = lost or _ignore
    try:
        return _Writing(lost).plain(value, 0)
    except Exception as error:  # what nobody foresaw
        return _unwritten(value, type(error).__name__, lost)


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def content_text(content: Any) -> str:
    """Write a message's contents as text: text blocks by themselves, others as JSON."""
    if isinstance(content, str):
        return content
    parts = list(_parts(content))
    if all(part["type"] == "text" for part in parts):
        return "\n".join(part["content"] for part in parts)
    return as_text(parts)


class _Writing:
    """Makes a value such that JSON holds it. Nothing in the value can make it raise or run on.

    Args:
        lost: Called with what could not be written and why.
    """

    __slots__ = ("_above", "_left", "_lost")

    def __init__(self, lost: Lost) -> None:
        self._lost = lost
        self._left = _MOST_VALUES
        self._above: set[int] = set()

    def plain(self, value: Any, depth: int) -> Any:
        """Convert *value*, which stands *depth* levels deep; of what is very long, its start."""
        kind = type(value)
        if value is None or kind is str or kind is bool:
            return value
        self._left -= 1
        if self._left < 0:
            return _LEFT_OUT
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, str):
            return str.__str__(value)
        if depth > _MAX_DEPTH:
            return _unwritten(value, f"nested deeper than {_MAX_DEPTH}", self._lost)
        if depth > 1 and id(value) in self._above:  # one round is shown
            return _unwritten(value, "it holds itself", self._lost)
        self._above.add(id(value))
        try:
            return self._structure(value, depth + 1)
        except Exception as error:  # the program's own __str__, properties or iterators may raise anything
            return _unwritten(value, type(error).__name__, self._lost)
        finally:
            self._above.discard(id(value))

    def _number(self, value: int | float) -> Any:
        if isinstance(value, float):
            return value if math.isfinite(value) else float.__repr__(value)  # JSON has no NaN
        bits = int.bit_length(value)
        if bits <= _MAX_INTEGER_BITS:
            return value
        self._lost(f"integer of {bits} bits")
        return f"<integer of {bits} bits>"

    def _structure(self, value: Any, depth: int) -> Any:
        if is_kind_of(type(value), BaseMessage):
            return message_text(value)
        if isinstance(value, list | tuple | set | frozenset):
            items = [self.plain(item, depth) for item in islice(value, max(0, self._left))]
            return [*items, _LEFT_OUT] if len(items) < len(value) else items
        if isinstance(value, bytes | bytearray | memoryview):
            return self._bytes(bytes(value))
        if isinstance(value, Send):
            return {"node": value.node, "arg": self.plain(value.arg, depth)}
        state = as_state(value)
        if state is None:
            return _format_value(value)
        fields = {key: self.plain(item, depth) for key, item in islice(state.items(), max(0, self._left))}
        return {**fields, _LEFT_OUT: len(state) - len(fields)} if len(fields) < len(state) else fields

    def _bytes(self, value: bytes) -> str:
        try:
            value.decode()
        except UnicodeDecodeError:
            self._lost(f"{len(value)} bytes that are no text")
            return f"<{len(value)} bytes>"
        return str(value)


_MOST_VALUES = 20_000
"""How many values are worth writing: far more than fit into an attribute, few enough to take no time."""
_LEFT_OUT = "..."
_MAX_INTEGER_BITS = 14_000
"""Python refuses to write longer integers: it takes quadratic time."""
_MAX_DEPTH = 20
"""States nest a few levels."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]{6,}")
"""An address: it means nothing, and is another one in every run."""
_MAX_ADDRESSED = 1_000


def _format_value(value: Any) -> str:
    if isinstance(value, type) or callable(value):
        return f"<{getattr(value, '__qualname__', type(value).__qualname__)}>"
    text = str.__str__(str(value))
    return _ADDRESS.sub("", text) if text.startswith("<") and len(text) < _MAX_ADDRESSED else text


def _key_text(key: Any) -> str:
    try:
        return _format_value(key)
    except Exception:  # a program's own __str__ may raise anything
        return f"<{type_name(key)}>"


def _unwritten(value: Any, why: str, lost: Lost) -> str:
    name = type_name(value)
    lost(f"{name}: {why}")
    return f"<{name}>"


def type_name(value: Any) -> str:
    """Name the type of *value*; a metaclass of the program's own may raise even there."""
    try:
        return str(type(value).__name__)
    except Exception:
        return "object"


def _ignore(_: str) -> None:
    return None


def text_or_none(value: Any) -> str | None:
    """Take *value* if it is a text that says something."""
    return value if isinstance(value, str) and value else None
