"""Occlusion: the message and the sentence of a decision without which a model blames it least."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from blamespan_tracer.alternatives.evidence import MAX_QUOTE_CHARS
from blamespan_tracer.tokens import sentences_of

__all__ = ["MOST_SENTENCES", "heaviest_message", "heaviest_sentence"]

MOST_SENTENCES = 6
"""Sentences that are tried, each by a reading: of a longer text the first and the last ones."""


def heaviest_message(messages: Sequence[str], blame: Callable[[Sequence[str]], Sequence[float]]) -> int | None:
    """Find the message of a decision without which it is blamed least; of many by groups, and then within one.

    Args:
        messages: At least one, in order.
        blame: For texts in place of all of them: how much each is blamed. Not asked about one message.

    Returns:
        Its index; None where it is all the same.
    """
    low, high = 0, len(messages)
    while high - low > 1:
        n_groups = min(MOST_SENTENCES, high - low)
        edges = [low + (high - low) * group // n_groups for group in range(n_groups + 1)]
        blames = blame(["\n".join((*messages[:start], *messages[end:])) for start, end in pairwise(edges)])
        if max(blames) == min(blames):
            return None
        least = min(range(n_groups), key=blames.__getitem__)
        low, high = edges[least], edges[least + 1]
    return low


def heaviest_sentence(text: str, blame: Callable[[Sequence[str]], Sequence[float]]) -> str:
    """Find the sentence of *text* without which it is blamed least; the first of several alike, cut to a quote.

    Args:
        text: Of the step.
        blame: For texts in place of it: how much each is blamed. Not asked about a text of one sentence.

    Returns:
        A part of *text* as it stands there; empty where it has no words.
    """
    sentences = sentences_of(text, MOST_SENTENCES)
    if len(sentences) < 2:
        return sentences[0][:MAX_QUOTE_CHARS].strip() if sentences else ""
    blames = blame([" ".join(sentences[:index] + sentences[index + 1 :]) for index in range(len(sentences))])
    return sentences[min(range(len(sentences)), key=blames.__getitem__)][:MAX_QUOTE_CHARS].strip()
