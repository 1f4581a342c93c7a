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
from blamespan_integrations.importers._json_values import json_values

__all__ = ["AgentFrameworkImporter"]

_CONTENTS = re.compile(rb'"contents"\s*:\s*\[')
_OWN = re.compile(rb'"author_name"\s*:|"type"\s*:\s*"(agent_response|agent_run_response|chat_message)"')
_UNNAMED = "agent"


class AgentFrameworkImporter:
    """Reads conversations of Agent Framework's agents."""

    name = "agent-framework"
    description = "Agent Framework messages (response, conversation, lines); loses times, tokens and who was addressed"

    def matches(self, path: Path, head: bytes) -> bool:
        """Tell from the keys of the first message."""
        del path
        is_json = head.lstrip()[:1] in (b"{", b"[")
        return is_json and bool(_CONTENTS.search(head) and _OWN.search(head)) and b'"role"' in head

    def read(self, path: Path) -> Iterator[RecordedRun | UnreadableInput]:
        """Yield every run, or the error in its place.

        Raises:
            UnreadableInput: if the file cannot be opened.
        """
        for source, given in _runs(path):
            if isinstance(given, UnreadableInput):
                yield given
                continue
            try:
                yield RecordedRun(source, _conversation(source, given))
            except UnreadableInput as error:
                yield error


def _runs(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield each response, and each list of messages; messages on lines of their own are one run."""
    loose: list[Any] = []
    group, place = -1, str(path)
    for found in json_values(path, "messages of Agent Framework"):
        if isinstance(found, UnreadableInput):
            yield place, found
            continue
        if found.is_element and found.group != group and loose:
            yield place, {"messages": loose}
            loose = []
        group, value = found.group, found.value
        if isinstance(value, Mapping) and "messages" in value:
            yield found.place, value
        elif isinstance(value, list):
            yield found.place, {"messages": value}
        else:
            place = place if loose else found.place
            if len(loose) <= MAX_STEPS:  # more is refused when the run is made
                loose.append(value)
    if loose:
        yield place, {"messages": loose}


def _conversation(source: str, given: Mapping[str, Any]) -> MessageActionTrace:
    said = Conversation(source)
    messages = given["messages"] if isinstance(given["messages"], list) else [given["messages"]]
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("contents"), list):
            raise UnreadableInput(
                f"{source}: expected a message with 'role' and 'contents' at place {place}, got {str(message)[:60]!r}. "
                "Correct it or remove it."
            )
        _add(said, message)
    return said.trace("agent-framework")


def _add(said: Conversation, message: Mapping[str, Any]) -> None:
    given = message.get("role")
    role = as_text(given.get("value") if isinstance(given, Mapping) else given)
    named = message.get("author_name")
    author = named if isinstance(named, str) and named else ""
    for content in message["contents"]:
        kind = content.get("type") if isinstance(content, Mapping) else None
        if kind == "text" and role in ("user", "system"):
            if role == "user" and not len(said):
                said.tasks.append(as_text(content.get("text")))
            elif role == "user":
                said.join(author or "user", "agent" if author else "user")
                said.say(author or "user", as_text(content.get("text")))
        elif kind == "text":
            said.say(author or _UNNAMED, as_text(content.get("text")))
        elif kind == "text_reasoning":
            said.say(author or _UNNAMED, as_text(content.get("text")), kind="plan")
        elif kind == "function_call":
            name, arguments = as_text(content.get("name")), as_text(content.get("arguments"))
            said.call(author or _UNNAMED, name, arguments, call_id=as_text(content.get("call_id")))
        elif kind == "function_result":
            failed = bool(content.get("exception"))
            text = as_text(content.get("exception") if failed else content.get("result"))
            said.answer(author or _UNNAMED, text, call_id=as_text(content.get("call_id")), is_error=failed)
