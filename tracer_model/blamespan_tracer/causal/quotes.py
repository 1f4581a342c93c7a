"""The words of a blamed step that speak for its blame, by what a model says of the step without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from blamespan_tracer.evidence import MAX_QUOTE_CHARS, sentences_of

__all__ = ["MOST_SENTENCES", "heaviest_sentence"]

MOST_SENTENCES = 6
"""Sentences that are tried, each by a reading: of a longer text the first and the last ones."""


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
    found = blame([" ".join(sentences[:place] + sentences[place + 1 :]) for place in range(len(sentences))])
    return sentences[min(range(len(sentences)), key=found.__getitem__)][:MAX_QUOTE_CHARS].strip()
