"""The words of a step that speak for its blame, quoted as they stand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.tokens import Places, Tokens

__all__ = ["MAX_QUOTE_CHARS", "heaviest_windows"]

_TIE = 1e-9
"""Sums that differ by less are equal: they differ by rounding."""

MAX_QUOTE_CHARS = 200
"""Longest quote: a sentence or two, well under what backends cut."""

_APART = 1 << 32
"""Keeps the places of one text apart from those of the next: longer than any text."""


def heaviest_windows(
    tokens: Tokens, weights: NDArray[np.float64], *, max_chars: int = MAX_QUOTE_CHARS
) -> list[tuple[int, int]]:
    """Find the stretch of each text, at most *max_chars* long, whose tokens weigh most together.

    Every sum is of one text alone, token by token: what is asked beside it cannot change it.

    Dims: T tokens of all texts.

    Args:
        tokens: Of the texts.
        weights: (T,) what each speaks for; negative where it speaks against.
        max_chars: A single longer token is cut to it.

    Returns:
        Per text (start, end) in it, on token borders; the earliest of the heaviest to end, from where its leading
        tokens no longer speak against it. (0, 0) where it has no token.
    """
    text, begins = tokens.texts, np.cumsum(tokens.sizes) - tokens.sizes
    found = [(0, 0)] * len(tokens.sizes)
    has_any = np.flatnonzero(tokens.sizes)
    if not len(has_any):
        return found
    before = _sums(weights, begins, tokens.sizes)
    now = np.arange(len(weights)) + text  # where in `before` the sum up to each token is
    first = np.searchsorted(tokens.starts + text * _APART, tokens.ends - max_chars + text * _APART)
    first = np.minimum(first, np.arange(len(weights))) + text
    heaviest = before[now + 1] - _least(before, first, now + 1)
    most = np.maximum.reduceat(heaviest, begins[has_any])
    close = np.flatnonzero(heaviest >= np.repeat(most - _TIE, tokens.sizes[has_any]))
    last = close[np.searchsorted(text[close], has_any)]
    for number, end, low, high in zip(
        *(each.tolist() for each in (has_any, last, first[last], now[last])), strict=True
    ):
        start = int(tokens.starts[low + int(before[low : high + 1].argmin()) - number])
        found[number] = start, min(int(tokens.ends[end]), start + max_chars)
    return found


def _sums(weights: NDArray[np.float64], begins: Places, sizes: Places) -> NDArray[np.float64]:
    """Sum up what stands before each token of its text, and at last all of it: one number more for each text."""
    before = np.zeros(len(weights) + len(sizes))
    for number, (begin, size) in enumerate(zip(begins.tolist(), sizes.tolist(), strict=True)):
        np.cumsum(weights[begin : begin + size], out=before[begin + number + 1 : begin + number + 1 + size])
    return before


def _least(values: NDArray[np.float64], first: Places, end: Places) -> NDArray[np.float64]:
    """Find the least of values[first[i]:end[i]] for every i, none empty and none up to the last value."""
    least: NDArray[np.float64] = np.minimum.reduceat(values, np.column_stack((first, end)).ravel())[::2]
    return least
