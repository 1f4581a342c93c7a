"""Runs are put together by length, and never so many that they would not fit."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from blamespan_lab.train.network.batches import split_by_size


@pytest.mark.parametrize("sizes", [[], [3], [3, 3, 3, 3, 3], [2, 9, 40, 200, 2_000], [2_000, 2_000]])
def test_parts_hold_every_run_once_and_fit(sizes: list[int]) -> None:
    """A run of thousands of steps is a part of its own: what is padded to its length costs the square."""
    order = sorted(range(len(sizes)), key=sizes.__getitem__)

    parts = list(split_by_size(order, sizes, most_runs=4))

    assert [row for part in parts for row in part] == order
    assert all(0 < len(part) <= 4 for part in parts)
    assert all(len(part) == 1 or len(part) * max(sizes[row] for row in part) ** 2 <= 400_000 for part in parts)
