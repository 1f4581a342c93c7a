"""Figures of merit against values worked out by hand; stated probabilities are borne out."""

from __future__ import annotations

import numpy as np
import pytest

from blamespan_lab.statistics import (
    expected_calibration_error,
    f1,
    interval,
    micro_interval,
    percent,
    platt,
    separation,
)

LABELS = [{"a", "b"}, {"a"}, {"c"}]
ANSWERS = [{"a"}, {"a", "b"}, set[str]()]


def test_micro_f1_counts_over_all_runs() -> None:
    """Two hits, one false alarm, two misses: 2 * 2 / (2 * 2 + 1 + 2)."""
    assert f1(LABELS, ANSWERS).micro_f1 == pytest.approx(400 / 7)


def test_macro_f1_is_the_mean_over_classes() -> None:
    """`a` is always right (100), `b` once missed and once invented (0), `c` missed (0)."""
    assert f1(LABELS, ANSWERS).macro_f1 == pytest.approx(100 / 3)


def test_nothing_labelled_and_nothing_answered_scores_nothing() -> None:
    """No class at all gives 0, not an error."""
    assert (f1([set()], [set()]).micro_f1, f1([], []).macro_f1) == (0.0, 0.0)


def test_answers_must_match_runs() -> None:
    """A missing answer is the caller's mistake, not a silent truncation."""
    with pytest.raises(ValueError, match="inconsistent"):
        f1(LABELS, ANSWERS[:2])


def test_interval_of_a_certain_result_is_a_point() -> None:
    """Resampling runs that are all alike changes nothing."""
    assert interval([True] * 8) == (100.0, 100.0)
    assert micro_interval([{"a"}] * 8, [{"a"}] * 8) == (100.0, 100.0)


def test_interval_covers_the_binomial_spread() -> None:
    """Half right of a hundred: the normal approximation gives 40.2 to 59.8."""
    low, high = interval([True, False] * 50)

    assert low == pytest.approx(40.2, abs=1.5)
    assert high == pytest.approx(59.8, abs=1.5)


def test_intervals_repeat_with_their_seed() -> None:
    """The same seed gives the same bits, another seed other ones."""
    hits = [True, False, True, True, False] * 200

    for one, again, other in (
        (interval(hits, seed=seed) for seed in (1, 1, 2)),
        (micro_interval(LABELS * 9, ANSWERS * 9, seed=seed) for seed in (1, 1, 2)),
    ):
        assert one == again != other


def test_percent_of_no_run_is_zero() -> None:
    """An empty subset divides by nothing."""
    assert (percent([]), percent([True, False, False, True])) == (0.0, 50.0)


def test_scaling_undoes_a_known_distortion() -> None:
    """Scores three times too sure and shifted by 1 come back to slope 1/3 and offset 1/3."""
    generator = np.random.default_rng(0)
    log_odds = generator.normal(size=20_000)
    labels = generator.random(20_000) < 1 / (1 + np.exp(-log_odds))

    slope, offset = platt((3 * log_odds - 1).astype(np.float32), labels)

    assert (slope, offset) == pytest.approx((1 / 3, 1 / 3), abs=0.03)


def test_scaling_of_an_answer_that_is_never_right_stays_finite() -> None:
    """The prior keeps a mode without any held-out example from running away."""
    slope, offset = platt(np.linspace(-2, 2, 50).astype(np.float32), np.zeros(50, bool))

    assert np.isfinite([slope, offset]).all()
    assert offset < -1


def test_calibration_error_is_the_gap_between_stated_and_seen() -> None:
    """Always saying 0.9 and being right half the time is off by 0.4; saying what happens is off by nothing."""
    labels = np.arange(100) % 2 == 0

    assert expected_calibration_error(np.full(100, 0.9, np.float32), labels) == pytest.approx(0.4)
    assert expected_calibration_error(np.full(100, 0.5, np.float32), labels) == pytest.approx(0)


def test_separation_counts_pairs() -> None:
    """It is the share of pairs in which the positive scores higher, ties counting half."""
    positive, negative = np.array([3, 1, 2], np.float32), np.array([1, 0], np.float32)

    pairs = [(p > n) + 0.5 * (p == n) for p in positive for n in negative]
    assert separation(positive, negative) == pytest.approx(np.mean(pairs))
