"""Messages in every JSON shape that instrumentations write them in, as GenAI messages.

LangChain's (flat, `{"type", "data"}`, or serialised constructors), OpenAI's chat and responses, Anthropic's and
Bedrock's content blocks, AutoGen's, the GenAI conventions' own, and whatever holds a list of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from blamespan.genai_messages import Message, Part
from blamespan.rebuilding.state_text import state_text, task_lines
from blamespan_integrations.dialects._values import as_text, mappings, parse_structure

_ROLES = {
    "ai": "assistant",
    "aimessagechunk": "assistant",
    "assistant": "assistant",
    "chat": "assistant",
    "developer": "system",
    "function": "tool",
    "human": "user",
    "model": "assistant",
    "system": "system",
    "tool": "tool",
    "user": "user",
}
_HOLDERS = ("messages", "message", "update", "inputs", "outputs", "output", "generations", "choices", "chat_message")
"""Keys under which messages lie within what a node, a model or a framework gave back."""
_MAX_DEPTH = 12
_MAX_MESSAGES = 5_000


def messages_in(value: object) -> list[Message]:
    """Find the messages in a value or its JSON text; empty where there are none."""
    messages: list[Message] = []
    for message in _iter_messages(parse_structure(value), 0):
        messages.append(message)
        if len(messages) >= _MAX_MESSAGES:
            break
    return messages


def rest_of_state(value: object) -> str | None:
    """Write what an agent gave back that is no message, as JSON; None where there is nothing else."""
    read = _rest(value)
    return read if isinstance(read, str) or read is None else json.dumps(read, ensure_ascii=False, default=str,
                                                                         separators=(",", ":"))  # fmt: skip


def state_of(value: object) -> str | None:
    """Write what a node gave back that is no message as text; None where there is nothing else."""
    read = _rest(value)
    return None if read is None else state_text(read)


def task_of(value: object) -> list[Message]:
    """Read what a graph was given that is no message, as the message that asks for it."""
    read = _rest(value)
    if read is None:
        return []
    texts = task_lines(read) if isinstance(read, Mapping) else [state_text(read)]
    parts: list[Part] = [{"type": "text", "content": text} for text in texts if text]
    return [Message("user", parts)] if parts else []


def _rest(value: object) -> Any:
    """Take what is no message out of what a node or an agent was given or gave back."""
    read = parse_structure(value)
    if isinstance(read, Mapping):
        for key in ("outputs", "output", "inputs", "input"):
            if key in read and len(read) <= 3:
                read = read[key]
                break
    if isinstance(read, Mapping):
        read = {key: item for key, item in read.items() if key != "messages"} or None
    if read is None:
        return value if isinstance(value, str) and value and parse_structure(value) is None else None
    return read


def indexed_messages(attributes: Mapping[str, Any], prefix: str) -> list[Message]:
    """Read messages that are spread over attributes: `{prefix}.0.role`, `{prefix}.0.content`, ...

    Reads OpenInference's `message.` keys and the older GenAI ones (`gen_ai.prompt.0.role`) alike.
    """
    rows: dict[int, dict[str, Any]] = {}
    start = f"{prefix}."
    for key, value in attributes.items():
        if key.startswith(start):
            index, _, field = key[len(start) :].partition(".")
            if index.isdecimal() and len(index) < 6:
                rows.setdefault(int(index), {})[field.removeprefix("message.")] = value
    return [_from_fields(rows[index]) for index in sorted(rows)[:_MAX_MESSAGES]]


def _from_fields(fields: Mapping[str, Any]) -> Message:
    role = _ROLES.get(str(fields.get("role", "")).lower(), "assistant")
    content = fields.get("content")
    texts = [content] if isinstance(content, str) else []
    blocks = sorted(key for key in fields if key.startswith("contents.") and key.endswith(".text"))
    texts += [fields[key] for key in blocks if isinstance(fields[key], str)]
    parts: list[Part] = [{"type": "text", "content": text} for text in texts if text]
    if role == "tool":
        call_id = fields.get("tool_call_id")
        return Message(role, (_answer(call_id, fields.get("name"), "\n".join(texts)),), None)
    return Message(role, (*parts, *_indexed_calls(fields)), _name(fields))


def _indexed_calls(fields: Mapping[str, Any]) -> Iterator[Part]:
    calls: dict[str, dict[str, Any]] = {}
    for key, value in fields.items():
        if key.startswith("tool_calls."):
            index, _, field = key[len("tool_calls.") :].partition(".")
            calls.setdefault(index, {})[field.removeprefix("tool_call.").removeprefix("function.")] = value
    for index in sorted(calls):
        call = calls[index]
        if isinstance(call.get("name"), str):
            yield _call(call.get("id"), call["name"], call.get("arguments"))


def _iter_messages(value: Any, depth: int) -> Iterator[Message]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, Mapping):
        message = _message(value)
        if message is not None:
            yield message
            return
        for key in _HOLDERS:
            if key in value:
                yield from _iter_messages(value[key], depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        for item in value:
            yield from _iter_messages(item, depth + 1)


def _message(item: Mapping[str, Any]) -> Message | None:
    fields, kind = _unwrap(item)
    role = _ROLES.get(str(fields.get("role") or kind).lower())
    if "parts" in fields:
        return _genai(role, fields)
    if kind == "function_call" and isinstance(fields.get("name"), str):
        return Message("assistant", (_call(fields.get("call_id"), fields["name"], fields.get("arguments")),))
    if kind == "function_call_output":
        return Message("tool", (_answer(fields.get("call_id"), None, fields.get("output")),))
    if isinstance(fields.get("source"), str) and "content" in fields:
        return _autogen(fields)
    if role is None or not ({"content", "tool_calls"} & fields.keys()):
        return None
    answers = tuple(_block_answers(fields.get("content")))
    if answers:
        return Message("tool", answers)
    if role == "tool":
        return Message(role, (_answer(fields.get("tool_call_id"), fields.get("name"), fields.get("content")),))
    calls = tuple(_calls(fields)) or tuple(_block_calls(fields.get("content")))
    return Message(role, (*_texts(fields.get("content")), *calls), _name(fields))


def _unwrap(item: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """Take a message out of what LangChain wraps it in when it writes it down."""
    if item.get("type") == "constructor" and isinstance(item.get("kwargs"), Mapping):
        path = item.get("id")
        last = path[-1] if isinstance(path, Sequence) and path else ""
        kind = item["kwargs"].get("type") or str(last).removesuffix("Chunk").removesuffix("Message")
        return item["kwargs"], str(kind)
    if isinstance(item.get("data"), Mapping) and isinstance(item.get("type"), str):
        return item["data"], item["type"]
    return item, str(item.get("type", ""))


def _genai(role: str | None, fields: Mapping[str, Any]) -> Message | None:
    parts = fields["parts"]
    if not isinstance(parts, Sequence) or isinstance(parts, str | bytes):
        return None
    ours = tuple(_with_response(part) for part in parts if isinstance(part, Mapping))
    return Message(role or "assistant", ours, _name(fields))


def _with_response(part: Mapping[str, Any]) -> Part:
    """Read the answer of a tool under the name that some libraries give it."""
    if part.get("type") != "tool_call_response" or "response" in part or "result" not in part:
        return part
    return {**{key: value for key, value in part.items() if key != "result"}, "response": part["result"]}


def _autogen(fields: Mapping[str, Any]) -> Message:
    """Read a message of AutoGen's: who said it is its `source`, tool calls and answers are its content."""
    source, content = fields["source"], fields["content"]
    parts: list[Part] = []
    for item in content if isinstance(content, Sequence) and not isinstance(content, str) else ():
        if isinstance(item, str):
            parts.append({"type": "text", "content": item})
        elif isinstance(item, Mapping) and "arguments" in item:
            parts.append(_call(item.get("id"), str(item.get("name")), item.get("arguments")))
        elif isinstance(item, Mapping) and "call_id" in item:
            parts.append(_answer(item.get("call_id"), item.get("name"), item.get("content")))
    if not parts and content not in (None, "", []):
        parts.append({"type": "text", "content": as_text(content)})
    return Message("user" if source == "user" else "assistant", tuple(parts), source)


