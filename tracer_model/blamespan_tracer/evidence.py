"""The words of a step that speak for its blame, quoted as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_QUOTE_CHARS", "heaviest_window"]

MAX_QUOTE_CHARS = 200
"""Longest quote: a sentence or two, well under what backends cut."""

Floats: TypeAlias = NDArray[np.float32]


def heaviest_window(
    spans: Sequence[tuple[int, int]], weights: Floats, *, max_chars: int = MAX_QUOTE_CHARS
) -> tuple[int, int]:
    """Find the stretch of a text, at most *max_chars* long, whose tokens weigh most together.

    Dims: T tokens, at least one.

    Args:
        spans: (T,) where each token stands, ascending.
        weights: (T,) what each speaks for; negative where it speaks against.
        max_chars: A single longer token is cut to it.

    Returns:
        (start, end) in the text, on token borders; the shortest of the heaviest, the earliest on a tie.
    """
    best, best_weight = (0, 0), -np.inf
    before = np.concatenate([[0.0], np.cumsum(weights, dtype=np.float64)])  # before[i]: all tokens below i
    first = 0
    for last in range(len(spans)):
        while first < last and spans[last][1] - spans[first][0] > max_chars:
            first += 1
        start = first + int(before[first : last + 1].argmin())  # drop leading tokens that speak against
        weight = before[last + 1] - before[start]
        if weight > best_weight + 1e-9:
            best, best_weight = (start, last), weight
    start, end = spans[best[0]][0], spans[best[1]][1]
    return start, min(end, start + max_chars)
