"""Fit the lexicon: one penalised logistic regression per answer, all at once, by full-batch L-BFGS.

The problem is convex and starts from zero, so there is no luck in it: the same table gives the same
weights, bit for bit, on the same machine and number of threads.

Dims: N agents, V features, K answers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

__all__ = ["SparseRows", "fit"]


@dataclass(frozen=True, slots=True)
class SparseRows:
    """An (N, V) matrix by rows, as `embedding_bag` wants it.

    Attributes:
        columns: (nnz,) int64.
        starts: (N,) int64, where each row begins in `columns`.
        values: (nnz,) float32.
        width: V.
    """

    columns: Tensor
    starts: Tensor
    values: Tensor
    width: int

    @classmethod
    def of(cls, rows: list[tuple[NDArray[np.int64], NDArray[np.float32]]], width: int) -> SparseRows:
        """Build the matrix from one (columns, values) pair per row."""
        sizes = np.array([len(columns) for columns, _ in rows], dtype=np.int64)
        return cls(
            torch.from_numpy(np.concatenate([columns for columns, _ in rows])),
            torch.from_numpy(np.cumsum(sizes) - sizes),
            torch.from_numpy(np.concatenate([values for _, values in rows])),
            width,
        )

    def times(self, table: Tensor) -> Tensor:
        """Multiply by a (V, K) table; each row is summed in its own order, whatever the threads."""
        return functional.embedding_bag(
            self.columns, table, self.starts, mode="sum", per_sample_weights=self.values, include_last_offset=False
        )

    def transposed(self) -> SparseRows:
        """Turn rows into columns."""
        sizes = torch.diff(self.starts, append=torch.tensor([len(self.columns)]))
        row = torch.repeat_interleave(torch.arange(len(self.starts)), sizes)
        order = torch.argsort(self.columns, stable=True)
        counts = torch.bincount(self.columns, minlength=self.width)
        return SparseRows(row[order], torch.cumsum(counts, 0) - counts, self.values[order], len(self.starts))


@torch.no_grad()
def fit(rows: SparseRows, labels: NDArray[np.float32], *, penalty: float, iterations: int) -> tuple[Tensor, Tensor]:
    """Minimise the summed cross-entropy plus penalty / 2 times the squared weights; the bias goes free.

    Args:
        rows: (N, V).
        labels: (N, K) of 0 and 1.
        penalty: Above 0.
        iterations: Most L-BFGS iterations.

    Returns:
        (V, K) weights and (K,) bias, float32.
    """
    target = torch.from_numpy(labels)  # (N, K)
    n_agents, n_answers = target.shape
    columns = rows.transposed()
    weights = torch.zeros(rows.width, n_answers)
    rate = target.mean(dim=0).clamp(1e-4, 1 - 1e-4)
    bias = torch.log(rate / (1 - rate))
    weights.grad, bias.grad = torch.zeros_like(weights), torch.zeros_like(bias)
    optimizer = torch.optim.LBFGS(
        [weights, bias], max_iter=iterations, history_size=6, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure() -> float:
        logits = rows.times(weights) + bias
        residual = torch.sigmoid(logits) - target  # (N, K): gradient of the summed cross-entropy
        assert weights.grad is not None
        assert bias.grad is not None
        weights.grad.copy_((columns.times(residual) + penalty * weights) / n_agents)
        bias.grad.copy_(residual.sum(dim=0) / n_agents)
        loss = functional.binary_cross_entropy_with_logits(logits, target, reduction="sum")
        return float(loss + 0.5 * penalty * (weights * weights).sum()) / n_agents

    optimizer.step(closure)  # type: ignore[no-untyped-call]  # torch leaves it untyped
    return weights, bias
