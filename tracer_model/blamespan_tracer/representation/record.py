"""What a model sees of a run, and of many runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["EDGE_TYPES", "Batch", "Representation"]

EDGE_TYPES = ("time", "same agent", "reply", "depends", "objects", "addressed")
"""What an edge can be, by number; each goes from the earlier step to the later one, but for `objects`, which goes from
who objects to what it objects to.

- time: the next decision or word.
- same agent: this agent's next step.
- reply: the later step builds on the earlier one, as links say.
- depends: the later step uses numbers, names or identifiers that the earlier one brought into the run.
- objects: a later step says that something is wrong and points here.
- addressed: the next step of somebody whom the earlier one was addressed to.
"""


@dataclass(frozen=True, slots=True)
class Representation:
    """A run as its decisions, what ties them together, and what stands out about each.

    Dims: N merged steps, A agents, E edges, F features.

    Attributes:
        trace_id: The run's trace.
        task: What the run was asked to do, its ends where it is long.
        texts: (N,) what is said in each step, its beginning and end where it is long.
        results: (N,) what tools answered to it, likewise.
        origins: (N,) the original steps it is made of, ascending, tools' answers not among them.
        agents: (A,) names, in order of first speaking; for the answer, never for the model.
        agent: (N,) int64, who: a label of this run, 0..A-1.
        role: (N,) int64, what it does in the team: a number of `ROLES`.
        can_be_blamed: (N,) bool.
        edges: (3, E) int64: type (a number of `EDGE_TYPES`), from, to.
        edge_weights: (E,) float32, 1 but for `depends`: how much is owed, 0..1 of what that step owes to all.
        features: (N, F) float32, in the order of `STEP_FEATURES`; finite, and 0 where a step cannot be blamed.
    """

    trace_id: str
    task: str
    texts: tuple[str, ...]
    results: tuple[str, ...]
    origins: tuple[tuple[int, ...], ...]
    agents: tuple[str, ...]
    agent: NDArray[np.int64]
    role: NDArray[np.int64]
    can_be_blamed: NDArray[np.bool_]
    edges: NDArray[np.int64]
    edge_weights: NDArray[np.float32]
    features: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True, slots=True)
class Batch:
    """Several runs one after the other, without padding: what concerns one run is in no way touched by the others.

    Dims: R runs, N steps, E edges and A agents of all of them.

    Attributes:
        runs: (R,) what it is made of.
        first_step: (R + 1,) int64: run r has the steps first_step[r] to first_step[r + 1], that one not included.
        first_edge: (R + 1,) int64, likewise.
        first_agent: (R + 1,) int64, likewise.
        run: (N,) int64, the run of each step.
        agent: (N,) int64, labels over the whole batch.
        role: (N,) int64.
        can_be_blamed: (N,) bool.
        edges: (3, E) int64, steps numbered over the whole batch.
        edge_weights: (E,) float32.
        features: (N, F) float32.
    """

    runs: tuple[Representation, ...]
    first_step: NDArray[np.int64]
    first_edge: NDArray[np.int64]
    first_agent: NDArray[np.int64]
    run: NDArray[np.int64]
    agent: NDArray[np.int64]
    role: NDArray[np.int64]
    can_be_blamed: NDArray[np.bool_]
    edges: NDArray[np.int64]
    edge_weights: NDArray[np.float32]
    features: NDArray[np.float32]

    @classmethod
    def of(cls, runs: Sequence[Representation]) -> Batch:
        """Put *runs* one after the other.

        Raises:
            ValueError: if there is none: a batch has features, and their number is not known of nothing.
        """
        if not runs:
            raise ValueError("expected at least one run, got none. Leave out empty batches")
        first_step, first_edge = _starts([len(run) for run in runs]), _starts([run.edges.shape[1] for run in runs])
        first_agent = _starts([len(run.agents) for run in runs])
        shifts = [np.array([[0], [start], [start]]) for start in first_step[:-1].tolist()]
        return cls(
            runs=tuple(runs),
            first_step=first_step,
            first_edge=first_edge,
            first_agent=first_agent,
            run=np.repeat(np.arange(len(runs)), np.diff(first_step)),
            agent=np.concatenate([run.agent + start for run, start in zip(runs, first_agent.tolist(), strict=False)]),
            role=np.concatenate([run.role for run in runs]),
            can_be_blamed=np.concatenate([run.can_be_blamed for run in runs]),
            edges=np.concatenate([run.edges + shift for run, shift in zip(runs, shifts, strict=True)], axis=1),
            edge_weights=np.concatenate([run.edge_weights for run in runs]),
            features=np.concatenate([run.features for run in runs]),
        )

    def __len__(self) -> int:
        return len(self.runs)


def _starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
