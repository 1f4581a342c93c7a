"""Evidence of a causal model: the sentence that a step's blame hangs on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from blamespan_tracer.causal.quotes import MOST_SENTENCES, heaviest_sentence


def wrong_in(texts: Sequence[str]) -> list[float]:
    return [float("wrong" in text) for text in texts]


def test_sentence_without_which_nothing_is_wrong_is_quoted() -> None:
    """It is given as it stands in the text."""
    assert heaviest_sentence("All is well. This  is wrong!\n\nThe end.", wrong_in) == "This  is wrong!"


@pytest.mark.parametrize(("text", "quote"), [("", ""), (" \n ", ""), ("One only", "One only"), ("a" * 900, "a" * 200)])
def test_one_sentence_is_quoted_without_asking(text: str, quote: str) -> None:
    """Where there is no choice, no reading is spent; a quote is never long."""

    def never(_: Sequence[str]) -> list[float]:
        raise AssertionError

    assert heaviest_sentence(text, never) == quote


def test_readings_are_bounded() -> None:
    """Of a long text the first and last sentences are tried, and the first of several alike is taken."""
    asked: list[int] = []

    def count(texts: Sequence[str]) -> list[float]:
        asked.append(len(texts))
        return [0.0] * len(texts)

    assert heaviest_sentence("".join(f"Sentence {place}. " for place in range(10_000)), count) == "Sentence 0."
    assert asked == [MOST_SENTENCES]
