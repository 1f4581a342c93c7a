"""What a step says itself: without the calls and results before it that frameworks write into an agent's message.

A node of LangGraph gives back all the messages it made, its tool calls and their results first. These are steps of
their own already; to read them once more as the agent's words would make it state what it asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from blamespan.trace import MessageActionTrace

__all__ = ["own_words"]


def own_words(trace: MessageActionTrace) -> list[str]:
    """Give the text of each step without the agent's own calls and results, where it begins with them."""
    open_calls: dict[str, list[str]] = defaultdict(list)
    texts = []
    for step in trace.steps:
        if step.kind in ("tool_call", "tool_result"):
            open_calls[step.agent].append(step.content.strip())
            texts.append(step.content)
        else:
            texts.append(_without(step.content, open_calls.pop(step.agent, [])))
    return texts


def _without(text: str, calls: list[str]) -> str:
    """Cut off what *text* begins with, as long as that is one of *calls*, each once."""
    left = Counter(call for call in calls if call)
    rest = text.lstrip()
    while begun := next((call for call, times in left.items() if times and _begins(rest, call)), None):
        left[begun] -= 1
        rest = rest[len(begun) :].lstrip()
    return rest if len(rest) < len(text.lstrip()) else text


def _begins(text: str, call: str) -> bool:
    return text.startswith(call) and text[len(call) : len(call) + 1] in ("", "\n")
