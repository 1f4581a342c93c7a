"""What goes into and comes out of graphs, nodes, tools and models, as our records. Pure.

`Any` stands for what programs put into their graph's state, which can be anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import LLMResult
from langgraph.constants import END
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Send

from blamespan.messages import Message
from blamespan.trace import Usage
from blamespan_integrations.langgraph._messages import (
    are_messages,
    as_state,
    as_text,
    content_text,
    is_message,
    text_or_none,
    to_message,
)

__all__ = [
    "TOOL_ERROR",
    "VALUE",
    "ChatAnswer",
    "Given",
    "Update",
    "answer_of",
    "chat_answer",
    "fallback_name",
    "given_of",
    "interrupt_text",
    "model_name",
    "open_calls",
    "requested_calls",
    "routes_of",
    "task_of",
    "tool_answer",
    "update_of",
]

_TOOL_CALL_WITH_CONTEXT = "tool_call_with_context"
TOOL_ERROR = "tool_error"
"""`error.type` of a tool that answered with an error message, where its exception is not known."""


@dataclass(slots=True)
class Update:
    """What a node gave back.

    Attributes:
        messages: Messages it wrote, as it gave them.
        state: What it wrote to other keys of the state, or the plain value it returned.
        goto: Names of the nodes it sends the run to by `Command`, without the end.
        sends: Its `Send` packets, where they came by `Command`.
    """

    messages: list[Any] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    goto: list[str] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)


VALUE = ""
"""The key of an `Update.state` or `Given.rest` that is a plain value and no state."""
_MANAGED = {"remaining_steps", "is_last_step"}
"""LangGraph's managed values: no part of what anybody says."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a node was given.

    Attributes:
        raw: As it came.
        messages: The messages in it.
        rest: The rest of the state, without what LangGraph itself counts.
    """

    raw: Any
    messages: list[Any]
    rest: dict[str, Any]


def given_of(raw: Any) -> Given:
    """Read a node's input: the graph's state, messages, or any other value."""
    if are_messages(raw):
        return Given(raw, [raw] if is_message(raw) else list(raw), {})
    messages: list[Any] = []
    rest: dict[str, Any] = {}
    fields = as_state(raw)
    for key, value in ({VALUE: raw} if fields is None else fields).items():
        if are_messages(value):
            messages += [value] if is_message(value) else value
        elif key not in _MANAGED:
            rest[key] = value
    return Given(raw, messages, rest)


def update_of(output: Any) -> Update:
    """Read what a node returned: a state update, a `Command`, messages, or a list of those."""
    found = Update()
    _gather(output, found)
    return found


def _gather(output: Any, found: Update) -> None:
    if output is None:
        return
    if isinstance(output, Command):
        _gather(_as_mapping(output.update), found)
        targets = _targets(output.goto)
        found.goto += [name for name in (_target_name(target) for target in targets) if name and name != END]
        found.sends += [target for target in targets if isinstance(target, Send)]
    elif are_messages(output):
        found.messages += output if isinstance(output, list) else [output]
    elif isinstance(output, list) and any(isinstance(item, Command | BaseMessage) for item in output):
        for item in output:
            _gather(item, found)
    else:
        for key, value in (as_state(output) or {VALUE: output}).items():
            if are_messages(value):
                found.messages += value if isinstance(value, list | tuple) and not is_message(value) else [value]
            elif not (isinstance(value, list) and not value):
                found.state[key] = value


def _as_mapping(update: Any) -> Any:
    """Read a `Command.update` given as pairs the way LangGraph does."""
    if isinstance(update, list | tuple) and update and all(isinstance(p, tuple) and len(p) == 2 for p in update):
        return dict(update) if all(isinstance(key, str) for key, _ in update) else update
    return update


def _targets(goto: Any) -> list[Any]:
    return list(goto) if isinstance(goto, list | tuple) else [goto] if goto else []


def _target_name(target: Any) -> str | None:
    return target.node if isinstance(target, Send) else target if isinstance(target, str) else None


def routes_of(routed: Any) -> tuple[list[str], list[Send]]:
    """Read what a conditional edge answered, where it says nodes and not keys of a path map.

    Returns:
        Names of the targets, the end left out; the `Send` packets among them.
    """
    targets = _targets(routed)
    names = [name for target in targets if (name := _target_name(target)) and name != END]
    return names, [target for target in targets if isinstance(target, Send)]


def requested_calls(message: Any) -> list[Mapping[str, Any]]:
    """List the tool calls that a message asks for, each with `name`, `args` and `id`."""
    return list(message.tool_calls) if isinstance(message, AIMessage) else []


def open_calls(given: Given) -> dict[str, tuple[Mapping[str, Any], str | None]]:
    """Find the tool calls that a node was started to execute: asked for, and not answered.

    They stand in the last messages of its state, or are what was sent to it (`Send` of a call, as
    prebuilt agents do).

    Returns:
        By call id: the call, and the name on the message that asks, if any.
    """
    if isinstance(given.raw, list) and given.raw and all(_is_call(item) for item in given.raw):
        return {call["id"]: (call, None) for call in given.raw}
    call = given.rest.get("tool_call")
    if given.rest.get("__type") == _TOOL_CALL_WITH_CONTEXT and isinstance(call, Mapping) and call.get("id"):
        return {call["id"]: (call, None)}
    answered: set[str] = set()
    for message in reversed(given.messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            calls = requested_calls(message)
            return {c["id"]: (c, message.name) for c in calls if c.get("id") and c["id"] not in answered}
        else:
            return {}
    return {}


def _is_call(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "tool_call" and bool(item.get("id"))


def task_of(inputs: Any) -> list[Message]:
    """Read what a graph was asked: the messages from the last user message on, else its whole input as text."""
    if inputs is None:
        return []
    if isinstance(inputs, Command):
        inputs = inputs.resume if inputs.resume is not None else inputs.update
        return [Message.of_text("user", as_text(inputs))] if inputs is not None else []
    given = given_of(inputs)
    if isinstance(given.rest.get("messages"), str):
        return [Message.of_text("user", given.rest["messages"])]
    messages = [to_message(item) for item in given.messages]
    asked = [place for place, message in enumerate(messages) if message.role == "user"]
    if messages:
        return messages[asked[-1] :] if asked else messages
    return [Message.of_text("user", as_text(inputs))]


def answer_of(output: Any) -> list[Message]:
    """Read what a graph gave back: its last message, else its whole output as text."""
    if output is None:
        return []
    given = given_of(output)
    if given.messages:
        return [to_message(given.messages[-1])]
    return [Message.of_text("assistant", as_text(output))]


def interrupt_text(error: GraphInterrupt) -> str:
    """Read what an interrupted node asks for."""
    interrupts = error.args[0] if error.args else ()
    values = [getattr(one, "value", one) for one in (interrupts if isinstance(interrupts, Sequence) else [interrupts])]
    return "\n".join(as_text(value) for value in values)


def tool_answer(output: Any) -> tuple[str, str | None, list[str]]:
    """Read what a tool gave back.

    Returns:
        Its text, `error.type` if it is an error, and the nodes it sends the run to (a handoff tool).
    """
    if isinstance(output, ToolMessage):
        return content_text(output.content), TOOL_ERROR if output.status == "error" else None, []
    if isinstance(output, Command):
        update = update_of(output)
        answers = [message for message in update.messages if isinstance(message, ToolMessage)]
        texts = [content_text(message.content) for message in answers] or [as_text(output.update)]
        failed = any(message.status == "error" for message in answers)
        return "\n".join(texts), TOOL_ERROR if failed else None, update.goto
    return as_text(output), None, []


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a model answered."""

    messages: tuple[Message, ...]
    usage: Usage | None
    finish_reasons: tuple[str, ...]
    model: str | None


