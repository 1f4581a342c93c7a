"""Quotes are the heaviest stretch of a text."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan_tracer.evidence import heaviest_window

tokens = st.lists(st.tuples(st.integers(1, 12), st.integers(-5, 5)), min_size=1, max_size=25)


@given(tokens, st.integers(12, 60))
def test_no_stretch_within_the_limit_weighs_more(given_tokens: list[tuple[int, int]], max_chars: int) -> None:
    """Agree with trying every stretch."""
    ends = np.cumsum([length + 1 for length, _ in given_tokens]).tolist()
    spans = [(end - length - 1, end - 1) for end, (length, _) in zip(ends, given_tokens, strict=True)]
    weights = np.array([weight for _, weight in given_tokens], np.float64)
    every = [
        weights[first : last + 1].sum()
        for first in range(len(spans))
        for last in range(first, len(spans))
        if spans[last][1] - spans[first][0] <= max_chars
    ]

    start, end = heaviest_window(*np.array(spans).T, weights, max_chars=max_chars)

    inside = [weight for (left, right), weight in zip(spans, weights, strict=True) if left >= start and right <= end]
    assert end - start <= max_chars
    assert sum(inside) == pytest.approx(max(every), abs=1e-4)


def test_longer_token_is_cut() -> None:
    """One token longer than a quote may be still gives a quote."""
    assert heaviest_window(np.array([3]), np.array([500]), np.ones(1), max_chars=200) == (3, 203)
