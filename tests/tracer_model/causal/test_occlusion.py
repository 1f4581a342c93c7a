"""Evidence of a causal model: the sentence that a step's blame hangs on."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from blamespan_tracer.causal.occlusion import MOST_SENTENCES, heaviest_message, heaviest_sentence


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


@pytest.mark.parametrize("count", [1, 2, 6, 7, 50])
def test_heaviest_message_may_be_any(count: int) -> None:
    """The one that holds what is blamed is found wherever it stands, in few rounds of six readings at most."""
    rounds: list[int] = []

    def blame(texts: Sequence[str]) -> list[float]:
        rounds.append(len(texts))
        return [float("wrong" in text) for text in texts]

    found = [
        heaviest_message(["wrong" if place == wrong else "right" for place in range(count)], blame)
        for wrong in range(count)
    ]

    assert found == list(range(count))
    assert max(rounds, default=0) <= 6
    assert len(rounds) <= 3 * count


def test_no_message_is_heaviest_where_all_are_alike() -> None:
    """Then it is for others to say which."""
    assert heaviest_message(["a", "b"], lambda texts: [0.5] * len(texts)) is None
