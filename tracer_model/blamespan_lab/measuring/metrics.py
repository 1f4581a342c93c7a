"""Figures of merit for attributions; pure functions of labels and answers, all in percent.

F1 is 2TP / (2TP + FP + FN). *Micro* counts over all runs together. *Macro* is the plain mean of the F1
of every class that occurs in a label or an answer, as in scikit-learn's multilabel `f1_score`; AEGIS
publishes micro and macro figures but no scorer, so this reading of its macro-F1 is ours.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["BOOTSTRAPS", "F1", "f1", "interval", "micro_interval", "percent"]

BOOTSTRAPS = 2_000
"""Resamplings behind every interval; the ends then move by about 0.1 points from seed to seed."""

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class F1:
    """Micro- and macro-F1, percent."""

    micro_f1: float
    macro_f1: float


def f1(labels: Sequence[Set[Hashable]], answers: Sequence[Set[Hashable]]) -> F1:
    """Score sets of answers against sets of labels, one pair of sets per run.

    Raises:
        ValueError: if there are not as many answers as labels.
    """
    hits: Counter[Hashable] = Counter()
    false_alarms: Counter[Hashable] = Counter()
    misses: Counter[Hashable] = Counter()
    for label, answer in zip(labels, answers, strict=True):
        hits.update(label & answer)
        false_alarms.update(answer - label)
        misses.update(label - answer)
    classes = {*hits, *false_alarms, *misses}
    each = [_f1(hits[one], false_alarms[one], misses[one]) for one in classes]
    return F1(
        _f1(hits.total(), false_alarms.total(), misses.total()),
        float(np.mean(sorted(each))) if each else 0.0,  # sorted: a set's order must not reach the last bit
    )


def micro_interval(
    labels: Sequence[Set[Hashable]], answers: Sequence[Set[Hashable]], *, seed: int = 0
) -> tuple[float, float]:
    """Bootstrap the 95 % interval of the micro-F1, resampling runs."""
    pairs = zip(labels, answers, strict=True)
    counts = np.array([(len(label & answer), len(label) + len(answer)) for label, answer in pairs], dtype=np.float64)

    def micro(rows: Floats) -> Floats:
        hits, sizes = rows[..., 0].sum(axis=-1), rows[..., 1].sum(axis=-1)
        return np.where(sizes > 0, 200.0 * hits / np.maximum(sizes, 1.0), 0.0)

    return _bootstrap(counts, micro, seed)


def interval(hits: Sequence[bool], *, seed: int = 0) -> tuple[float, float]:
    """Bootstrap the 95 % interval of an accuracy, resampling runs."""
    return _bootstrap(np.array(hits, dtype=np.float64), lambda rows: 100.0 * rows.mean(axis=-1), seed)


def percent(hits: Sequence[float]) -> float:
    """Mean of *hits* in percent; 0 for none."""
    return 100.0 * sum(hits) / len(hits) if hits else 0.0


def _f1(hits: int, false_alarms: int, misses: int) -> float:
    size = 2 * hits + false_alarms + misses
    return 200.0 * hits / size if size else 0.0


def _bootstrap(rows: Floats, statistic: Callable[[Floats], Floats], seed: int) -> tuple[float, float]:
    if not len(rows):
        return 0.0, 0.0
    generator = np.random.default_rng(seed)
    draws = [statistic(rows[generator.integers(len(rows), size=len(rows))]) for _ in range(BOOTSTRAPS)]
    low, high = np.percentile(np.array(draws), [2.5, 97.5])
    return float(low), float(high)
