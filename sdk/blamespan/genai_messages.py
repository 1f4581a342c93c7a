"""GenAI message JSON: what `gen_ai.input.messages` and `gen_ai.output.messages` hold.

Source: OpenTelemetry GenAI semantic conventions, message schema: a list of
`{"role", "name"?, "parts": [{"type", ...}]}`. A `finish_reason` beside them is deprecated since v0.1.0 and read only.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from blamespan.json_text import parse_json, text_or_json
from blamespan.trace import AttributeValue

Role: TypeAlias = Literal["system", "user", "assistant", "tool"]
Part: TypeAlias = Mapping[str, Any]  # the schema is open: any JSON object with a "type"


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `name` is the participant that wrote it, where several share a role."""

    role: str
    parts: Sequence[Part]
    name: str | None = None
    finish_reason: str | None = None

    @classmethod
    def of_text(cls, role: Role, content: str, *, name: str | None = None, finish_reason: str | None = None) -> Message:
        """Make a message of one text part."""
        return cls(role, ({"type": "text", "content": content},), name, finish_reason)


def dump_messages(messages: Iterable[Message]) -> str:
    """Write messages as the JSON string an attribute holds."""
    return json.dumps([_as_object(message) for message in messages], ensure_ascii=False, separators=(",", ":"))


def load_messages(value: AttributeValue) -> tuple[Message, ...] | None:
    """Read an attribute as messages: JSON text, or the list itself where it was kept structured.

    Returns:
        The messages, or None where the value is not what the schema says (cut off, another dialect).
    """
    objects = _objects(value)
    return None if objects is None else tuple([_from_object(item) for item in objects])


def text_of(value: AttributeValue) -> str:
    """Read the text of an attribute that holds messages: parts joined by line ends.

    A value that is not message JSON is read as plain text, so that nothing a program said is lost.
    """
    objects = _objects(value)
    if objects is None:
        return value if isinstance(value, str) else "" if value is None else json.dumps(value, default=str)
    texts = [text for message in objects for part in message["parts"] if (text := _part_text(part))]
    return "\n".join(texts)


def texts_of(value: AttributeValue) -> list[list[str]]:
    """Read the texts of each message, or of a list of parts, that an attribute holds; calls of tools are left out.

    A value that is neither is one message of one plain text, as in `text_of`.
    """
    return [texts for _, texts in texts_by_role(value)]


def texts_by_role(value: AttributeValue) -> list[tuple[str, list[str]]]:
    """Read what `texts_of` does, each message with its role; empty where it has none."""
    objects = _objects(value)
    if objects is not None:
        messages = [(str(message.get("role", "")), message["parts"]) for message in objects]
    else:
        parts = _parts_alone(value)
        if parts is None:
            text = text_of(value)
            return [("", [text])] if text else []
        messages = [("", parts)]
    texts = [
        (role, [_part_text(part) for part in parts if part.get("type") != "tool_call"]) for role, parts in messages
    ]
    return [(role, [text for text in message if text]) for role, message in texts if any(message)]


def _parts_alone(value: AttributeValue) -> Sequence[Part] | None:
    """Read a list of parts without a message around them, as `gen_ai.system_instructions` holds it."""
    document = _as_list(value)
    if document is None:
        return None
    return document if all(isinstance(part, _OBJECT) and "type" in part for part in document) else None


_OBJECT, _LIST, _TEXT = (dict, Mapping), (list, tuple, Sequence), (str, bytes)
"""What JSON's types are in Python, the commonest first: asking an abstract class takes ten times as long."""


def _objects(value: AttributeValue) -> Sequence[Mapping[str, Any]] | None:
    """Read an attribute as a list of objects that each have a list of objects as `parts`; None where it is none."""
    document = _as_list(value)
    if document is None:
        return None
    for item in document:
        parts = item.get("parts") if isinstance(item, _OBJECT) else None
        if not isinstance(parts, _LIST) or isinstance(parts, _TEXT):
            return None
        for part in parts:
            if not isinstance(part, _OBJECT):
                return None
    return cast("Sequence[Mapping[str, Any]]", document)


def _as_list(value: AttributeValue) -> Sequence[Any] | None:
    document: Any = value
    if isinstance(value, str):
        try:
            document = parse_json(value)
        except ValueError:
            return None
    return document if isinstance(document, _LIST) and not isinstance(document, _TEXT) else None


def _part_text(part: Part) -> str:
    kind = part.get("type")
    if kind == "tool_call":
        return f"{part.get('name', '')}({text_or_json(part.get('arguments', ''))})"
    if kind == "tool_call_response":
        return text_or_json(part.get("response", part.get("result", "")))
    return text_or_json(part.get("content", ""))


def _as_object(message: Message) -> dict[str, Any]:
    json_object: dict[str, Any] = {"role": message.role}
    if message.name is not None:
        json_object["name"] = message.name
    json_object["parts"] = [dict(part) for part in message.parts]
    if message.finish_reason is not None:
        json_object["finish_reason"] = message.finish_reason
    return json_object


def _from_object(item: Mapping[str, Any]) -> Message:
    name, reason = item.get("name"), item.get("finish_reason")
    return Message(
        role=str(item.get("role", "")),
        parts=tuple(item["parts"]),
        name=name if isinstance(name, str) else None,
        finish_reason=reason if isinstance(reason, str) else None,
    )
