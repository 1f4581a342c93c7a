"""What a server of the OpenAI protocol sends back, read strictly: the text of one answer, or why there is none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_MOST_TOKENS = 10**9


class Unreadable(Exception):
    """An answer came that does not count; the message says why, in our own words."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one answered question, as the server counts them."""

    input_tokens: int
    output_tokens: int


def read_usage(body: bytes) -> TokenUsage | None:
    """Read what an answer cost, where the server says it."""
    usage = _parse(body).get("usage")
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")] if isinstance(usage, dict) else []
    known = [n for n in counts if type(n) is int and 0 <= n < _MOST_TOKENS]
    return TokenUsage(*known) if len(known) == 2 else None


def read_completion(body: bytes) -> str:
    """Read the text of an answer.

    Raises:
        Unreadable: if there is none, or not all of it.
    """
    document = _parse(body)
    if document.get("error"):
        raise Unreadable("the server sent an error in its place")
    try:
        choice = document["choices"][0] if document.get("choices") else {}
        message = choice.get("message") or {}
        text = _join_texts(message.get("content"))
        is_called = not text.strip() and bool(message.get("tool_calls"))
        is_declined = bool(message.get("refusal")) or choice.get("finish_reason") == "content_filter"
    except (LookupError, TypeError, AttributeError) as error:
        raise Unreadable("it is no chat completion") from error
    if is_called:
        raise Unreadable("it calls a tool instead")
    if is_declined:
        raise Unreadable("the model declined to answer")
    if choice.get("finish_reason") == "length":
        raise Unreadable("it is cut off at the most tokens an answer may have")
    if not text.strip():
        raise Unreadable("it is empty")
    return text


def _join_texts(content: object) -> str:
    """Join the texts of a content; where it is a list of parts, those that are no text, as thoughts, are left out."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    if content is not None and not isinstance(content, str):
        raise TypeError(content)
    return content or ""


def _parse(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Unreadable("it is no JSON") from error
    if not isinstance(document, dict):
        raise Unreadable("it is no chat completion")
    return document
