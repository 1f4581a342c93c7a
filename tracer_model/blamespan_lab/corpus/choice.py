"""Which of the runs that were made a corpus keeps: as many of each purpose as its recipe wants, giving nothing away."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from blamespan_lab.corpus.balance import chosen, unlike
from blamespan_lab.corpus.plan import wanted_runs
from blamespan_lab.corpus.recipe import CorpusRecipe
from blamespan_lab.replay.labels import Purpose, RunLabel

__all__ = ["Candidate", "kept_runs"]

_FAILURES: tuple[Purpose, ...] = ("faulty", "natural", "several")
_PURPOSE_WEIGHT = 4.0
"""How much a purpose that runs are too many of pulls, against any other way to pull."""
_EVEN = 0.1
"""What is no more uneven than this weighs less than all else: it could give away few points, however sure they were."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A run that may be kept.

    Attributes:
        label: Its label.
        pull: See `balance.pull`; empty for a run that succeeded.
        surface: What probes see of the whole run, `probes.surface.RUN_SURFACE`.
    """

    label: RunLabel
    pull: tuple[float, ...]
    surface: tuple[float, ...]


def kept_runs(recipe: CorpusRecipe, candidates: Sequence[Candidate]) -> set[str]:
    """Choose the runs that a corpus keeps, by their trace ids. The same candidates give the same choice.

    Failures are chosen so that their pulls cancel out, over all and in every family and topology; then runs
    that succeeded so that they are as long, as busy, as wordy as the failures. Where failures fall short of what is
    wanted, more of the others are kept.
    """
    wanted = wanted_runs(recipe)
    n_failures = sum(wanted[purpose] for purpose in _FAILURES)
    failures = _balanced([each for each in candidates if each.label.outcome == "failure"], wanted, n_failures)
    short = n_failures - len(failures)
    n_harmless = wanted["harmless"] + (short // 2 if wanted["harmless"] else 0)
    harmless = _like(failures, [each for each in candidates if each.label.purpose == "harmless"], n_harmless)
    n_clean = wanted["clean"] + (short - short // 2 if wanted["clean"] else 0)
    clean = [each for each in candidates if each.label.purpose == "clean"]
    ids = {each.label.twin for each in failures}
    twins = [each for each in clean if each.label.trace_id in ids]
    n_twins = min(len(twins) * recipe.balance.twins_percent // 100, n_clean)
    kept = [*failures, *harmless, *_like(failures, twins, n_twins)]
    kept += _like(failures, [each for each in clean if each.label.trace_id not in ids], n_clean - n_twins)
    return {each.label.trace_id for each in kept}


def _balanced(pool: Sequence[Candidate], wanted: Mapping[str, int], count: int) -> list[Candidate]:
    """Choose *count* failures whose pulls cancel out; one of a purpose that there is too much of pulls that way too."""
    if not pool:
        return []
    pulls = np.array([each.pull for each in pool])
    pulls /= pulls.std(axis=0) + _EVEN
    purposes = np.array([[each.label.purpose == purpose for purpose in _FAILURES] for each in pool])
    excess = _PURPOSE_WEIGHT * (purposes - np.array([wanted[purpose] / count for purpose in _FAILURES]))
    taken = chosen(np.hstack([pulls, excess]), [_parts(each) for each in pool], count)
    return [pool[place] for place in taken]


def _like(failures: Sequence[Candidate], pool: Sequence[Candidate], count: int) -> Sequence[Candidate]:
    """Choose *count* of *pool* that nothing but what is said tells from *failures*."""
    if not failures or len(pool) <= count:
        return pool[:count]
    rows = unlike(np.array([each.surface for each in pool]), np.array([each.surface for each in failures]))
    return [pool[place] for place in chosen(rows, [_parts(each) for each in pool], count, fewest=1.0)]


def _parts(candidate: Candidate) -> tuple[str, str]:
    return candidate.label.family, candidate.label.topology
