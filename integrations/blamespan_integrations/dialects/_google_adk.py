"""Google's ADK before it wrote contents by the conventions: Gemini's requests and answers in its own attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from blamespan import conventions as words
from blamespan.dialects import SpanReading
from blamespan.genai_messages import Message, Part
from blamespan.spans import Span
from blamespan_integrations.dialects._values import mappings, parse_structure, tokens

SCOPE = "gcp.vertex.agent"
TOOL_ARGUMENTS = f"{SCOPE}.tool_call_args"
TOOL_RESULT = f"{SCOPE}.tool_response"
_REQUEST = f"{SCOPE}.llm_request"
_RESPONSE = f"{SCOPE}.llm_response"


def read(span: Span) -> SpanReading | None:
    """Read a span that says what it is by its name; None where it is one by the conventions."""
    if span.name == "invocation":
        return SpanReading(role="run")
    if span.name == "call_llm":
        return _model(span)
    is_twin = span.text(words.OPERATION) == "generate_content" and "gen_ai.system" in span.attributes
    return SpanReading() if is_twin else None  # within `call_llm`, which says the same and more


def _model(span: Span) -> SpanReading:
    request = parse_structure(span.attributes.get(_REQUEST))
    response = parse_structure(span.attributes.get(_RESPONSE))
    contents = request.get("contents") if isinstance(request, Mapping) else None
    config = request.get("config") if isinstance(request, Mapping) else None
    instruction = config.get("system_instruction") if isinstance(config, Mapping) else None
    answer = response.get("content") if isinstance(response, Mapping) else None
    return SpanReading(
        role="model",
        name=span.text(words.REQUEST_MODEL) or "",
        instructions=[Message.of_text("system", instruction)] if isinstance(instruction, str) else (),
        inputs=[message for content in mappings(contents) for message in _messages(content)],
        outputs=list(_messages(answer)) if isinstance(answer, Mapping) else (),
        usage=tokens(span, (words.INPUT_TOKENS, words.OUTPUT_TOKENS)),
    )


def _messages(content: Mapping[str, Any]) -> Iterator[Message]:
    parts = [part for given in mappings(content.get("parts")) for part in _part(given)]
    if parts:
        is_answer = all(part["type"] == "tool_call_response" for part in parts)
        role = "assistant" if content.get("role") == "model" else "tool" if is_answer else "user"
        yield Message(role, tuple(parts))


def _part(part: Mapping[str, Any]) -> Iterator[Part]:
    call, answer = part.get("function_call"), part.get("function_response")
    if isinstance(call, Mapping):
        yield {"type": "tool_call", "name": str(call.get("name")), "arguments": call.get("args", {})}
    elif isinstance(answer, Mapping):
        yield {"type": "tool_call_response", "name": str(answer.get("name")), "response": answer.get("response")}
    elif isinstance(part.get("text"), str):
        yield {"type": "text", "content": part["text"]}
