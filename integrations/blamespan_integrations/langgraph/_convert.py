"""What goes into and comes out of graphs, nodes, tools and models, as our records. Pure.

`Any` stands for what programs put into their graph's state, which can be anything.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langgraph.constants import END
from langgraph.errors import GraphInterrupt
from langgraph.types import Command, Send

from blamespan.genai_messages import Message
from blamespan_integrations.langgraph._messages import (
    Lost,
    are_messages,
    as_state,
    as_text,
    content_text,
    is_kind_of,
    is_message,
    message_text,
    task_message,
    text_or_none,
    to_message,
    value_message,
)

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


_SENDS, _EDGE, _VALUES = "__pregel_tasks", "branch:to:", ("__root__", "__return__", "__end__")
"""Channels of LangGraph's own: packets, edges taken, and the one value of a graph or task without keys."""
VALUE = ""
"""The key of an `Update.state` or `Given.rest` that is a plain value and no state."""
_MANAGED = {"remaining_steps", "is_last_step"}
"""LangGraph's managed values: no part of what anybody says."""


@dataclass(slots=True)  # not frozen: one is made for every node, and freezing doubles that cost
class NodeInput:
    """What a node was given.

    Attributes:
        raw: As it came.
        lists: The messages in it, by the key of the state they stand under.
        rest: The rest of the state, without what LangGraph itself counts.
    """

    raw: Any
    lists: Mapping[str, Sequence[Any]]
    rest: dict[str, Any]

    @property
    def messages(self) -> Sequence[Any]:
        """List the messages in it."""
        if len(self.lists) == 1:
            return next(iter(self.lists.values()))
        return [message for messages in self.lists.values() for message in messages]

    def holds(self, message: Any) -> bool:
        """Return whether *message* is one of the objects in it."""
        return any(item is message for messages in self.lists.values() for item in messages)


def read_input(raw: Any, are_listed: Callable[[str, Any], bool] = lambda _, value: are_messages(value)) -> NodeInput:
    """Read a node's input: the graph's state, messages, or any other value.

    Args:
        raw: As it came.
        are_listed: Checks whether the value of a key is a message or a list of nothing else.
    """
    try:
        return _read_fields(raw, are_listed)
    except Exception:  # containers of the program's own may raise anything
        return NodeInput(raw, {}, {VALUE: raw})


def _read_fields(raw: Any, are_listed: Callable[[str, Any], bool]) -> NodeInput:
    lists: dict[str, Sequence[Any]] = {}
    rest: dict[str, Any] = {}
    fields = None if isinstance(raw, dict) and "content" in raw and is_message(raw) else as_state(raw)
    for key, value in ({VALUE: raw} if fields is None else fields).items():
        if are_listed(key, value):
            lists[key] = [value] if type(value) is not list and is_message(value) else value
        elif key not in _MANAGED:
            rest[key] = value
    return NodeInput(raw, lists, rest)


def read_update(output: Any) -> Update:
    """Read what a node returned: a state update, a `Command`, messages, or a list of those."""
    update = Update()
    try:
        _add_output(output, update)
    except Exception:  # containers of the program's own may raise anything
        return Update(state={VALUE: output})
    return update


def _add_output(output: Any, update: Update) -> None:
    if output is None:
        return
    if type(output) is dict and "content" not in output:
        _add_state(as_state(output) or {}, update)
    elif isinstance(output, Command):
        _add_output(_as_mapping(output.update), update)
        targets = _targets(output.goto)
        update.goto += [name for name in (_target_name(target) for target in targets) if name and name != END]
        update.sends += [target for target in targets if isinstance(target, Send)]
    elif are_messages(output):
        update.messages += output if isinstance(output, list) else [output]
    elif _is_final(output):
        _add_output(output.value, update)
    elif type(output) is list and any(isinstance(item, Command | BaseMessage) for item in output):
        for item in output:
            _add_output(item, update)
    else:
        state = as_state(output)
        _add_state({VALUE: output} if state is None else state, update)


