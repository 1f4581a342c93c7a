"""Stated probabilities are borne out."""

from __future__ import annotations

import numpy as np
import pytest

from blamespan_lab.training.calibration import expected_calibration_error, platt, separation


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
