"""Choosing runs so that nothing but what was said tells which step was decisive, and whether a run failed.

A failure is unbalanced: its decisive step has a position, an agent, a length that an average step of the same run has
not. A run that succeeded is longer or shorter than failures are. Runs are chosen so that the imbalances of all of them
cancel out, over all and in every part of a corpus.

Dims: N runs to choose from, P columns of imbalance, C steps that could be decisive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace, Step
from blamespan_lab.make.corpus.plan import wanted_runs
from blamespan_lab.make.corpus.probes.surface import blamable_steps, digit_shares, positions, surfaces
from blamespan_lab.make.corpus.recipe import CorpusRecipe
from blamespan_lab.make.run_labels import Purpose, RunLabel

__all__ = [
    "CandidateRun",
    "choose_kept_runs",
    "choose_runs",
    "measure_imbalance",
    "measure_unlikeness",
    "relative_position",
]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_SWAPS = 1_000
_WHOLE_WEIGHT = 16.0
"""How much more it weighs that pulls cancel out over all than in one part: as much as in all the parts together, for
what the rest of a corpus pulls to is what a part is probed by."""
_FEWEST = 0.85
"""Share of the runs wanted below which balance may not bring them."""
_FEWEST_OF_PART = 0.6
"""The same of each part, of what would be its share."""
_CUTS = (10, 25, 40, 50, 60, 75, 90)
"""Percentiles at which runs that succeeded are to be as many as failures, by each thing that tells runs apart."""


def relative_position(trace: MessageActionTrace, decisive: int) -> float | None:
    """Return where a step stands among those that could be decisive, in [0, 1); None if it is none of them."""
    steps = [step.index for step in blamable_steps(trace)]
    return (steps.index(decisive) + 0.5) / len(steps) if decisive in steps else None


def measure_imbalance(
    trace: MessageActionTrace, decisive: int, duties: Mapping[str, str], *, extra_steps: float = 0.0
) -> Floats:
    """Return (P,) how the decisive step differs from the average of those that could be, and the run from its twin.

    Where every step of a run is as often decisive as the others, its pulls add up to nothing. The columns are what the
    probes go by, each by its rank and as the most and the least of it; the places; and what the agents are there for.

    Args:
        trace: The failed run.
        decisive: Index of a step that can be blamed.
        duties: What each agent does, by its name.
        extra_steps: By what share the run is longer than its twin.
    """
    steps = blamable_steps(trace)
    features = np.column_stack([surfaces(trace, steps), digit_shares(steps)])
    columns = [
        _ranks(features),
        _extremes(features),
        _extremes(-features),
        positions(len(steps)),
        _duties(steps, duties),
    ]
    table = np.column_stack(columns)
    row = next(number for number, step in enumerate(steps) if step.index == decisive)
    pulled: Floats = np.append(table[row] - table.mean(axis=0), np.clip(extra_steps, -1, 1))
    return pulled


def measure_unlikeness(rows: Floats, model: Floats) -> Floats:
    """Return (N, P) how each run is unlike the average of others, by whether it is above a few cuts of each column.

    Args:
        rows: (N, S) what probes see of each run.
        model: (M, S) the same of the runs that these should be like.
    """
    cuts = np.percentile(model, _CUTS, axis=0)  # (K, S)
    is_above = (rows[:, None, :] > cuts).reshape(len(rows), -1)
    expected = (model[:, None, :] > cuts).reshape(len(model), -1).mean(axis=0)
    unlikeness: Floats = is_above - expected
    return unlikeness


def choose_runs(pulls: Floats, parts: Sequence[Sequence[str]], count: int, *, fewest: float = _FEWEST) -> list[int]:
    """Choose *count* of the runs with the given pulls, or some fewer, so that these add up to as little as can be.

    Args:
        pulls: (N, P), in columns that weigh as much as their squares.
        parts: The parts of the corpus that each run belongs to, as many for each.
        count: How many.
        fewest: Down to which share of *count* it may be fewer, where that balances better.

    Returns:
        Their places in *pulls*, ascending. The same pulls give the same choice.
    """
    if len(pulls) == 0:
        return []
    choice = _Choice(pulls, _number_parts(parts), min(count, len(pulls)))
    choice.thin(count)
    choice.thin(round(fewest * count), while_better=True)
    choice.swap()
    return [int(index) for index in np.flatnonzero(choice.is_taken)]


class _Choice:
    """Runs that are taken, and how they pull in each part.

    A part weighs as the inverse of its size: what its runs add up to is then held against what chance alone makes of
    so many runs, and a small part counts as much as a large one.

    Args:
        rows: (N, P).
        parts: (N, K) numbers of the parts that each run is in, 0 being the whole.
        count: How many are to be taken in the end.
    """

    def __init__(self, rows: Floats, parts: Ints, count: int) -> None:
        self._rows = rows
        self._parts = parts
        self.is_taken = np.ones(len(rows), dtype=np.bool_)
        self._sizes = np.bincount(parts.ravel())
        self._fewest = np.floor(_FEWEST_OF_PART * self._sizes * count / len(rows))
        weights = len(rows) / self._sizes
        weights[0] = _WHOLE_WEIGHT
        self._weights = weights[parts]  # (N, K)
        self._own = (rows**2).sum(axis=1) * self._weights.sum(axis=1)
        totals = np.zeros((len(weights), rows.shape[1]))
        for column in parts.T:
            np.add.at(totals, column, rows)
        # (N,) how much each run pulls the way that its parts are pulled already
        self._along = np.einsum("np,np->n", rows, (totals * weights[:, None])[parts].sum(axis=1))

    def thin(self, count: int, *, while_better: bool = False) -> None:
        """Leave out, one after the other, what pulls most to one side, until *count* are left."""
        while self.is_taken.sum() > count:
            costs = self._costs_of_leaving()
            worst = int(np.argmin(costs))
            if not np.isfinite(costs[worst]) or (while_better and costs[worst] >= 0):
                return
            self._turn(worst)

    def swap(self) -> None:
        """Exchange one for another as long as that brings the totals nearer to nothing."""
        for _ in range(_SWAPS):
            costs = self._costs_of_leaving()
            out = int(np.argmin(costs))
            if not np.isfinite(costs[out]):
                return
            self._turn(out)
            gains = np.where(self.is_taken, np.inf, 2 * self._along + self._own)
            into = int(np.argmin(gains))
            if into == out or costs[out] + gains[into] >= -1e-9:
                self._turn(out)
                return
            self._turn(into)

    def _costs_of_leaving(self) -> Floats:
        """Return (N,) what the totals gain in size when a run is left out; infinite for those that must stay."""
        must_stay = (self._sizes <= self._fewest)[self._parts].any(axis=1)
        return np.where(self.is_taken & ~must_stay, self._own - 2 * self._along, np.inf)

    def _turn(self, row: int) -> None:
        """Take a run that was left out, or leave out one that was taken."""
        sign = -1 if self.is_taken[row] else 1
        self.is_taken[row] = not self.is_taken[row]
        self._sizes[self._parts[row]] += sign
        shared = np.where(self._parts == self._parts[row], self._weights, 0.0).sum(axis=1)  # (N,)
        self._along += sign * shared * np.einsum("np,p->n", self._rows, self._rows[row])


def _number_parts(parts: Sequence[Sequence[str]]) -> Ints:
    """Number the parts from 1, and lead each run's with 0 for the whole."""
    numbers: dict[tuple[int, str], int] = {}
    return np.array(
        [[0, *(numbers.setdefault((way, name), len(numbers) + 1) for way, name in enumerate(row))] for row in parts]
    )


