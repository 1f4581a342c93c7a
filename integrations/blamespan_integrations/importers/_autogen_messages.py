"""What one message of AutoGen's, as JSON, adds to a conversation: of AgentChat 0.4 and later, and of AutoGen 0.2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.trace import StepKind, Usage
from blamespan_integrations.dialects._values import as_text, number
from blamespan_integrations.importers._conversation import Conversation
from blamespan_integrations.importers._span_values import nanoseconds

_SILENT = {
    "ModelClientStreamingChunkEvent",
    "SelectSpeakerEvent",
    "SelectorEvent",
    "UserInputRequestedEvent",
}
"""Events that say nothing of their own: pieces of a later message, or who is to speak next."""
_KINDS: Mapping[str, StepKind] = {
    "HandoffMessage": "handoff",
    "MemoryQueryEvent": "memory",
    "StopMessage": "termination",
    "ThoughtEvent": "plan",
}
_USERS = frozenset({"user", "user_proxy", "userproxy", "human", "main"})
_EXECUTORS = frozenset(
    {"executor", "code_executor", "code_execution_error", "code_execution_success", "computer_terminal"}
)
_EXECUTED = "exitcode: "
"""How AutoGen 0.2 begins the output of code that it ran."""


def is_chat_message(value: object) -> bool:
    """Return whether a value is a message or event of AgentChat."""
    return isinstance(value, Mapping) and isinstance(value.get("source"), str) and "type" in value


def is_history_message(value: object) -> bool:
    """Return whether a value is a message of AutoGen 0.2, or of whoever writes them alike."""
    return isinstance(value, Mapping) and isinstance(value.get("role"), str) and "content" in value


def add_chat_message(conversation: Conversation, message: Mapping[str, Any], location: str) -> None:
    """Add a message or event of AgentChat; what the user says before anybody else is the task.

    Raises:
        UnreadableInput: if its time is none.
    """
    source, kind, content = str(message["source"]), str(message.get("type")), message.get("content")
    created = message.get("created_at")
    time_ns = nanoseconds(created, location) if created else 0
    usage = _usage(message.get("models_usage"))
    is_user = source.casefold() in _USERS
    if kind in _SILENT:
        return
    if is_user and not len(conversation):
        conversation.tasks.append(_text(content))
    elif kind == "ToolCallRequestEvent" and isinstance(content, list):
        _add_calls(conversation, source, content, usage, time_ns)
    elif kind == "ToolCallExecutionEvent" and isinstance(content, list):
        for answer in content:
            if isinstance(answer, Mapping):
                text, call_id = as_text(answer.get("content")), str(answer.get("call_id") or "")
                conversation.answer(
                    source, text, call_id=call_id, time_ns=time_ns, is_error=answer.get("is_error") is True
                )
    elif kind == "CodeExecutionEvent":
        result = message.get("result")
        output = result if isinstance(result, Mapping) else {}
        conversation.execute(
            source, as_text(output.get("output")), time_ns=time_ns, is_error=bool(output.get("exit_code"))
        )
    else:
        conversation.join(source, "user" if is_user else "agent")
        target = message.get("target")
        recipients = (target,) if kind == "HandoffMessage" and isinstance(target, str) else ()
        step_kind = _KINDS.get(kind, "message")
        conversation.say(source, _text(content), kind=step_kind, recipients=recipients, usage=usage, time_ns=time_ns)


def add_history_message(conversation: Conversation, message: Mapping[str, Any]) -> None:
    """Add a message of AutoGen 0.2; its first, of the user, is the task."""
    role, content = str(message["role"]), _text(message.get("content"))
    name = message.get("name")
    speaker = name if isinstance(name, str) and name else role
    folded = speaker.casefold()
    if not len(conversation) and not conversation.tasks and (folded in _USERS or role == "user"):
        conversation.tasks.append(content)
        return
    if role == "system":
        return
    responses = message.get("tool_responses")
    if role in ("tool", "function"):
        listed = responses if isinstance(responses, list) and responses else [message]
        for answer in listed:
            call_id = str(answer.get("tool_call_id") or "") if isinstance(answer, Mapping) else ""
            if isinstance(answer, Mapping) and (call_id or not name):
                conversation.answer(speaker, _text(answer.get("content")), call_id=call_id)
            else:
                conversation.execute(speaker, content)
        return
    if folded in _EXECUTORS or content.startswith(_EXECUTED):
        conversation.execute(
            speaker, content, is_error=content.startswith(_EXECUTED) and not content.startswith("exitcode: 0")
        )
        return
    conversation.join(speaker, "user" if folded in _USERS else "agent")
    calls = message.get("tool_calls")
    if content or not calls:
        conversation.say(speaker, content)
    if isinstance(calls, list):
        functions = [{**call["function"], "id": call.get("id")} for call in calls if _has_function(call)]
        _add_calls(conversation, speaker, functions, None, 0)


def _has_function(call: object) -> bool:
    return isinstance(call, Mapping) and isinstance(call.get("function"), Mapping)


def _add_calls(conversation: Conversation, agent: str, calls: list[Any], usage: Usage | None, time_ns: int) -> None:
    for call in calls:
        if isinstance(call, Mapping):
            name, arguments = str(call.get("name") or ""), as_text(call.get("arguments"))
            conversation.call(agent, name, arguments, call_id=str(call.get("id") or ""), usage=usage, time_ns=time_ns)
            usage = None  # one model call asked for all of them


def _text(content: object) -> str:
    """Write a content as text: of a list its texts, an image as what it is."""
    if not isinstance(content, list):
        return as_text(content)
    parts = [part.get("text", part) if isinstance(part, Mapping) else part for part in content]
    return "\n".join(as_text(part) for part in parts)


def _usage(usage: object) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    return Usage(number(usage.get("prompt_tokens")) or 0, number(usage.get("completion_tokens")) or 0)


def check_messages(messages: object, location: str) -> list[Mapping[str, Any]]:
    """Take a list of messages.

    Raises:
        UnreadableInput: if it is none, or one of them is none.
    """
    if not isinstance(messages, list):
        raise UnreadableInput(f"{location}: expected a list of messages, got {str(messages)[:60]!r}.")
    for index, message in enumerate(messages):
        if not is_chat_message(message) and not is_history_message(message):
            raise UnreadableInput(
                f"{location}: expected a message with 'source' and 'type', or 'role' and 'content', at place "
                f"{index}, got {str(message)[:60]!r}. Correct it or remove it."
            )
    return messages
