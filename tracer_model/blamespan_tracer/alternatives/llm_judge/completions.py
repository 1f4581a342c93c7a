"""What a server of the OpenAI protocol sends back, read strictly: the text of one answer, or why there is none."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_VERDICT = re.compile(r'"failed"\s*:\s*(true|false)')
_MOST_TOKENS = 10**9


class Unreadable(Exception):
    """An answer came that does not count; the message says why, in our own words."""


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """Tokens of one answered question, as the server counts them."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered.

    Attributes:
        text: Its text.
        chance_failed: The chance it gave, going by its tokens, that `failed` is true; None where the server does not
            tell, or there is no such word in the answer.
    """

    text: str
    chance_failed: float | None = None


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


def read_completion(body: bytes) -> Completion:
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
    return Completion(text, _read_failure_probability(text, choices))


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


def _read_failure_probability(text: str, choices: list[dict[str, Any]]) -> float | None:
    """Add up the chances of the tokens that say true and false where the answer says one of them."""
    matches = list(_VERDICT.finditer(text))
    if len(matches) != 1:
        return None
    try:
        tokens = [token for choice in choices for token in (choice.get("logprobs") or {}).get("content") or ()]
        if "".join(token["token"] for token in tokens) != text:
            return None
        at = 0
        for token in tokens:
            if at <= matches[0].start(1) < at + len(token["token"]):
                return _probability_of_true([token, *(token.get("top_logprobs") or ())])
            at += len(token["token"])
    except (LookupError, TypeError, AttributeError, ValueError):
        return None
    return None


def _probability_of_true(candidates: list[Mapping[str, Any]]) -> float | None:
    chances = {"true": 0.0, "false": 0.0}
    for token, logprob in {candidate["token"]: candidate["logprob"] for candidate in candidates}.items():
        word = token.strip(' ":\n\t').casefold()
        for value in chances:
            if word and value.startswith(word):
                chances[value] += math.exp(min(float(logprob), 0.0))
    total = sum(chances.values())
    return chances["true"] / total if total > 0 else None
