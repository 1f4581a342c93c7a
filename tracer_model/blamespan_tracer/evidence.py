"""The words of a step that speak for its blame, quoted as they stand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.tokens import Places

__all__ = ["MAX_QUOTE_CHARS", "heaviest_window"]

_TIE = 1e-9
"""Sums that differ by less are equal: they differ by rounding."""

MAX_QUOTE_CHARS = 200
"""Longest quote: a sentence or two, well under what backends cut."""


def heaviest_window(
    starts: Places, ends: Places, weights: NDArray[np.float64], *, max_chars: int = MAX_QUOTE_CHARS
) -> tuple[int, int]:
    """Find the stretch of a text, at most *max_chars* long, whose tokens weigh most together.

    Dims: T tokens, at least one.

    Args:
        starts: (T,) where each token begins, ascending.
        ends: (T,) where it ends.
        weights: (T,) what each speaks for; negative where it speaks against.
        max_chars: A single longer token is cut to it.

    Returns:
        (start, end) in the text, on token borders; the earliest of the heaviest to end, from where its leading
        tokens no longer speak against it.
    """
    before = np.zeros(len(weights) + 1)  # before[i]: all tokens below i
    np.cumsum(weights, out=before[1:])
    last = np.arange(len(weights))
    first = np.minimum(np.searchsorted(starts, ends - max_chars), last)
    heaviest = before[1:] - _least(before, first, last + 1)
    end = int(np.argmax(heaviest >= heaviest.max() - _TIE))
    start = first[end] + int(before[first[end] : end + 1].argmin())
    return int(starts[start]), min(int(ends[end]), int(starts[start]) + max_chars)


def _least(values: NDArray[np.float64], first: Places, end: Places) -> NDArray[np.float64]:
    """Find the least of values[first[i]:end[i]] for every i, none empty and none up to the last value."""
    least: NDArray[np.float64] = np.minimum.reduceat(values, np.column_stack((first, end)).ravel())[::2]
    return least
