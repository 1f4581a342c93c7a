"""Verdicts as input features of a model, beside those of the representation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.contracts.contract import Contract, Verdict
from blamespan_tracer.representation import Representation

__all__ = ["verdict_features"]


def verdict_features(
    contracts: Sequence[Contract], verdicts: Sequence[Verdict], run: Representation
) -> NDArray[np.float32]:
    """Lay out verdicts on the merged steps of a run.

    Dims: N merged steps, K contracts.

    Args:
        contracts: The K contracts, whose order is that of the columns.
        verdicts: What `judge` says of the run; those of other contracts are left out.
        run: The same run.

    Returns:
        (N, 3 K) float32: for each contract whether the step breaks it (1, or 0.5 where that is left open), whether it
        is the first to do so, and which share of all that breaks it has come by then, 1 from the last on.
    """
    place = {origin: row for row, origins in enumerate(run.origins) for origin in origins}
    column = {contract.name: 3 * number for number, contract in enumerate(contracts)}
    table = np.zeros((len(run), 3 * len(contracts)), np.float32)
    for verdict in verdicts:
        if verdict.step in place and verdict.contract.name in column and verdict.outcome != "pass":
            cell = place[verdict.step], column[verdict.contract.name]
            table[cell] = max(table[cell], 1.0 if verdict.outcome == "fail" else 0.5)
    broken = table[:, ::3]
    so_far = np.cumsum(broken, axis=0)
    whole = so_far[-1:] if len(run) else so_far
    table[:, 1::3] = (broken > 0) & (so_far == broken)
    table[:, 2::3] = so_far / np.where(whole > 0, whole, 1)
    return table
