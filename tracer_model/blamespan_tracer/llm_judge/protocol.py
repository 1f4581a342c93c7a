"""What a server of the OpenAI protocol sends back, read strictly: the text of one answer, or why there is none."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blamespan_tracer.llm_judge.spending import Usage

__all__ = ["Answer", "Unreadable", "answer_of", "usage_of"]

_VERDICT = re.compile(r'"failed"\s*:\s*(true|false)')
_MOST_TOKENS = 10**9


class Unreadable(Exception):
    """An answer came that does not count; the message says why, in our own words."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a model answered.

    Attributes:
        text: Its text.
        chance_failed: The chance it gave, going by its tokens, that `failed` is true; None where the server does not
            tell, or there is no such word in the answer.
    """

    text: str
    chance_failed: float | None = None


def usage_of(body: bytes) -> Usage | None:
    """Read what an answer cost, where the server says it."""
    found = next((each["usage"] for each in reversed(_documents(body)) if isinstance(each.get("usage"), dict)), None)
    if found is None:
        return None
    counts = [found.get("prompt_tokens"), found.get("completion_tokens")]
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < _MOST_TOKENS for n in counts):
        return None
    return Usage(int(counts[0]), int(counts[1]))


def answer_of(body: bytes) -> Answer:
    """Read the text of an answer, streamed or not.

    Raises:
        Unreadable: if there is none, or not all of it.
    """
    documents = _documents(body)
    try:
        choices = [each["choices"][0] for each in documents if each.get("choices")]
        parts = [choice.get("message") or choice.get("delta") or {} for choice in choices]
        text = "".join(_text(part.get("content")) for part in parts)
        ends = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
        refusal = any(part.get("refusal") for part in parts)
        is_stream = any("delta" in choice for choice in choices)
        is_called = not text.strip() and any(part.get("tool_calls") for part in parts)
    except (LookupError, TypeError, AttributeError) as error:
        raise Unreadable("it is no chat completion") from error
    if any(each.get("error") for each in documents):
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
    return Answer(text, _chance(text, choices))


def _text(content: object) -> str:
    """Join the texts of a content; where it is a list of parts, those that are no text, as thoughts, are left out."""
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    if content is not None and not isinstance(content, str):
        raise TypeError(content)
    return content or ""


def _documents(body: bytes) -> list[dict[str, Any]]:
    """Read one JSON object, or those of a stream of server-sent events that nobody asked for."""
    try:
        text = body.decode("utf-8")
        if text.lstrip().startswith(("data:", ":", "event:", "id:")):
            found = [json.loads(line) for line in _events(text)]
        else:
            found = [json.loads(text)]
    except (ValueError, RecursionError) as error:
        raise Unreadable("it is no JSON") from error
    if not found or not all(isinstance(each, dict) for each in found):
        raise Unreadable("it is no chat completion")
    return found


def _events(text: str) -> Iterator[str]:
    for line in text.split("\n"):
        said = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        if said and said != "[DONE]":
            yield said


def _chance(text: str, choices: list[dict[str, Any]]) -> float | None:
    """Add up the chances of the tokens that say true and false where the answer says one of them."""
    places = list(_VERDICT.finditer(text))
    if len(places) != 1:
        return None
    try:
        tokens = [token for choice in choices for token in (choice.get("logprobs") or {}).get("content") or ()]
        if "".join(token["token"] for token in tokens) != text:
            return None
        at = 0
        for token in tokens:
            if at <= places[0].start(1) < at + len(token["token"]):
                return _share_of_true([token, *(token.get("top_logprobs") or ())])
            at += len(token["token"])
    except (LookupError, TypeError, AttributeError, ValueError):
        return None
    return None


def _share_of_true(candidates: list[Mapping[str, Any]]) -> float | None:
    chances = {"true": 0.0, "false": 0.0}
    for token, logprob in {each["token"]: each["logprob"] for each in candidates}.items():
        word = token.strip(' ":\n\t').casefold()
        for value in chances:
            if word and value.startswith(word):
                chances[value] += math.exp(min(float(logprob), 0.0))
    total = sum(chances.values())
    return chances["true"] / total if total > 0 else None
