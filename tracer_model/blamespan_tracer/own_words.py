"""What of a step's text are its agent's own words: a message may begin with the calls and results before it.

A node of LangGraph gives back all the messages it made, its tool calls and their results first. These are steps of
their own already; to read them once more as the agent's words would make it state what it asked. Where it hands over
by calling a tool, that call and its result come last.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Mapping

from blamespan.trace import Step

_ERROR = "Error: "
"""What LangGraph's tool node begins the message for a tool with that raised; the rest is spelled in several ways."""

_HANDING_OVER = re.compile(r"\n(?:transfer|hand_?off)\w*\(\{.*\}\)(?:\n[^\n]+)?\s*\Z", re.IGNORECASE)
"""A call that ends a message, by the names of LangGraph's documented tools, and a line of result."""

_MOST_CALLS = 200
"""Calls and results of an agent since its last message that its next one may begin with."""


class OwnWords:
    """Tells the own words of one step after the other."""

    def __init__(self) -> None:
        self._calls: dict[str, deque[Step]] = {}

    def read(self, step: Step) -> str:
        """Return the text of a step without its agent's calls and results, where it begins or ends with them."""
        if step.kind in ("tool_call", "tool_result"):
            return step.content
        calls = self._calls.get(step.agent)
        own = _cut_calls(step.content, calls) if calls else step.content
        return _HANDING_OVER.sub("", own) if step.kind == "handoff" else own

    def take(self, step: Step) -> None:
        """Take up a step: the next message of its agent may begin with it."""
        if step.kind in ("tool_call", "tool_result"):
            self._calls.setdefault(step.agent, deque(maxlen=_MOST_CALLS)).append(step)
        else:
            self._calls.pop(step.agent, None)

    @classmethod
    def of_run(cls, steps: Iterable[Step]) -> list[str]:
        """Return the own words of each step of a run."""
        words, texts = cls(), []
        for step in steps:
            texts.append(words.read(step))
            words.take(step)
        return texts


def _cut_calls(text: str, calls: Iterable[Step]) -> str:
    """Cut off what *text* begins with, as long as that is one of *calls*, each once."""
    remaining = Counter(call.content.strip() for call in calls if call.content.strip())
    errors = sum(call.kind == "tool_result" and call.status == "error" for call in calls)
    rest = text.lstrip()
    while rest:
        first = next((call for call, times in remaining.items() if times and _begins(rest, call)), None)
        if first is not None:
            remaining[first] -= 1
            rest = rest[len(first) :].lstrip()
        elif errors and rest.startswith(_ERROR):
            errors -= 1
            rest = _cut_error(rest, remaining)
        else:
            break
    return rest if len(rest) < len(text.lstrip()) else text


def _cut_error(text: str, remaining: Mapping[str, int]) -> str:
    """Cut off an error that *text* begins with: up to the next of the *remaining* calls and results, or a line."""
    starts = [text.find(f"\n{call}") for call, times in remaining.items() if times]
    end = min((start for start in starts if start >= 0), default=text.find("\n"))
    return text[end:].lstrip() if end >= 0 else ""


def _begins(text: str, call: str) -> bool:
    return text.startswith(call) and text[len(call) : len(call) + 1] in ("", "\n")
