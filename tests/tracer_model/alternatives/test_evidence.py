"""Quotes are the heaviest stretch of a text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan_tracer.alternatives.evidence import heaviest_windows
from blamespan_tracer.tokens import Tokens

texts = st.lists(st.lists(st.tuples(st.integers(1, 12), st.integers(-5, 5)), max_size=25), max_size=4)


def tokens_of_sizes(given: list[list[tuple[int, int]]]) -> tuple[Tokens, np.ndarray, list[list[tuple[int, int]]]]:
    """Make the tokens of texts out of their lengths and weights, one blank between two; and list where they stand."""
    ends = [np.cumsum([length + 1 for length, _ in text]).tolist() for text in given]
    spans = [
        [(end - length - 1, end - 1) for end, (length, _) in zip(each, text, strict=True)]
        for each, text in zip(ends, given, strict=True)
    ]
    places = np.array([span for each in spans for span in each], np.int64).reshape(-1, 2)
    weights = np.array([weight for text in given for _, weight in text], np.float64)
    sizes = np.array([len(text) for text in given], np.int64)
    return Tokens(np.zeros(len(places), np.uint32), places[:, 0], places[:, 1], sizes), weights, spans


@given(texts, st.integers(12, 60))
def test_no_stretch_within_the_limit_weighs_more(given_texts: list[list[tuple[int, int]]], max_chars: int) -> None:
    """Agree, for each of several texts, with trying every stretch of it."""
    tokens, weights, spans = tokens_of_sizes(given_texts)

    windows = heaviest_windows(tokens, weights, max_chars=max_chars)

    assert len(windows) == len(given_texts)
    for (start, end), text, places in zip(windows, given_texts, spans, strict=True):
        added = [weight for _, weight in text]
        every = [
            sum(added[first : last + 1])
            for first in range(len(places))
            for last in range(first, len(places))
            if places[last][1] - places[first][0] <= max_chars
        ]
        inside = [weight for (left, right), weight in zip(places, added, strict=True) if left >= start and right <= end]
        assert end - start <= max_chars
        assert sum(inside) == pytest.approx(max(every, default=0), abs=1e-4)


def test_longer_token_is_cut() -> None:
    """One token longer than a quote may be still gives a quote."""
    tokens = Tokens(np.zeros(1, np.uint32), np.array([3]), np.array([500]), np.array([1]))

    assert heaviest_windows(tokens, np.ones(1), max_chars=200) == [(3, 203)]
