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
from blamespan_integrations.importers._records import JsonValue, read_each, value_groups

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
            yield from read_each([(str(path), python)], lambda group: (_run(*group),))
            return
        groups = value_groups(path, _EXPECTED, _messages_in, MAX_STEPS)
        yield from read_each(groups, lambda group: (_run(*group),))


def _run(source: str, messages: object) -> RecordedRun:
    conversation = Conversation(source)
    for number, message in enumerate(check_messages(messages, source)):
        if is_chat_message(message):
            add_chat_message(conversation, message, f"{source} message {number}")
        else:
            add_history_message(conversation, message)
    return RecordedRun(source, conversation.trace("autogen"))


def _messages_in(item: JsonValue) -> Any:
    """Find the messages of a result, a state or a list; None where the value is a message itself."""
    value = item.value
    if isinstance(value, list):
        return value
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
