"""Figures of merit: F1, intervals, calibration, agreement. Pure functions.

F1 is 2TP / (2TP + FP + FN). *Micro* counts over all runs together. *Macro* is the plain mean of the F1
of every class that occurs in a label or an answer, as scikit-learn computes it; AEGIS
publishes micro and macro figures but no scorer, so this reading of its macro-F1 is ours.

A coefficient of agreement between people, or people and a tracer, is 1 at full agreement and 0 where they agree as much
as by chance. Sources: Cohen, "A coefficient of agreement for nominal scales", 1960; Krippendorff, "Content analysis",
2004, chapter 11 (nominal, any number of people, missing answers); Bennett et al., "Communications through
limited-response questioning", 1954, for answers among a number of choices that differs from question to question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence, Set
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import bootstrap, rankdata
from sklearn.metrics import f1_score
from sklearn.preprocessing import MultiLabelBinarizer

BOOTSTRAPS = 2_000
"""Resamplings behind every interval; the ends then move by about 0.1 points from seed to seed."""
_AT_ONCE = 100
"""Resamplings held in memory at a time."""

Floats: TypeAlias = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class F1:
    """Micro- and macro-F1, percent."""

    micro_f1: float
    macro_f1: float


def f1(labels: Sequence[Set[Hashable]], answers: Sequence[Set[Hashable]]) -> F1:
    """Score sets of answers against sets of labels, one pair of sets per run; 0 where there is no class at all.

    Raises:
        ValueError: if there are not as many answers as labels.
    """
    classes = sorted({key for keys in (*labels, *answers) for key in keys}, key=repr)  # a set's order is no order
    if not classes:
        return F1(0.0, 0.0)
    one_hot = MultiLabelBinarizer(classes=classes, sparse_output=True)
    truth, predicted = one_hot.fit_transform(labels), one_hot.fit_transform(answers)
    if len(classes) == 1:  # scikit-learn takes one sparse column for no multilabel target
        truth, predicted = truth.toarray().ravel(), predicted.toarray().ravel()
        share = 100.0 * float(f1_score(truth, predicted, zero_division=0.0))
        return F1(share, share)
    micro, macro = (
        100.0 * float(f1_score(truth, predicted, average=average, zero_division=0.0)) for average in ("micro", "macro")
    )
    return F1(micro, macro)


def micro_interval(
    labels: Sequence[Set[Hashable]], answers: Sequence[Set[Hashable]], *, seed: int = 0
) -> tuple[float, float]:
    """Bootstrap the 95 % interval of the micro-F1, resampling runs."""
    pairs = list(zip(labels, answers, strict=True))

    def micro(hits: Floats, sizes: Floats, axis: int = -1) -> Floats:
        total = sizes.sum(axis=axis)
        return np.where(total > 0, 200.0 * hits.sum(axis=axis) / np.maximum(total, 1.0), 0.0)

    hits = [len(label & answer) for label, answer in pairs]
    return _bootstrap((hits, [len(label) + len(answer) for label, answer in pairs]), micro, seed)


def interval(hits: Sequence[float], *, seed: int = 0) -> tuple[float, float]:
    """Bootstrap the 95 % interval of a mean in percent, resampling runs."""

    def accuracy(draws: Floats, axis: int = -1) -> Floats:
        share: Floats = 100.0 * draws.mean(axis=axis)
        return share

    return _bootstrap((hits,), accuracy, seed)


def percent(hits: Sequence[float]) -> float:
    """Mean of *hits* in percent; 0 for none."""
    return 100.0 * sum(hits) / len(hits) if hits else 0.0


def _bootstrap(columns: Sequence[Sequence[float]], statistic: Callable[..., Floats], seed: int) -> tuple[float, float]:
    """Bootstrap the 95 % interval of a statistic of rows, whose values stand in *columns*; the ends are percentiles."""
    samples = tuple(np.array(column, dtype=np.float64) for column in columns)
    if len(samples[0]) < 2:  # SciPy resamples two rows or more
        value = float(statistic(*samples)) if len(samples[0]) else 0.0
        return value, value
    ends = bootstrap(
        samples,
        statistic,
        paired=True,
        vectorized=True,
        n_resamples=BOOTSTRAPS,
        batch=_AT_ONCE,
        method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(ends.low), float(ends.high)


_PRIOR = 10.0
"""Pulls slope to 1 and offset to 0 like ten observations would: rare modes must not run away."""


def platt(scores: Floats, labels: NDArray[np.bool_]) -> tuple[float, float]:
    """Fit slope and offset of one answer's log-odds.

    Args:
        scores: (N,) raw log-odds.
        labels: (N,) whether the answer was right.

    Source: Platt, "Probabilistic outputs for support vector machines", 1999; the prior is ours.
    """
    design = np.stack([scores.astype(np.float64), np.ones(len(scores))], axis=1)  # (N, 2)
    prior = np.array([1.0, 0.0])

    def loss(point: Floats) -> float:
        logits = design @ point
        return float((np.logaddexp(0, logits) - labels * logits).sum() + _PRIOR / 2 * ((point - prior) ** 2).sum())

    def gradient(point: Floats) -> Floats:
        slope: Floats = design.T @ (expit(design @ point) - labels) + _PRIOR * (point - prior)
        return slope

    def curvature(point: Floats) -> Floats:
        chances = expit(design @ point)
        curve: Floats = (design * (chances * (1 - chances))[:, None]).T @ design + _PRIOR * np.eye(2)
        return curve

    slope, offset = minimize(loss, prior, jac=gradient, hess=curvature, method="trust-exact", options={"gtol": 1e-8}).x
    return float(slope), float(offset)


def expected_calibration_error(probabilities: Floats, labels: NDArray[np.bool_], *, bins: int = 10) -> float:
    """Measure the mean gap between stated and observed probability over equally wide bins, 0..1."""
    bin_of = np.minimum((probabilities * bins).astype(int), bins - 1)
    gaps = [
        abs(float(probabilities[is_in].mean()) - float(labels[is_in].mean())) * float(is_in.mean())
        for number in range(bins)
        if (is_in := bin_of == number).any()
    ]
    return float(sum(gaps))


def separation(positive: Floats, negative: Floats) -> float:
    """Measure how often a positive scores above a negative, ties half (the area under the ROC curve), 0..1.

    By ranks: scikit-learn checks its arguments for milliseconds, thousands of times where an interval is drawn.
    """
    n_positive, n_pairs = len(positive), len(positive) * len(negative)
    above = rankdata(np.concatenate([positive, negative]))[:n_positive].sum() - n_positive * (n_positive + 1) / 2
    return float(above / n_pairs) if n_pairs else float("nan")


_AnswerT = TypeVar("_AnswerT", bound=Hashable)


def consensus(answers: Sequence[_AnswerT]) -> _AnswerT | None:
    """Return the answer that more people give than any other; None where two are as frequent, or there is none."""
    ranked = Counter(answers).most_common(2)
    if not ranked or (len(ranked) == 2 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def kappa(pairs: Sequence[tuple[Hashable, Hashable]]) -> float | None:
    """Compute Cohen's kappa of two who answered the same questions; None where chance alone would agree fully."""
    if not pairs:
        return None
    agreement = sum(left == right for left, right in pairs) / len(pairs)
    lefts, rights = Counter(left for left, _ in pairs), Counter(right for _, right in pairs)
    by_chance = sum(count * rights[answer] for answer, count in lefts.items()) / len(pairs) ** 2
    return None if by_chance >= 1 else (agreement - by_chance) / (1 - by_chance)