def _add_state(state: Mapping[str, Any], update: Update) -> None:
    for key, value in state.items():
        if are_messages(value):
            update.messages += [value] if type(value) is not list and is_message(value) else value
        elif key not in _MANAGED and not (type(value) is list and not value):
            update.state[key] = value


def read_writes(writes: Iterable[tuple[str, Any]]) -> Update:
    """Read what a node wrote off LangGraph's own list of it: keys of the state, edges taken, packets sent."""
    update = Update()
    for channel, value in writes:
        if channel == _SENDS:
            update.sends.append(value)
        elif channel.startswith(_EDGE):
            continue
        elif channel in _VALUES:
            _add_output(value, update)
        elif not channel.startswith("__"):
            _add_output({channel: value}, update)
    return update


def _as_mapping(update: Any) -> Any:
    """Read a `Command.update` given as pairs the way LangGraph does."""
    if isinstance(update, list | tuple) and update and all(isinstance(p, tuple) and len(p) == 2 for p in update):
        return dict(update) if all(isinstance(key, str) for key, _ in update) else update
    return update


def _targets(goto: Any) -> list[Any]:
    return list(goto) if isinstance(goto, list | tuple) else [goto] if goto else []


def _target_name(target: Any) -> str | None:
    return target.node if isinstance(target, Send) else target if isinstance(target, str) else None


def packets_of(routed: Any) -> list[Send]:
    """List the `Send` packets among what a conditional edge answered."""
    return [] if isinstance(routed, str) else [target for target in _targets(routed) if isinstance(target, Send)]


def requested_calls(message: Any) -> list[Mapping[str, Any]]:
    """List the tool calls that a message asks for, each with `name`, `args` and `id`."""
    return list(message.tool_calls) if is_kind_of(type(message), AIMessage) else []


def answered_call(message: Any) -> str | None:
    """Return which tool call *message* answers. Only a tool's is asked: others take 5 us to say that they have none."""
    if type(message) is dict:
        return text_or_none(message.get("tool_call_id")) if is_message(message) else None
    return message.tool_call_id if is_kind_of(type(message), ToolMessage) else None


def as_tool_message(message: Any) -> Any:
    """Make a tool's answer that was written as a dict the message it stands for; all else stays as it is."""
    if not isinstance(message, dict) or answered_call(message) is None:
        return message
    return ToolMessage(
        content_text(message["content"]),
        tool_call_id=message["tool_call_id"],
        name=text_or_none(message.get("name")),
        status="error" if message.get("status") == "error" else "success",
    )


def find_handed_back(messages: Sequence[Any], calls: Collection[str]) -> list[Any]:
    """Find the answers to *calls* in messages that hold the conversation up to where these were asked for, too.

    So does what LangGraph's documented handoff tool returns: the whole state, and its answer at the end.

    Returns:
        The answers; nothing where the messages do not hold who asked.
    """
    asked = any(call.get("id") in calls for message in messages for call in requested_calls(message))
    return [message for message in messages if answered_call(message) in calls] if asked else []


def open_calls(node_input: NodeInput) -> dict[str, tuple[Mapping[str, Any], str | None]]:
    """Find the tool calls that a node was started to execute: asked for, and not answered.

    They stand in the last messages of its state, or are what was sent to it (`Send` of a call, as
    prebuilt agents do).

    Returns:
        By call id: the call, and the name on the message that asks, if any.
    """
    if type(node_input.raw) is list and node_input.raw and all(map(_is_call, node_input.raw)):
        return {call["id"]: (call, None) for call in node_input.raw}
    if node_input.rest.get("__type") == _TOOL_CALL_WITH_CONTEXT:
        call = node_input.rest.get("tool_call")
        if isinstance(call, Mapping) and call.get("id"):
            return {call["id"]: (call, None)}
    answered: set[str] = set()
    for message in reversed(node_input.messages):
        if (answer_to := answered_call(message)) is not None:
            answered.add(answer_to)
        elif is_kind_of(type(message), AIMessage):
            calls = message.tool_calls
            if not calls:
                return {}
            return {c["id"]: (c, message.name) for c in calls if c.get("id") and c["id"] not in answered}
        else:
            return {}
    return {}


