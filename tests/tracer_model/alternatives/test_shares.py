"""How blame is shared over an agent's steps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blamespan_tracer.alternatives.shares import answer_weights, begin_shares, suspicion


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=60))
def test_shares_add_up_to_one(scores: list[float]) -> None:
    """Whatever the scores, all of the agent's blame is shared out, and none is negative."""
    shares = begin_shares(scores)

    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= 0


def test_equal_steps_have_equal_hazards() -> None:
    """Where nothing tells three steps apart, each begins the fault with chance 1/3, if none before it did."""
    assert begin_shares([0, 0, 0]) == pytest.approx([9 / 19, 6 / 19, 4 / 19])


def test_scale_of_scores_does_not_matter() -> None:
    """Longer texts give larger scores; only how a step compares with the others counts."""
    assert begin_shares([0.8, 4.0, 1.6]) == pytest.approx(begin_shares([0.1, 0.5, 0.2]))


def test_first_of_two_suspicious_steps_takes_more() -> None:
    """Later suspicious steps are mostly consequences of the first."""
    shares = begin_shares([0, 3, 3, 0])

    assert shares[1] == max(shares)
    assert shares[1] > 1.5 * shares[2]


def test_step_that_stands_out_beats_earlier_ones() -> None:
    """A clear anomaly is not outvoted by harmless steps before it."""
    shares = begin_shares([0, 0, 0, 9, 0])

    assert shares[3] == max(shares)


def test_suspicion_weighs_modes_by_their_probability() -> None:
    """Contributions to a likely mode count; those to an impossible one do not."""
    by_step = np.array([[1, 5, 0.5], [2, 0, 0]], np.float32)

    weights = answer_weights(np.array([[0.4, 0.0, 0.5]], np.float32))

    assert suspicion(by_step, weights).tolist() == [1.25, 2.0]
