"""AutoGen's messages as JSON: a `TaskResult`, a list of messages, messages line by line, or a team's saved state.

Histories of AutoGen 0.2 are read too, and those of others in the same shape (`role`, `name`, `content`); as these are
often saved as Python writes a list, that is read where it holds nothing but literals.
Source: autogen-agentchat 0.7.5, `messages.py`, `base/_task.py`, `state`.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.files import head_of, read_bytes
from blamespan.importing.recorded import RecordedRun
from blamespan.json_text import MAX_NESTING, is_deep
from blamespan_integrations.importers._autogen_messages import (
    add_chat_message,
    add_history_message,
    check_messages,
    is_chat_message,
    is_history_message,
)
from blamespan_integrations.importers._conversation import MAX_STEPS, Conversation
from blamespan_integrations.importers._records import JsonValue, json_values

_EXPECTED = "messages of AutoGen"
_CHAT = re.compile(rb'"type"\s*:\s*"\w+(Message|Event)"|"message_thread"\s*:|"TeamState"|"stop_reason"\s*:')
_SOURCE = re.compile(rb'"(source|message_thread|agent_states)"\s*:')
_HISTORY = re.compile(rb'\s*+\[\s*+\{\s*+"(content|role|name|tool_calls)"\s*+:')
_PYTHON = re.compile(rb"\s*+\[\s*+\{\s*+'(content|role|name|tool_calls|source|id)'\s*+:")
_MAX_PYTHON_BYTES = 8 * 1024 * 1024
"""Python's own parser takes a hundred times the text's size."""


class AutoGenMessagesImporter:
    """Reads conversations of AutoGen teams."""

    name = "autogen-messages"
    description = (
        "AutoGen messages (TaskResult, list, lines, team state; histories of 0.2 as JSON or Python literals); "
        "loses who was addressed and the model calls"
    )

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys of the first message."""
        del path
        start = head.lstrip()[:65_536]
        if _PYTHON.match(start):
            return True
        if start[:1] not in (b"{", b"["):
            return False
        is_history = bool(_HISTORY.match(start)) and b'"role"' in start and b'"content"' in start and b'"name"' in start
        return is_history or bool(_SOURCE.search(start) and _CHAT.search(start) and b'"payload"' not in start[:4_096])

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run, or the error in its place.

        Raises:
            UnreadableInput: if the file cannot be opened, or is no list of literals where it is written as Python.
        """
        python = _as_python(path)
        if python is not None:
            yield _run(str(path), python)
            return
        for source, messages in _runs(path):
            yield messages if isinstance(messages, UnreadableInput) else _run(source, messages)


def _run(source: str, messages: object) -> RecordedRun | UnreadableInput:
    conversation = Conversation(source)
    try:
        for number, message in enumerate(check_messages(messages, source)):
            if is_chat_message(message):
                add_chat_message(conversation, message, f"{source} message {number}")
            else:
                add_history_message(conversation, message)
        return RecordedRun(source, conversation.trace("autogen"))
    except UnreadableInput as error:
        return error


def _runs(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the messages of each run: those of an object, of a list, or of all lines that are one message each."""
    loose: list[Any] = []
    group = -1
    location = str(path)
    for item in json_values(path, _EXPECTED):
        if isinstance(item, UnreadableInput):
            yield location, item
            continue
        if item.is_element and item.group != group and loose:
            yield location, loose
            loose = []
        group = item.group
        messages = _within(item)
        if messages is not None:
            yield item.location, messages
        elif isinstance(item.value, list):
            yield item.location, item.value
        else:
            location = location if loose else item.location
            if len(loose) <= MAX_STEPS:  # more is refused when the run is made
                loose.append(item.value)
    if loose:
        yield location, loose


def _within(item: JsonValue) -> Any:
    """Find the messages of a result or a state; None where the value is a message itself."""
    value = item.value
    if not isinstance(value, Mapping) or is_chat_message(value) or is_history_message(value):
        return None
    if "messages" in value:
        return value["messages"]
    states = value.get("agent_states")
    for state in states.values() if isinstance(states, Mapping) else ():
        if isinstance(state, Mapping) and "message_thread" in state:
            return state["message_thread"]
    return [value]  # no message: named as such


def _as_python(path: Path) -> Any:
    """Read a file that Python wrote down with `repr`; None where it is JSON.

    Raises:
        UnreadableInput: if it holds anything but literals, or too much.
    """
    if not _PYTHON.match(head_of(path)):
        return None
    text = read_bytes(path)
    if len(text) > _MAX_PYTHON_BYTES:
        raise UnreadableInput(
            f"{path}: expected Python literals of at most {_MAX_PYTHON_BYTES} bytes, got {len(text)}."
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # escapes that Python takes as they stand
            value = ast.literal_eval(text.decode("utf-8").strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise UnreadableInput(
            f"{path}: expected a list of messages as JSON or Python literals, got neither: {error}. "
            "Write it with json.dump."
        ) from error
    if is_deep(value):
        raise UnreadableInput(f"{path}: expected literals nested at most {MAX_NESTING} deep, got more.")
    return value
