"""LangChain's messages and LangGraph's writes as records of `blamespan.intercepting.boundaries`, and back. Pure."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage
from langchain_core.messages.tool import invalid_tool_call, tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langgraph.channels import LastValue
from langgraph.types import Command, Send

from blamespan.intercepting.boundaries import Line, Mail, Role, Said, ToolCall
from blamespan.trace import Usage
from blamespan_integrations.interception._offering import as_json

_ROLES: Final[Mapping[str, Role]] = {"system": "system", "ai": "assistant", "tool": "tool"}
"""Whose a message is, by LangChain's type of it; everybody else's is a user's."""
_EDGE = "branch:to:"
_SENDS = "__pregel_tasks"
_OWN_CHANNELS = ("__", _EDGE, "join:")
"""How channels begin that hold no state of the program's."""


def as_lines(messages: Sequence[BaseMessage], authors: Mapping[str, str]) -> tuple[Line, ...]:
    """Read what a model is sent; a message without a name is by whoever said it, as *authors* has it by text."""
    return tuple(_line(message, index, authors) for index, message in enumerate(messages))


def new_message(line: Line) -> BaseMessage:
    """Write a message that the program has none for."""
    return HumanMessage(line.text)


def with_text(message: BaseMessage, text: str) -> BaseMessage:
    """Write a message that says something else; what is no text stays."""
    if isinstance(message.content, str):
        return message.model_copy(update={"content": text})
    others = [part for part in message.content if isinstance(part, dict) and part.get("type") != "text"]
    return message.model_copy(update={"content": [{"type": "text", "text": text}, *others]})


def read_answer(result: Any) -> Said | None:  # whatever a model gives
    """Read what a model answers."""
    return (
        _read_message(result.generations[0].message) if isinstance(result, ChatResult) and result.generations else None
    )


def read_items(items: Sequence[ChatGenerationChunk]) -> Said | None:
    """Read what a model streams."""
    return _read_message(_join(items).message) if items else None


def is_last_item(_: object) -> bool:
    """Check whether an item of a stream is the whole answer: here each is a part."""
    return False


def _join(chunks: Sequence[ChatGenerationChunk]) -> ChatGenerationChunk:
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole


def _read_message(message: BaseMessage) -> Said:
    usage = getattr(message, "usage_metadata", None) or {}
    counts = Usage(usage.get("input_tokens") or 0, usage.get("output_tokens") or 0) if usage else None
    about = message.response_metadata
    model = str(about.get("model_name") or about.get("model") or "")
    return Said(message.text, _read_calls(message), usage=counts, model=model)


def _read_calls(message: BaseMessage) -> tuple[ToolCall, ...]:
    calls = message.tool_calls if isinstance(message, AIMessage) else ()
    return tuple(ToolCall(call["name"], as_json(call["args"]), call["id"] or "") for call in calls)


def find_handoff(tool: Any) -> str:  # of anybody's
    """Return whom a tool hands the work to, where it is one that a prebuilt team makes and so does nothing else."""
    metadata = getattr(tool, "metadata", None)
    target = metadata.get("__handoff_destination") if isinstance(metadata, dict) else None
    function = getattr(tool, "func", None)
    is_prebuilt = getattr(function, "__module__", "") in ("langgraph_swarm.handoff", "langgraph_supervisor.handoff")
    return target if isinstance(target, str) and is_prebuilt else ""


def as_result(result: ChatResult, answer: Said) -> ChatResult:
    """Write what a model answers instead."""
    first = result.generations[0]
    message = _with_answer(first.message, answer)
    changed = ChatGeneration(message=message, generation_info=first.generation_info)
    return ChatResult(generations=[changed, *result.generations[1:]], llm_output=result.llm_output)


def answer_unasked(answer: Said) -> ChatResult:
    """Write what a model answers that is not asked."""
    none = ChatGeneration(message=AIMessage("", name=answer.name or None))
    return as_result(ChatResult(generations=[none]), answer)


def items_unasked(answer: Said) -> list[ChatGenerationChunk]:
    """Write what a model streams that is not asked."""
    return as_items([ChatGenerationChunk(message=AIMessageChunk(content="", name=answer.name or None))], answer)


def as_items(chunks: Sequence[ChatGenerationChunk], answer: Said) -> list[ChatGenerationChunk]:
    """Write what a model streams instead, in one piece."""
    whole = _join(chunks)
    message = whole.message
    calls = [
        tool_call_chunk(name=call.name, args=call.arguments, id=call.id, index=index)
        for index, call in enumerate(answer.calls)
    ]
    changed = AIMessageChunk(
        content=answer.text,
        tool_call_chunks=calls,
        id=message.id,
        name=message.name,
        usage_metadata=getattr(message, "usage_metadata", None),
        response_metadata=message.response_metadata,
        chunk_position="last",
    )
    return [ChatGenerationChunk(message=changed, generation_info=whole.generation_info)]


