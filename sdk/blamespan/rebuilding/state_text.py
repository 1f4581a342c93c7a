"""A graph's state as text for people and tracers: `plan: ask the clerk` in place of `{"plan": "ask the clerk"}`.

Values that a program wraps in JSON only because a state has keys are unwrapped here, once for what is recorded, for
spans of other instrumentations and for files. What a model or a tool wrote as JSON is data, and stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_MESSAGE_KINDS = frozenset(
    {"human", "user", "ai", "assistant", "AIMessageChunk", "system", "developer", "tool", "function"}
)
"""Types and roles of messages, as LangChain and OpenAI write them."""
_MESSAGE_KEY = "messages"
"""The key of a state whose name says nothing: it is what every graph calls its messages."""
_TASK_KEYS = (
    *("task", "question", "query", "input", "user_input", "request", "user_request", "prompt", "goal", "objective"),
    *("instruction", "instructions", "problem", "topic"),
)
"""Keys under which programs put what a run is to do, the most telling first."""
_MAX_DEPTH = 8
"""What nests deeper is shown as JSON."""


def state_text(value: Any) -> str:
    """Write a JSON value as text: a text as it is, a state as its lines, a list of texts as one line for each."""
    return _text(value, 0)


def state_lines(state: Mapping[str, Any]) -> list[str]:
    """Write each value of *state* as a text of its own, in order: `key: value`; messages without their key."""
    return [_entry(key, value, 0) for key, value in state.items()]


def task_lines(state: Mapping[str, Any]) -> list[str]:
    """Write the state that a run was given: what it is to do comes first, without its key; what is empty is left out.

    Args:
        state: Its values, as JSON holds them.
    """
    return [state_text(value) if is_bare else _entry(key, value, 0) for key, value, is_bare in task_entries(state)]


def task_entries(state: Mapping[str, Any]) -> list[tuple[str, Any, bool]]:
    """List the values of a state that a run was given as `task_lines` writes them: key, value, whether without key."""
    entries = {key: value for key, value in state.items() if value not in (None, "", [], {})} or dict(state)
    texts = [key for key, value in entries.items() if isinstance(value, str)]
    task = next((key for task_key in _TASK_KEYS for key in texts if key.lower() == task_key), None)
    if task is None and len(entries) == 1 and texts:
        task = texts[0]
    first = [] if task is None else [(task, entries.pop(task), True)]
    return [*first, *((key, value, False) for key, value in entries.items())]


def _entry(key: str, value: Any, depth: int) -> str:
    text = _text(value, depth + 1)
    if key == _MESSAGE_KEY and isinstance(value, list) and all(_message(item) is not None for item in value):
        return text
    if isinstance(value, Mapping) and "\n" in text:
        text = f"  {_indent(text)}"
    return f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"


def _text(value: Any, depth: int) -> str:
    if isinstance(value, str):
        return value
    if depth > _MAX_DEPTH or not value:
        return _compact(value)
    if isinstance(value, Mapping):
        message_text = _message(value)
        return (
            message_text
            if message_text is not None
            else "\n".join([_entry(str(key), item, depth) for key, item in value.items()])
        )
    if isinstance(value, Sequence):
        return _list(value, depth)
    return _compact(value)


def _list(items: Sequence[Any], depth: int) -> str:
    """Write a list: numbers in one line, one text by itself, several things in a line each."""
    if all(item is None or isinstance(item, bool | int | float) for item in items):
        return json.dumps(items, ensure_ascii=False)
    texts = [_text(item, depth + 1) for item in items]
    if len(texts) == 1:
        return texts[0]
    are_messages = all(_message(item) is not None for item in items)
    if are_messages:
        return "\n".join(texts)
    return "\n".join(
        [f"- {_indent(text) if isinstance(item, Mapping) else text}" for item, text in zip(items, texts, strict=True)]
    )


def _indent(text: str) -> str:
    return text.replace("\n", "\n  ")


def _message(item: Any) -> str | None:
    """Read the text of a message that was written as JSON; None where it is none."""
    if not isinstance(item, Mapping):
        return None
    if item.get("type") == "constructor" and isinstance(item.get("kwargs"), Mapping):
        item = {"type": "ai", **item["kwargs"]}
    elif isinstance(item.get("data"), Mapping) and item.get("type") in _MESSAGE_KINDS:
        item = {"type": item["type"], **item["data"]}
    content = item.get("content")
    kind = item.get("role", item.get("type"))
    if not isinstance(kind, str) or kind not in _MESSAGE_KINDS:
        return None
    if isinstance(content, list):
        content = "\n".join(_blocks(content))
    if not isinstance(content, str):
        return None
    calls = item.get("tool_calls")
    return "\n".join([*([content] if content else []), *_calls(calls if isinstance(calls, list) else ())])


def _blocks(content: Iterable[Any]) -> list[str]:
    texts = [block.get("text") if isinstance(block, Mapping) else block for block in content]
    return [text for text in texts if isinstance(text, str) and text]


def _calls(calls: Iterable[Any]) -> list[str]:
    return [
        f"{call['name']}({_compact(call.get('args', {}))})"
        for call in calls
        if isinstance(call, Mapping) and isinstance(call.get("name"), str)
    ]


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
