"""The probes: each learns from some runs and guesses about others.

A *step probe* gives every step that could be decisive a score; a *run probe* gives every run one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan_lab.make.corpus.probes.models import Bags, fit_chooser, fit_separator, hit_shares
from blamespan_lab.make.corpus.probes.surface import RUN_SURFACE, SURFACE, WORDS, ProbedRun

__all__ = ["BLIND", "RUN_PROBES", "STEP_PROBES", "Guess"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

Guess: TypeAlias = tuple[Floats, str]
"""For each run, the chance that the guess is right; and what was found to go by, where that is one thing."""

BLIND = frozenset({"position", "single feature", "agent's name"})
"""Probes that read nothing of what is said: by these nothing may be found out."""

_RARE = 97.5
"""Percentile of how odd the steps of clean runs are, past which a step is an anomaly."""


def _by_position(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> Guess:
    mean, spread = _scale([run.position for run in learnt])
    groups, gold, rows = _stack([(run.position - mean) / spread for run in learnt], learnt)
    weights = fit_chooser(rows, groups, _mark(gold, len(rows)))
    groups, gold, rows = _stack([(run.position - mean) / spread for run in asked], asked)
    return hit_shares(rows @ weights, groups, gold), ""


def _by_single_feature(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> Guess:
    groups, gold, rows = _stack([run.surface for run in learnt], learnt)
    ways = [(column, sign) for column in range(len(SURFACE)) for sign in (1.0, -1.0)]
    hits = [hit_shares(sign * rows[:, column], groups, gold).mean() for column, sign in ways]
    column, sign = ways[int(np.argmax(hits))]
    groups, gold, rows = _stack([run.surface for run in asked], asked)
    return hit_shares(sign * rows[:, column], groups, gold), f"{'most' if sign > 0 else 'least'} {SURFACE[column]}"


def _by_name(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> Guess:
    """Go by how often who has this name was decisive, against how often it would have been by chance."""
    counts: dict[str, float] = {}
    by_chance: dict[str, float] = {}
    for run in learnt:
        counts[run.names[run.decisive]] = counts.get(run.names[run.decisive], 0.0) + 1
        for name in run.names:
            by_chance[name] = by_chance.get(name, 0.0) + 1 / len(run.names)
    ratio = {name: (counts.get(name, 0.0) + 3) / (chance + 3) for name, chance in by_chance.items()}
    groups, gold, _ = _stack([run.position for run in asked], asked)
    return hit_shares(np.array([ratio.get(name, 1.0) for run in asked for name in run.names]), groups, gold), ""


def _by_digits(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> Guess:
    groups, gold, rows = _stack([run.digits for run in learnt], learnt)
    sign = max((1.0, -1.0), key=lambda sign: float(hit_shares(sign * rows, groups, gold).mean()))
    groups, gold, rows = _stack([run.digits for run in asked], asked)
    return hit_shares(sign * rows, groups, gold), f"{'most' if sign > 0 else 'least'} digits"


def _by_words(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> Guess:
    groups, gold, _ = _stack([run.position for run in learnt], learnt)
    weights = fit_chooser(
        Bags.of([words for run in learnt for words in run.words], WORDS), groups, _mark(gold, len(groups))
    )
    groups, gold, _ = _stack([run.position for run in asked], asked)
    return hit_shares(Bags.of([words for run in asked for words in run.words], WORDS).times(weights), groups, gold), ""


def _by_first_anomaly(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> Guess:
    """Go to the first step odder than nearly all of clean runs are; where none is, to the oddest."""
    oddness = _oddness(learnt)
    clean = np.concatenate([oddness(run) for run in learnt if not run.failed] or [np.zeros(1)])
    threshold = float(np.percentile(clean, _RARE))
    scores = []
    for run in asked:
        odd = oddness(run)
        is_past = odd > threshold
        scores.append(np.where(is_past, 1e6 - np.arange(len(odd)), odd))
    groups, gold, _ = _stack([run.position for run in asked], asked)
    return hit_shares(np.concatenate(scores), groups, gold), ""


def _run_by_single_feature(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> Guess:
    table, failed = np.array([run.run_surface for run in learnt]), np.array([run.failed for run in learnt])
    cuts = [_find_best_cut(table[:, column], failed) for column in range(len(RUN_SURFACE))]
    column = max(range(len(cuts)), key=lambda index: cuts[index][0])
    _, threshold, sign = cuts[column]
    asked_failed = np.array([run.failed for run in asked])
    is_past = sign * np.array([run.run_surface[column] for run in asked]) > sign * threshold
    return (is_past == asked_failed).astype(np.float64), f"{'more' if sign > 0 else 'less'} {RUN_SURFACE[column]}"


def _run_by_words(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> Guess:
    weights = fit_separator(_run_bags(learnt), np.array([run.failed for run in learnt]))
    return ((_run_bags(asked).times(weights) > 0) == np.array([run.failed for run in asked])).astype(np.float64), ""


def _run_by_first_anomaly(learnt: Sequence[ProbedRun], asked: Sequence[ProbedRun]) -> Guess:
    oddness = _oddness(learnt)
    odd = np.array([oddness(run).max() for run in learnt])
    _, threshold, sign = _find_best_cut(odd, np.array([run.failed for run in learnt]))
    is_past = sign * np.array([oddness(run).max() for run in asked]) > sign * threshold
    return (is_past == np.array([run.failed for run in asked])).astype(np.float64), ""


_Probe: TypeAlias = Callable[[Sequence[ProbedRun], Sequence[ProbedRun]], Guess]

STEP_PROBES: Mapping[str, _Probe] = MappingProxyType(
    {
        "position": _by_position,
        "single feature": _by_single_feature,
        "agent's name": _by_name,
        "digits": _by_digits,
        "first anomaly": _by_first_anomaly,
        "bag of words": _by_words,
    }
)
"""Which step was decisive. They learn from failed runs, the anomalies from clean ones too."""

RUN_PROBES: Mapping[str, _Probe] = MappingProxyType(
    {"single feature": _run_by_single_feature, "first anomaly": _run_by_first_anomaly, "bag of words": _run_by_words}
)
"""Whether a run failed."""


def _stack(tables: Sequence[Floats], runs: Sequence[ProbedRun]) -> tuple[Ints, Ints, Floats]:
    """Lay the steps of runs out: the run of each row, the decisive row of each run, and the rows themselves."""
    sizes = np.array([len(table) for table in tables])
    groups = np.repeat(np.arange(len(runs)), sizes)
    gold = np.cumsum([0, *sizes[:-1]]) + np.array([run.decisive for run in runs])
    return groups, gold, np.concatenate(tables)


def _mark(gold: Ints, count: int) -> NDArray[np.bool_]:
    marks = np.zeros(count, dtype=np.bool_)
    marks[gold] = True
    return marks


def _scale(tables: Sequence[Floats]) -> tuple[Floats, Floats]:
    stacked = np.concatenate(tables)
    return stacked.mean(axis=0), stacked.std(axis=0) + 1e-9


def _run_bags(runs: Sequence[ProbedRun]) -> Bags:
    return Bags.of([np.unique(np.concatenate(run.words)) for run in runs], WORDS)


def _oddness(learnt: Sequence[ProbedRun]) -> Callable[[ProbedRun], Floats]:
    """Learn how odd a step is: how rare its rarest tenth of words is in the steps of clean runs, on average."""
    clean = [words for run in learnt if not run.failed for words in run.words]
    counts = np.zeros(WORDS)
    for words in clean:
        counts[words] += 1
    rarity = -np.log((counts + 1) / (len(clean) + 1))

    def odd(run: ProbedRun) -> Floats:
        return np.array(
            [np.sort(rarity[words])[-max(1, len(words) // 10) :].mean() if len(words) else 0.0 for words in run.words]
        )

    return odd


def _find_best_cut(values: Floats, is_positive: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Find the threshold that separates best: balanced accuracy, threshold, and 1.0 if positives lie above it."""
    order = np.argsort(values, kind="stable")
    ordered, marks = values[order], is_positive[order]
    below_positive = np.cumsum(marks) / max(marks.sum(), 1)
    below_negative = np.cumsum(~marks) / max((~marks).sum(), 1)
    is_cut = np.append(np.diff(ordered) > 0, False)
    gain = np.where(is_cut, below_negative - below_positive, 0.0)
    at = int(np.argmax(np.abs(gain)))
    threshold = float((ordered[at] + ordered[min(at + 1, len(ordered) - 1)]) / 2)
    return 0.5 + abs(float(gain[at])) / 2, threshold, 1.0 if gain[at] >= 0 else -1.0
