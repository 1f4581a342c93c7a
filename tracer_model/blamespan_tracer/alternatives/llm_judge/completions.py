"""What a server of the OpenAI protocol sends back, read strictly: the text of one answer, or why there is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
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
    documents = reversed(_parse_documents(body))
    usage = next((document["usage"] for document in documents if isinstance(document.get("usage"), dict)), None)
    if usage is None:
        return None
    counts = [usage.get("prompt_tokens"), usage.get("completion_tokens")]
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < _MOST_TOKENS for n in counts):
        return None
    return TokenUsage(int(counts[0]), int(counts[1]))


def read_completion(body: bytes) -> str:
    """Read the text of an answer, streamed or not.

    Raises:
        Unreadable: if there is none, or not all of it.
    """
    documents = _parse_documents(body)
    try:
        choices = [document["choices"][0] for document in documents if document.get("choices")]
        parts = [choice.get("message") or choice.get("delta") or {} for choice in choices]
        text = "".join(_join_texts(part.get("content")) for part in parts)
        ends = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
        refusal = any(part.get("refusal") for part in parts)
        is_stream = any("delta" in choice for choice in choices)
        is_called = not text.strip() and any(part.get("tool_calls") for part in parts)
    except (LookupError, TypeError, AttributeError) as error:
        raise Unreadable("it is no chat completion") from error
    if any(document.get("error") for document in documents):
        raise Unreadable("the server sent an error in its place")
    if is_called:
        raise Unreadable("it calls a tool instead")
    if refusal or "content_filter" in ends:
        raise Unreadable("the model declined to answer")
    if "length" in ends:
        raise Unreadable("it is cut off at the most tokens an answer may have")
    if is_stream and not ends and not body.rstrip().endswith(b"[DONE]"):
        raise Unreadable("the stream ended before the answer did")
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


def _parse_documents(body: bytes) -> list[dict[str, Any]]:
    """Read one JSON object, or those of a stream of server-sent events that nobody asked for."""
    try:
        text = body.decode("utf-8")
        if text.lstrip().startswith(("data:", ":", "event:", "id:")):
            documents = [json.loads(line) for line in _iter_events(text)]
        else:
            documents = [json.loads(text)]
    except (ValueError, RecursionError) as error:
        raise Unreadable("it is no JSON") from error
    if not documents or not all(isinstance(document, dict) for document in documents):
        raise Unreadable("it is no chat completion")
    return documents


def _iter_events(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if data and data != "[DONE]":
            yield data