def _ranks(table: Floats) -> Floats:
    """Rank each column of (C, S) from 0 to 1; equal ones share a rank."""
    below = (table[None, :, :] < table[:, None, :]).sum(axis=1)
    return np.asarray(below / max(len(table) - 1, 1), dtype=np.float64)


def _extremes(table: Floats) -> Floats:
    """Return (C, S) the chance that going by the most of each column finds a row, ties drawn fairly."""
    is_most = np.abs(table - table.max(axis=0)) <= 1e-12
    return np.asarray(is_most / is_most.sum(axis=0), dtype=np.float64)


def _duties(steps: Sequence[Step], duties: Mapping[str, str]) -> Floats:
    return np.array([[duties.get(step.agent, "") == duty for duty in _DUTIES] for step in steps], dtype=np.float64)


_DUTIES = ("planner", "researcher", "solver", "verifier", "reporter", "orchestrator", "debater", "judge")


_FAILURES: tuple[Purpose, ...] = ("faulty", "natural", "several")
_PURPOSE_WEIGHT = 4.0
"""How much a purpose that runs are too many of pulls, against any other way to pull."""
_EVEN = 0.1
"""What is no more uneven than this weighs less than all else: it could give away few points, however sure they were."""


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A run that may be kept.

    Attributes:
        label: Its label.
        imbalance: See `measure_imbalance`; empty for a run that succeeded.
        surface: What probes see of the whole run, `probes.surface.RUN_SURFACE`.
    """

    label: RunLabel
    imbalance: tuple[float, ...]
    surface: tuple[float, ...]


def choose_kept_runs(recipe: CorpusRecipe, candidates: Sequence[CandidateRun]) -> set[str]:
    """Choose the runs that a corpus keeps, by their trace ids. The same candidates give the same choice.

    Failures are chosen so that their pulls cancel out, over all and in every family and topology; then runs
    that succeeded so that they are as long, as busy, as wordy as the failures. Where failures fall short of what is
    wanted, more of the others are kept.
    """
    wanted = wanted_runs(recipe)
    n_failures = sum(wanted[purpose] for purpose in _FAILURES)
    failures = _choose_failures([run for run in candidates if run.label.outcome == "failure"], wanted, n_failures)
    short = n_failures - len(failures)
    n_harmless = wanted["harmless"] + (short // 2 if wanted["harmless"] else 0)
    harmless = _choose_like(failures, [run for run in candidates if run.label.purpose == "harmless"], n_harmless)
    n_clean = wanted["clean"] + (short - short // 2 if wanted["clean"] else 0)
    clean = [run for run in candidates if run.label.purpose == "clean"]
    ids = {run.label.twin for run in failures}
    twins = [run for run in clean if run.label.trace_id in ids]
    n_twins = min(len(twins) * recipe.balance.twins_percent // 100, n_clean)
    chosen = [*failures, *harmless, *_choose_like(failures, twins, n_twins)]
    chosen += _choose_like(failures, [run for run in clean if run.label.trace_id not in ids], n_clean - n_twins)
    return {run.label.trace_id for run in chosen}


def _choose_failures(pool: Sequence[CandidateRun], wanted: Mapping[str, int], count: int) -> list[CandidateRun]:
    """Choose *count* failures whose pulls cancel out; one of a purpose that there is too much of pulls that way too."""
    if not pool:
        return []
    pulls = np.array([run.imbalance for run in pool])
    pulls /= pulls.std(axis=0) + _EVEN
    purposes = np.array([[run.label.purpose == purpose for purpose in _FAILURES] for run in pool])
    excess = _PURPOSE_WEIGHT * (purposes - np.array([wanted[purpose] / count for purpose in _FAILURES]))
    taken = choose_runs(np.hstack([pulls, excess]), [_parts(run) for run in pool], count)
    return [pool[index] for index in taken]


def _choose_like(failures: Sequence[CandidateRun], pool: Sequence[CandidateRun], count: int) -> Sequence[CandidateRun]:
    """Choose *count* of *pool* that nothing but what is said tells from *failures*."""
    if not failures or len(pool) <= count:
        return pool[:count]
    rows = measure_unlikeness(np.array([run.surface for run in pool]), np.array([run.surface for run in failures]))
    return [pool[index] for index in choose_runs(rows, [_parts(run) for run in pool], count, fewest=1.0)]


def _parts(candidate: CandidateRun) -> tuple[str, str]:
    return candidate.label.family, candidate.label.topology
