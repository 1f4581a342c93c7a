"""The GenAI message JSON schemas of the semantic conventions v0.1.0, strictly: what a value breaks, in words.

Source: `gen-ai-input-messages.json`, `gen-ai-output-messages.json` and the models they are generated from.
A field of our own is allowed only where the schema leaves parts open, and only by its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai
from opentelemetry.semconv.attributes import error_attributes

from blamespan import conventions as words
from blamespan.spans import Span

ROLES = {"system", "user", "assistant", "tool"}
TEXT, ANYTHING, TEXT_OR_NONE = (str,), (str, dict, list, int, float, bool), (str, type(None))
PARTS: dict[str, dict[str, tuple[type, ...]]] = {
    "text": {"content": TEXT},
    "reasoning": {"content": TEXT},
    "tool_call": {"name": TEXT, "arguments": ANYTHING},
    "tool_call_response": {"response": ANYTHING},
    "blob": {"modality": TEXT, "content": TEXT},
    "file": {"modality": TEXT, "file_id": TEXT},
    "uri": {"modality": TEXT, "uri": TEXT},
}
OPTIONAL: dict[str, tuple[type, ...]] = {"id": TEXT_OR_NONE, "mime_type": TEXT_OR_NONE, "size_bytes": (int,)}
KEYS = {value for name, value in vars(gen_ai).items() if name.startswith("GEN_AI_")} | {error_attributes.ERROR_TYPE}
OURS = {value for name, value in vars(words).items() if isinstance(value, str) and value.startswith("blamespan.")}
OPERATIONS = {operation.value for operation in gen_ai.GenAiOperationNameValues}
DEPRECATED = {gen_ai.GEN_AI_SYSTEM, gen_ai.GEN_AI_PROMPT, gen_ai.GEN_AI_COMPLETION}
DEPRECATED |= {gen_ai.GEN_AI_WORKFLOW_NAME, gen_ai.GEN_AI_AGENT_ID}  # of spans of agents in the program: v0.1.0


def violations(span: Span, *, own: tuple[str, ...] = ()) -> list[str]:
    """List what of *span* no released convention and no word of ours allows; *own* are an integration's prefixes."""
    return list(_violations(span, own))


def _violations(span: Span, own: tuple[str, ...]) -> Iterator[str]:
    for key in span.attributes:
        if key in DEPRECATED or not (key in KEYS or key in OURS or key.startswith(own or ("\0",))):
            yield f"{span.name}: unknown key {key}"
    if span.attributes.get(words.OPERATION) not in OPERATIONS:
        yield f"{span.name}: unknown operation {span.attributes.get(words.OPERATION)}"
    for key in (words.INPUT_MESSAGES, words.OUTPUT_MESSAGES):
        if key in span.attributes:
            yield from (f"{span.name}: {key}: {wrong}" for wrong in _messages(span.attributes[key]))


def _messages(value: object) -> Iterator[str]:
    def refuse(word: str) -> Any:
        raise ValueError(f"not JSON: {word}")

    messages = json.loads(str(value), parse_constant=refuse)
    if not isinstance(messages, list):
        yield f"no list: {value!r}"
        return
    for message in messages:
        if message.get("role") not in ROLES:
            yield f"role {message.get('role')!r}"
        if not isinstance(message.get("name", ""), str):
            yield f"name {message['name']!r}"
        if extra := set(message) - {"role", "name", "parts"}:
            yield f"fields {extra}"
        for part in message["parts"]:
            yield from _part(part)


def _part(part: dict[str, Any]) -> Iterator[str]:
    required = PARTS.get(part.get("type", ""))
    if required is None:
        yield f"part type {part.get('type')!r}"
        return
    for field, types in required.items():
        if not isinstance(part.get(field), types):
            yield f"{part['type']}.{field} is {part.get(field)!r}"
    for field in set(part) - set(required) - {"type"}:
        if field not in OPTIONAL or not isinstance(part[field], OPTIONAL[field]):
            yield f"{part['type']} has {field}={part[field]!r}"