def alpha(units: Sequence[Sequence[Hashable]]) -> float | None:
    """Compute Krippendorff's alpha for names.

    Args:
        units: The answers to each question; a question with fewer than two says nothing.

    Returns:
        At most 1; None where nothing can be compared, or all answers are the same.
    """
    pairable = [Counter(unit) for unit in units if len(unit) > 1]
    total = sum(counts.total() for counts in pairable)
    if not total:
        return None
    differing = sum(_unequal(counts) / (counts.total() - 1) for counts in pairable) / total
    every = sum(pairable, Counter[Hashable]())
    by_chance = _unequal(every) / (total * (total - 1))
    return None if by_chance == 0 else 1 - differing / by_chance


def pairwise(units: Sequence[Sequence[Hashable]]) -> list[bool]:
    """Return for each pair of answers to the same question whether they are equal."""
    return [left == right for unit in units for left, right in combinations(unit, 2)]


def s_score(units: Sequence[Sequence[Hashable]], choices: Sequence[int]) -> float | None:
    """Compute Bennett's S: agreement over chance where chance picks any of a question's choices alike.

    Args:
        units: The answers to each question.
        choices: How many answers each question has, at least 1.
    """
    pairs = [
        (left == right, 1 / count)
        for unit, count in zip(units, choices, strict=True)
        for left, right in combinations(unit, 2)
    ]
    if not pairs:
        return None
    agreement = sum(is_same for is_same, _ in pairs) / len(pairs)
    by_chance = sum(chance for _, chance in pairs) / len(pairs)
    return None if by_chance >= 1 else (agreement - by_chance) / (1 - by_chance)


def _unequal(counts: Counter[Hashable]) -> float:
    """Count ordered pairs of unequal answers."""
    total = counts.total()
    return float(total * total - sum(count * count for count in counts.values()))
