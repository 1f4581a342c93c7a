"""What a model is called and what it answers, as our records. Pure.

`Any` stands for what LangChain passes on as providers give it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from langchain_core.outputs import LLMResult

from blamespan.rebuilding.messages import Message
from blamespan.trace import Usage
from blamespan_integrations.langgraph._messages import text_or_none, to_message

__all__ = ["ChatAnswer", "chat_answer", "fallback_name", "model_name"]


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """What a model answered."""

    messages: tuple[Message, ...]
    usage: Usage | None
    finish_reasons: tuple[str, ...]
    model: str | None


def chat_answer(result: LLMResult) -> ChatAnswer:
    """Read the answer of a chat model, or of a plain text model."""
    generations = [generation for batch in result.generations for generation in batch]
    raw = [getattr(generation, "message", None) for generation in generations]
    messages = [
        to_message(message) if message is not None else Message.of_text("assistant", generation.text)
        for message, generation in zip(raw, generations, strict=True)
    ]
    said = result.llm_output or {}
    reasons = [
        reason
        for message, generation in zip(messages, generations, strict=True)
        if (reason := message.finish_reason or text_or_none((generation.generation_info or {}).get("finish_reason")))
    ]
    metadata: Mapping[str, Any] = next((m.response_metadata for m in raw if m is not None and m.response_metadata), {})
    model = metadata.get("model_name") or metadata.get("model") or said.get("model_name")
    return ChatAnswer(tuple(messages), _usage(raw, said), tuple(reasons), text_or_none(model))


def _usage(messages: Iterable[Any], said: Mapping[str, Any]) -> Usage | None:
    counted = [found for message in messages if (found := getattr(message, "usage_metadata", None))]
    if counted:
        return Usage(sum(c.get("input_tokens", 0) for c in counted), sum(c.get("output_tokens", 0) for c in counted))
    tokens = said.get("token_usage") or said.get("usage")
    if not isinstance(tokens, Mapping):
        return None
    read = tokens.get("prompt_tokens", tokens.get("input_tokens"))
    written = tokens.get("completion_tokens", tokens.get("output_tokens"))
    return None if read is None and written is None else Usage(int(read or 0), int(written or 0))


def model_name(serialized: Mapping[str, Any] | None, metadata: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    """Find the model's name: what LangChain says of it, the call's parameters, else the class's name."""
    candidates = [metadata.get("ls_model_name"), *(asked.get(key) for key in ("model", "model_name", "model_id"))]
    named = next((value for value in candidates if isinstance(value, str) and value), None)
    return named or fallback_name(serialized, "model")


def fallback_name(serialized: Mapping[str, Any] | None, otherwise: str) -> str:
    """Read the name off what LangChain serialized of a tool or model."""
    found = (serialized or {}).get("name")
    path = (serialized or {}).get("id")
    last = path[-1] if isinstance(path, list) and path else None
    return next((value for value in (found, last) if isinstance(value, str) and value), otherwise)
