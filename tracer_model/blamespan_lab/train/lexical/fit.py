"""Fit one penalised logistic regression per answer. The problem is convex and starts from zero: there is no luck in it.

Dims: N agents, V features, K answers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

__all__ = ["fit", "stack_rows"]

Floats = NDArray[np.float32]


def stack_rows(rows: Sequence[tuple[NDArray[np.int64], Floats]], width: int) -> Any:
    """Return the sparse (N, V) matrix of one (columns, values) pair per row."""
    ends = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    columns, values = (np.concatenate([row[part] for row in rows]) for part in (0, 1))
    return csr_array((values, columns, ends), shape=(len(rows), width))


def fit(rows: Any, labels: Floats, *, penalty: float, iterations: int) -> tuple[Floats, Floats]:
    """Minimise the summed cross-entropy plus penalty / 2 times the squared weights; the bias goes free.

    Args:
        rows: (N, V).
        labels: (N, K) of 0 and 1.
        penalty: Above 0.
        iterations: Most L-BFGS iterations.

    Returns:
        (V, K) weights and (K,) bias.
    """
    n_agents, n_answers = labels.shape
    weights, bias = np.zeros((rows.shape[1], n_answers), np.float32), np.zeros(n_answers, np.float32)
    for column, label in enumerate(labels.T):
        if 0 < label.sum() < n_agents:
            model = LogisticRegression(C=1 / penalty, max_iter=iterations, tol=1e-6).fit(rows, label)
            weights[:, column], bias[column] = model.coef_[0], model.intercept_[0]
        else:  # nothing to tell apart
            bias[column] = math.copysign(math.log(n_agents + 1), label.sum() - 0.5)
    return weights, bias
