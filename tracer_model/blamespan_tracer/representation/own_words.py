"""What a step says itself: without the calls and results that frameworks write into an agent's message.

A node of LangGraph gives back all the messages it made, its tool calls and their results first. These are steps of
their own already; to read them once more as the agent's words would make it state what it asked. Where it hands over
by calling a tool, that call and its result come last.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from blamespan.trace import MessageActionTrace, Step

__all__ = ["own_words"]

_ERROR = "Error: "
"""What LangGraph's tool node begins the message for a tool with that raised; the rest is spelled in several ways."""

_HANDING_OVER = re.compile(r"\n(?:transfer|hand_?off)\w*\(\{.*\}\)(?:\n[^\n]+)?\s*\Z", re.IGNORECASE)
"""A call that ends a message, by the names of LangGraph's documented tools, and a line of result."""


def own_words(trace: MessageActionTrace) -> list[str]:
    """Return the text of each step without the agent's own calls and results, where it begins or ends with them."""
    open_calls: dict[str, list[Step]] = defaultdict(list)
    texts = []
    for step in trace.steps:
        if step.kind in ("tool_call", "tool_result"):
            open_calls[step.agent].append(step)
            texts.append(step.content)
        else:
            own = _without(step.content, open_calls.pop(step.agent, []))
            texts.append(_HANDING_OVER.sub("", own) if step.kind == "handoff" else own)
    return texts


def _without(text: str, calls: Sequence[Step]) -> str:
    """Cut off what *text* begins with, as long as that is one of *calls*, each once."""
    left = Counter(call.content.strip() for call in calls if call.content.strip())
    errors = sum(call.kind == "tool_result" and call.status == "error" for call in calls)
    rest = text.lstrip()
    while rest:
        begun = next((call for call, times in left.items() if times and _begins(rest, call)), None)
        if begun is not None:
            left[begun] -= 1
            rest = rest[len(begun) :].lstrip()
        elif errors and rest.startswith(_ERROR):
            errors -= 1
            rest = _behind_error(rest, left)
        else:
            break
    return rest if len(rest) < len(text.lstrip()) else text


def _behind_error(text: str, left: Mapping[str, int]) -> str:
    """Cut off an error that *text* begins with: up to the next of the calls and results *left*, or a line."""
    starts = [text.find(f"\n{call}") for call, times in left.items() if times]
    end = min((start for start in starts if start >= 0), default=text.find("\n"))
    return text[end:].lstrip() if end >= 0 else ""


def _begins(text: str, call: str) -> bool:
    return text.startswith(call) and text[len(call) : len(call) + 1] in ("", "\n")