def spoken_text(update: Any) -> str | None:  # whatever a node returns
    """Find what a node says in its update: its last message, or the last text of it."""
    value = _spoken_value(update.update if isinstance(update, Command) else update)
    if isinstance(value, list):
        value = value[-1] if value else None
    return value.text if isinstance(value, AIMessage) else value if isinstance(value, str) else None


def with_spoken_text(update: Any, text: str) -> Any:  # as above
    """Write what a node says in its update instead; everything else in it stays."""
    if isinstance(update, Command):
        changed = copy.copy(update)
        object.__setattr__(changed, "update", with_spoken_text(update.update, text))
        return changed
    key = _spoken_key(update)
    value = update[key] if key is not None else update
    if isinstance(value, list):
        new: Any = [*value[:-1], with_text(value[-1], text) if isinstance(value[-1], BaseMessage) else text]
    else:
        new = with_text(value, text) if isinstance(value, BaseMessage) else text
    return {**update, key: new} if key is not None else new


def following(writes: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """Read from what a node writes which nodes are next."""
    names = [
        channel.removeprefix(_EDGE) if channel.startswith(_EDGE) else value.node
        for channel, value in writes
        if channel.startswith(_EDGE) or (channel == _SENDS and isinstance(value, Send))
    ]
    return tuple(dict.fromkeys(names))


def reroute(writes: Sequence[tuple[str, Any]], before: Mail, mail: Mail, channels: Any) -> list[tuple[str, Any]]:
    """Write what a node writes instead, so that *mail* holds where *before* did.

    Args:
        writes: What it writes: channels and values.
        before: The message's way as the program has it.
        mail: The way it takes.
        channels: The graph's, by name: a key that keeps one value only cannot be written twice.
    """
    kept_writes = [
        (channel, value)
        for channel, value in writes
        if mail.following == before.following or not (channel.startswith(_EDGE) or channel == _SENDS)
    ]
    if not mail.receivers and before.receivers:
        kept_writes = [(channel, value) for channel, value in kept_writes if channel.startswith(_OWN_CHANNELS)]
    for copy_number in range(1, mail.copies):
        kept_writes += [
            (channel, _again(value, copy_number))
            for channel, value in writes
            if not channel.startswith(_OWN_CHANNELS) and not isinstance(channels.get(channel), LastValue)
        ]
    if mail.following != before.following:
        packets = {value.node: value for channel, value in writes if channel == _SENDS and isinstance(value, Send)}
        sample = next(iter(packets.values()), None)
        kept_writes += [
            (f"{_EDGE}{name}", None) if sample is None else (_SENDS, Send(name, packets.get(name, sample).arg))
            for name in mail.following
        ]
    return kept_writes


def _line(message: BaseMessage, index: int, authors: Mapping[str, str]) -> Line:
    role = _ROLES.get(message.type.removesuffix("MessageChunk").casefold(), "user")
    text = message.content if isinstance(message.content, str) else message.text  # the property costs more
    sender = message.name or (authors.get(text, "") if role == "assistant" else "")
    return Line(role, text, sender, _read_calls(message) if role == "assistant" else (), index)


def _with_answer(message: BaseMessage, answer: Said) -> BaseMessage:
    before = _read_message(message)
    changed = with_text(message, answer.text) if answer.text != before.text else message
    if answer.calls == before.calls or not isinstance(message, AIMessage):
        return changed
    good, bad = [], []
    for call in answer.calls:
        arguments = _arguments(call.arguments)
        if isinstance(arguments, dict):
            good.append(tool_call(name=call.name, args=arguments, id=call.id))
        else:
            bad.append(invalid_tool_call(name=call.name, args=call.arguments, id=call.id, error=None))
    others = {key: value for key, value in message.additional_kwargs.items() if key != "tool_calls"}
    content = changed.content
    if isinstance(content, list):
        content = [part for part in content if not (isinstance(part, dict) and part.get("type") == "tool_use")]
    update = {"tool_calls": good, "invalid_tool_calls": bad, "additional_kwargs": others, "content": content}
    return changed.model_copy(update=update)


def _spoken_key(update: Any) -> str | None:
    if not isinstance(update, dict):
        return None
    keys = [key for key, value in update.items() if isinstance(key, str) and _is_speech(value)]
    return "messages" if "messages" in keys else keys[-1] if keys else None


def _spoken_value(update: Any) -> Any:
    key = _spoken_key(update)
    return update[key] if key is not None else update if _is_speech(update) else None


def _is_speech(value: Any) -> bool:
    last = value[-1] if isinstance(value, list) and value else value
    return isinstance(last, str | AIMessage)


def _again(value: Any, number: int) -> Any:
    """Copy a value so that reducers take it for another one."""
    if isinstance(value, BaseMessage):
        return value.model_copy(update={"id": f"{value.id}-{number}" if value.id else None})
    if isinstance(value, list):
        return [_again(item, number) for item in value]
    return value


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
