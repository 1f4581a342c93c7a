"""Microsoft Agent Framework's messages as JSON: an agent's response, a workflow's conversation, or message by message.

Its spans are OpenTelemetry's, and read by `otlp-json` and `otlp-proto`. Source: agent-framework-core 1.23, `_types.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import MessageActionTrace
from blamespan_integrations.dialects._values import as_text
from blamespan_integrations.importers._conversation import MAX_STEPS, Conversation
from blamespan_integrations.importers._records import JsonValue, read_each, value_groups

_CONTENTS = re.compile(rb'"contents"\s*:\s*\[')
_OWN = re.compile(rb'"author_name"\s*:|"type"\s*:\s*"(agent_response|agent_run_response|chat_message)"')
_UNNAMED = "agent"


class AgentFrameworkImporter:
    """Reads conversations of Agent Framework's agents."""

    name = "agent-framework"
    description = "Agent Framework messages (response, conversation, lines); loses times, tokens and who was addressed"

    def matches(self, path: Path, head: bytes) -> bool:
        """Check the keys of the first message."""
        del path
        is_json = head.lstrip()[:1] in (b"{", b"[")
        return is_json and bool(_CONTENTS.search(head) and _OWN.search(head)) and b'"role"' in head

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run, or the error in its place.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        groups = value_groups(path, "messages of Agent Framework", _messages_in, MAX_STEPS)
        return read_each(groups, lambda group: (RecordedRun(group[0], _conversation(*group)),))


def _messages_in(item: JsonValue) -> Any:
    """Find the messages of a response or a list; None where the value is a message itself."""
    value = item.value
    if isinstance(value, Mapping) and "messages" in value:
        return value["messages"]
    return value if isinstance(value, list) else None


def _conversation(source: str, group: object) -> MessageActionTrace:
    conversation = Conversation(source)
    for index, message in enumerate(group if isinstance(group, list) else [group]):
        if not isinstance(message, Mapping) or not isinstance(message.get("contents"), list):
            raise UnreadableInput(
                f"{source}: expected a message with 'role' and 'contents' at place {index}, got {str(message)[:60]!r}. "
                "Correct it or remove it."
            )
        _add(conversation, message)
    return conversation.trace("agent-framework")


def _add(conversation: Conversation, message: Mapping[str, Any]) -> None:
    record = message.get("role")
    role = as_text(record.get("value") if isinstance(record, Mapping) else record)
    author_name = message.get("author_name")
    author = author_name if isinstance(author_name, str) and author_name else ""
    for content in message["contents"]:
        kind = content.get("type") if isinstance(content, Mapping) else None
        if kind == "text" and role in ("user", "system"):
            if role == "user" and not len(conversation):
                conversation.tasks.append(as_text(content.get("text")))
            elif role == "user":
                conversation.join(author or "user", "agent" if author else "user")
                conversation.say(author or "user", as_text(content.get("text")))
        elif kind == "text":
            conversation.say(author or _UNNAMED, as_text(content.get("text")))
        elif kind == "text_reasoning":
            conversation.say(author or _UNNAMED, as_text(content.get("text")), kind="plan")
        elif kind == "function_call":
            name, arguments = as_text(content.get("name")), as_text(content.get("arguments"))
            conversation.call(author or _UNNAMED, name, arguments, call_id=as_text(content.get("call_id")))
        elif kind == "function_result":
            failed = bool(content.get("exception"))
            text = as_text(content.get("exception") if failed else content.get("result"))
            conversation.answer(author or _UNNAMED, text, call_id=as_text(content.get("call_id")), is_error=failed)
