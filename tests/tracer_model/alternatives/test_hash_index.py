"""Known hashes are found, and no others."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from blamespan_tracer.alternatives.hash_index import HashIndex

crowded = st.integers(0, 2**12)
"""All in the first bucket."""
hashes = st.one_of(crowded, st.integers(0, 2**32 - 1), st.sampled_from([0, 2**32 - 1]))


@given(st.sets(hashes, min_size=1, max_size=50), st.lists(hashes, max_size=50))
def test_lookup_agrees_with_a_dictionary(known: set[int], asked: list[int]) -> None:
    """Whatever is known and asked, each known hash has its place and each unknown one has none."""
    keys = np.array(sorted(known), np.uint32)
    places = {key: place for place, key in enumerate(keys.tolist())}

    rows, found = HashIndex(keys).find(np.array(asked, np.uint32))

    assert list(zip(rows.tolist(), found.tolist(), strict=True)) == [
        (row, places[key]) for row, key in enumerate(asked) if key in places
    ]
