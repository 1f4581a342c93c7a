"""Results of checks as input features of a model, beside those of the representation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.checks.check import Check, CheckResult
from blamespan_tracer.representation import Representation

__all__ = ["result_features"]


def result_features(
    checks: Sequence[Check], results: Sequence[CheckResult], run: Representation
) -> NDArray[np.float32]:
    """Lay out results on the merged steps of a run.

    Dims: N merged steps, K checks.

    Args:
        checks: The K checks, whose order is that of the columns.
        results: What `apply_checks` says of the run; those of other checks are left out.
        run: The same run.

    Returns:
        (N, 3 K) float32: for each check whether the step breaks it (1, or 0.5 where that is left open), whether it
        is the first to do so, and which share of all that breaks it has come by then, 1 from the last on.
    """
    row_of = {origin: row for row, origins in enumerate(run.origins) for origin in origins}
    column_of = {check.name: 3 * number for number, check in enumerate(checks)}
    table = np.zeros((len(run), 3 * len(checks)), np.float32)
    for result in results:
        if result.step in row_of and result.check.name in column_of and result.outcome != "pass":
            cell = row_of[result.step], column_of[result.check.name]
            table[cell] = max(table[cell], 1.0 if result.outcome == "fail" else 0.5)
    broken = table[:, ::3]
    so_far = np.cumsum(broken, axis=0)
    whole = so_far[-1:] if len(run) else so_far
    table[:, 1::3] = (broken > 0) & (so_far == broken)
    table[:, 2::3] = so_far / np.where(whole > 0, whole, 1)
    return table