def _is_call(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") == "tool_call" and bool(item.get("id"))


def task_of(inputs: Any, lost: Lost | None = None) -> list[Message]:
    """Read what a graph was asked: the messages from the last user message on, else its whole input as text."""
    if inputs is None:
        return []
    if isinstance(inputs, Command):
        inputs = _answers(inputs.resume) if inputs.resume is not None else inputs.update
        return [value_message("user", inputs, lost)] if inputs is not None else []
    node_input = read_input(inputs)
    if isinstance(node_input.rest.get("messages"), str):
        return [Message.of_text("user", node_input.rest["messages"])]
    messages: list[Message] = []
    for item in reversed(node_input.messages):
        messages.insert(0, to_message(item))
        if messages[0].role == "user":
            break
    if messages:
        return messages
    if VALUE in node_input.rest or not node_input.rest:
        return [value_message("user", inputs, lost)]
    return [task_message(node_input.rest, lost)]


def _answers(resume: Any) -> Any:
    """Read answers given by the id of the interrupt: the ids say nothing to anybody."""
    if type(resume) is not dict or not all(isinstance(key, str) and _INTERRUPT_ID.fullmatch(key) for key in resume):
        return resume
    answers = list(resume.values())
    return answers[0] if len(answers) == 1 else answers


_INTERRUPT_ID = re.compile("[0-9a-f]{32}")


def answer_of(output: Any, lost: Lost | None = None) -> list[Message]:
    """Read what a graph gave back: its last message, else its whole output as text."""
    if output is None:
        return []
    node_input = read_input(output)
    if node_input.messages:
        return [to_message(node_input.messages[-1])]
    return [value_message("assistant", output, lost)]


def interrupt_value(error: GraphInterrupt) -> Any:
    """Read what an interrupted node asks for: the one value, a text of all texts, or the list of all values."""
    values = _asked_values(error)
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) == len(values):
        return "\n".join(texts)
    return values[0] if len(values) == 1 else values


def interrupt_text(error: GraphInterrupt) -> str:
    """Write what an interrupted node asks for."""
    return "\n".join(map(as_text, _asked_values(error)))


def _asked_values(error: GraphInterrupt) -> list[Any]:
    interrupts = error.args[0] if error.args else ()
    listed = interrupts if isinstance(interrupts, Sequence) else [interrupts]
    return [getattr(interrupt, "value", interrupt) for interrupt in listed]


def tool_answer(output: Any, call_id: str | None = None, lost: Lost | None = None) -> tuple[str, str | None, list[str]]:
    """Read what a tool gave back.

    Args:
        output: What it returned or raised.
        call_id: The call it answers: a handoff tool may return the answers to earlier ones as well.
        lost: Called with what of it could not be written.

    Returns:
        Its text, `error.type` if it is an error, and the nodes it sends the run to (a handoff tool).
    """
    if isinstance(output, BaseException):
        return as_text(output, lost), type(output).__qualname__, []
    if isinstance(output, ToolMessage):
        return content_text(output.content), TOOL_ERROR if output.status == "error" else None, []
    if isinstance(output, Command):
        update = read_update(output)
        written = [*update.messages, *(message for sent in update.sends for message in read_input(sent.arg).messages)]
        answers = [as_tool_message(message) for message in written if answered_call(message) is not None]
        answers = [message for message in answers if answered_call(message) == call_id] or answers
        texts = [message_text(message) for message in answers] or [as_text(output.update, lost)]
        failed = any(message.status == "error" for message in answers)
        return "\n".join(texts), TOOL_ERROR if failed else None, update.goto
    return as_text(output, lost), None, []


def _is_final(output: object) -> bool:
    """Check for what an entrypoint returns and saves apart; who has one has imported the functional API."""
    entrypoint = getattr(sys.modules.get("langgraph.func"), "entrypoint", None)
    return entrypoint is not None and isinstance(output, entrypoint.final)