def _texts(content: Any) -> Iterator[Part]:
    if isinstance(content, str):
        if content:
            yield {"type": "text", "content": content}
    elif isinstance(content, Sequence):
        for block in content:
            text = block.get("text") if isinstance(block, Mapping) else block
            if isinstance(text, str) and text:
                yield {"type": "text", "content": text}


def _calls(fields: Mapping[str, Any]) -> Iterator[Part]:
    calls = fields.get("tool_calls")
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        return
    for call in calls:
        if not isinstance(call, Mapping):
            continue
        function = call["function"] if isinstance(call.get("function"), Mapping) else call
        if isinstance(function.get("name"), str):
            yield _call(call.get("id"), function["name"], function.get("args", function.get("arguments")))


def _block_calls(content: Any) -> Iterator[Part]:
    """Read the calls among a message's content blocks: Anthropic's `tool_use`, Bedrock's `toolUse`."""
    for block in mappings(content):
        bedrock = block.get("toolUse")
        call = bedrock if isinstance(bedrock, Mapping) else block
        if isinstance(call.get("name"), str) and (call is bedrock or block.get("type") == "tool_use"):
            yield _call(call.get("toolUseId", call.get("id")), call["name"], call.get("input"))


def _block_answers(content: Any) -> Iterator[Part]:
    """Read the answers of tools among a message's content blocks: `tool_result` and `toolResult`."""
    for block in mappings(content):
        if isinstance(answer := block.get("toolResult"), Mapping):
            yield _answer(answer.get("toolUseId"), None, answer.get("content"))
        elif block.get("type") == "tool_result":
            yield _answer(block.get("tool_use_id"), None, block.get("content"))


def _call(id_: object, name: str, arguments: object) -> Part:
    part: dict[str, Any] = {"type": "tool_call", "name": name, "arguments": "" if arguments is None else arguments}
    return part | ({"id": id_} if isinstance(id_, str) else {})


def _answer(id_: object, name: object, content: object) -> Part:
    text = "\n".join(part["content"] for part in _texts(content)) if isinstance(content, Sequence) else as_text(content)
    part: dict[str, Any] = {"type": "tool_call_response", "response": text}
    part |= {"id": id_} if isinstance(id_, str) else {}
    return part | ({"name": name} if isinstance(name, str) else {})


def _name(fields: Mapping[str, Any]) -> str | None:
    name = fields.get("name")
    return name if isinstance(name, str) and name else None
