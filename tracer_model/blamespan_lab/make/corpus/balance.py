"""Choosing runs so that nothing but what was said tells which step was decisive, and whether a run failed.

A failure is unbalanced: its decisive step has a position, an agent, a length that an average step of the same run has
not. A run that succeeded is longer or shorter than failures are. Runs are chosen one after the other so that the
imbalances of all of them cancel out, over all and in every family and topology (herding: Welling, "Herding dynamical
weights to learn", ICML 2009).

Dims: N runs to choose from, P columns of imbalance, C steps that could be decisive.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from blamespan.trace import MessageActionTrace
from blamespan_lab.make.corpus.recipe import CorpusRecipe, wanted_runs
from blamespan_lab.make.corpus.surface import blamable_steps, positions, surfaces
from blamespan_lab.make.run_labels import Purpose, RunLabel
from blamespan_lab.make.simulation.agents.team import Role

Floats: TypeAlias = NDArray[np.float64]

_CUTS = (10, 25, 40, 50, 60, 75, 90)
"""Percentiles of failures at which sound runs are to be as many, by each thing that tells runs apart."""
_FAILURES: tuple[Purpose, ...] = ("faulty", "natural", "several")
_PURPOSE_WEIGHT = 4.0
"""How much a purpose that runs are too many of weighs, against any other imbalance."""


def relative_position(trace: MessageActionTrace, decisive: int) -> float | None:
    """Return where a step stands among those that could be decisive, in [0, 1); None if it is none of them."""
    steps = [step.index for step in blamable_steps(trace)]
    return (steps.index(decisive) + 0.5) / len(steps) if decisive in steps else None


def measure_imbalance(
    trace: MessageActionTrace, decisive: int, duties: Mapping[str, str], *, extra_steps: float = 0.0
) -> Floats:
    """Return (P,) how the decisive step differs from the average of those that could be, and the run from its twin.

    Where every step of a run is as often decisive as the others, its imbalances add up to nothing. The columns are what
    the probes go by, each by its rank and as the most and the least of it; the places; and what the agents are for.

    Args:
        trace: The failed run.
        decisive: Index of a step that can be blamed.
        duties: What each agent does, by its name.
        extra_steps: By what share the run is longer than its twin.
    """
    steps = blamable_steps(trace)
    features = surfaces(trace, steps)
    ranks = (rankdata(features, method="min", axis=0) - 1) / max(len(steps) - 1, 1)
    roles = np.array([[duties.get(step.agent, "") == role for role in get_args(Role)] for step in steps], np.float64)
    table = np.column_stack([ranks, _share_of_most(features), _share_of_most(-features), positions(len(steps)), roles])
    row = next(number for number, step in enumerate(steps) if step.index == decisive)
    imbalance: Floats = np.append(table[row] - table.mean(axis=0), np.clip(extra_steps, -1, 1))
    return imbalance


def _share_of_most(table: Floats) -> Floats:
    """Return (C, S) the chance that going by the most of each column finds a row, ties drawn fairly."""
    is_most = np.abs(table - table.max(axis=0)) <= 1e-12
    shares: Floats = is_most / is_most.sum(axis=0)
    return shares


def choose_runs(rows: Floats, parts: Sequence[tuple[str, ...]], count: int) -> list[int]:
    """Choose *count* runs whose rows add up to as little as can be, over all and in each part.

    Each combination of parts gives its share of the runs, as far as it has them.

    Args:
        rows: (N, P) imbalances, in columns that weigh as much as their squares.
        parts: The parts that each run belongs to: family, topology.
        count: How many.

    Returns:
        Their places in *rows*, ascending. The same rows give the same choice.
    """
    if len(rows) <= count:
        return list(range(len(rows)))
    cells = np.unique([" ".join(names) for names in parts], return_inverse=True)[1]
    quota = np.bincount(cells) * count / len(rows)
    members = OneHotEncoder(sparse_output=False).fit_transform(parts)  # (N, K)
    members = np.column_stack([np.ones(len(rows)), members * np.sqrt(len(rows) / members.sum(axis=0))])
    own = (rows**2).sum(axis=1) * (members**2).sum(axis=1)
    totals = np.zeros((members.shape[1], rows.shape[1]))  # of the whole, and of each part by its inverse size
    is_open, sizes = np.ones(len(rows), np.bool_), np.zeros(len(quota))
    for _ in range(count):
        gains = 2 * np.einsum("np,np->n", rows, members @ totals) + own
        is_due = sizes < (np.ceil(quota) if (sizes < np.floor(quota)).any() else len(rows))
        chosen = int(np.argmin(np.where(is_open & is_due[cells], gains, np.inf)))
        is_open[chosen] = False
        sizes[cells[chosen]] += 1
        totals += np.outer(members[chosen], rows[chosen])
    return np.flatnonzero(~is_open).tolist()


@dataclass(frozen=True, slots=True)
class CandidateRun:
    """A run that may be kept.

    Attributes:
        label: Its label.
        imbalance: See `measure_imbalance`; empty for a run that succeeded.
        surface: What probes see of the whole run, `surface.RUN_SURFACE`.
    """

    label: RunLabel
    imbalance: tuple[float, ...]
    surface: tuple[float, ...]


def choose_kept_runs(recipe: CorpusRecipe, candidates: Sequence[CandidateRun]) -> set[str]:
    """Choose the runs that a corpus keeps, by their trace ids. The same candidates give the same choice.

    Failures are chosen so that their imbalances cancel out; then runs that succeeded so that they are as long, as busy,
    as wordy as the failures. Where failures fall short of what is wanted, more of the others are kept.
    """
    wanted = wanted_runs(recipe)
    n_failures = sum(wanted[purpose] for purpose in _FAILURES)
    failures = _choose_failures([run for run in candidates if run.label.outcome == "failure"], wanted, n_failures)
    short = n_failures - len(failures)
    n_harmless = wanted["harmless"] + (short // 2 if wanted["harmless"] else 0)
    n_clean = wanted["clean"] + (short - short // 2 if wanted["clean"] else 0)
    clean = [run for run in candidates if run.label.purpose == "clean"]
    ids = {run.label.twin for run in failures}
    twins = [run for run in clean if run.label.trace_id in ids]
    n_twins = min(len(twins) * recipe.balance.twins_percent // 100, n_clean)
    chosen = [
        *failures,
        *_choose_like(failures, [run for run in candidates if run.label.purpose == "harmless"], n_harmless),
        *_choose_like(failures, twins, n_twins),
        *_choose_like(failures, [run for run in clean if run.label.trace_id not in ids], n_clean - n_twins),
    ]
    return {run.label.trace_id for run in chosen}


def _choose_failures(pool: Sequence[CandidateRun], wanted: Mapping[str, int], count: int) -> list[CandidateRun]:
    """Choose *count* failures whose imbalances cancel out; one of a purpose that is too frequent is unbalanced, too."""
    if not pool:
        return []
    scale = StandardScaler(with_mean=False)
    imbalances = scale.fit_transform(np.array([run.imbalance for run in pool]))
    purposes = np.array([[run.label.purpose == purpose for purpose in _FAILURES] for run in pool])
    excess = _PURPOSE_WEIGHT * (purposes - np.array([wanted[purpose] / count for purpose in _FAILURES]))
    return [pool[index] for index in choose_runs(np.hstack([imbalances, excess]), _list_parts(pool), count)]


def _choose_like(failures: Sequence[CandidateRun], pool: Sequence[CandidateRun], count: int) -> Sequence[CandidateRun]:
    """Choose *count* of *pool* that nothing but what is said tells from *failures*."""
    if not failures or len(pool) <= count:
        return pool[:count]
    cuts = np.percentile([run.surface for run in failures], _CUTS, axis=0)  # (K, S)

    def compare(runs: Sequence[CandidateRun]) -> Floats:
        is_above = np.array([run.surface for run in runs])[:, None, :] > cuts
        return is_above.reshape(len(runs), -1).astype(np.float64)

    rows = compare(pool) - compare(failures).mean(axis=0)
    return [pool[index] for index in choose_runs(rows, _list_parts(pool), count)]


def _list_parts(runs: Sequence[CandidateRun]) -> list[tuple[str, ...]]:
    return [(run.label.family, run.label.topology) for run in runs]
