"""Figures of merit against values worked out by hand."""

from __future__ import annotations

import pytest

from blamespan_lab.measuring.metrics import f1, interval, micro_interval, percent

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
    with pytest.raises(ValueError, match="shorter"):
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
    hits = [True, False, True, True, False] * 7

    assert interval(hits, seed=1) == interval(hits, seed=1)
    assert micro_interval(LABELS * 9, ANSWERS * 9, seed=1) == micro_interval(LABELS * 9, ANSWERS * 9, seed=1)


def test_percent_of_no_run_is_zero() -> None:
    """An empty subset divides by nothing."""
    assert (percent([]), percent([True, False, False, True])) == (0.0, 50.0)