def chat_answer(result: LLMResult) -> ChatAnswer:
    """Read the answer of a chat model, or of a plain text model."""
    generations = [generation for batch in result.generations for generation in batch]
    raw = [getattr(generation, "message", None) for generation in generations]
    messages = [
        to_message(message) if message is not None else Message.of_text("assistant", generation.text)
        for message, generation in zip(raw, generations, strict=True)
    ]
    said = result.llm_output or {}
    reasons = [
        reason
        for message, generation in zip(messages, generations, strict=True)
        if (reason := message.finish_reason or text_or_none((generation.generation_info or {}).get("finish_reason")))
    ]
    metadata: Mapping[str, Any] = next((m.response_metadata for m in raw if m is not None and m.response_metadata), {})
    model = metadata.get("model_name") or metadata.get("model") or said.get("model_name")
    return ChatAnswer(tuple(messages), _usage(raw, said), tuple(reasons), text_or_none(model))


def _usage(messages: Iterable[Any], said: Mapping[str, Any]) -> Usage | None:
    counted = [found for message in messages if (found := getattr(message, "usage_metadata", None))]
    if counted:
        return Usage(sum(c.get("input_tokens", 0) for c in counted), sum(c.get("output_tokens", 0) for c in counted))
    tokens = said.get("token_usage") or said.get("usage")
    if not isinstance(tokens, Mapping):
        return None
    read = tokens.get("prompt_tokens", tokens.get("input_tokens"))
    written = tokens.get("completion_tokens", tokens.get("output_tokens"))
    return None if read is None and written is None else Usage(int(read or 0), int(written or 0))


def model_name(serialized: Mapping[str, Any] | None, metadata: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Find the model's name: what LangChain says of it, the call's parameters, else the class's name."""
    candidates = [metadata.get("ls_model_name"), *(asked.get(key) for key in ("model", "model_name", "model_id"))]
    named = next((value for value in candidates if isinstance(value, str) and value), None)
    return named or fallback_name(serialized, "model")


def fallback_name(serialized: Mapping[str, Any] | None, otherwise: str) -> str:
    """Read the name off what LangChain serialized of a tool or model."""
    found = (serialized or {}).get("name")
    path = (serialized or {}).get("id")
    last = path[-1] if isinstance(path, list) and path else None
    return next((value for value in (found, last) if isinstance(value, str) and value), otherwise)
