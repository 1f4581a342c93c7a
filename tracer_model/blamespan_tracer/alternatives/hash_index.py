"""Finding many hashes among known ones at once: a tenth of a binary search's time."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.tokens import Hashes

__all__ = ["HashIndex"]

Places: TypeAlias = NDArray[np.int64]

_BUCKET_BITS = 20
"""By so many of its first bits a hash is found: 4 MB, and a bucket of 100,000 known ones holds a few at most."""
_SHIFT = 32 - _BUCKET_BITS


class HashIndex:
    """Where each of the known hashes is.

    Args:
        keys: (V,) distinct, ascending.
    """

    def __init__(self, keys: Hashes) -> None:
        self._keys = keys
        begins = np.arange((1 << _BUCKET_BITS) + 1, dtype=np.uint64) << np.uint64(_SHIFT)
        self._first = np.searchsorted(keys.astype(np.uint64), begins).astype(np.int32)

    def find(self, hashes: Hashes) -> tuple[Places, Places]:
        """Look up (N,) *hashes*.

        Returns:
            Which of the N are known, ascending, and the place of each of these among the keys.
        """
        bucket = hashes >> np.uint32(_SHIFT)
        at, end = self._first[bucket], self._first[bucket + np.uint32(1)]
        place = np.full(len(hashes), -1, np.int64)
        row = np.flatnonzero(at < end)
        at, end = at[row], end[row]
        while len(row):
            is_here = self._keys[at] == hashes[row]
            place[row[is_here]] = at[is_here]
            at = at + 1
            goes_on = ~is_here & (at < end)
            row, at, end = row[goes_on], at[goes_on], end[goes_on]
        known = np.flatnonzero(place >= 0)
        return known, place[known]
