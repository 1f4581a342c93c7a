"""Which pairs are reported, and how the thresholds are chosen."""

from __future__ import annotations

import numpy as np

from blamespan_lab.train.lexical.training import choose_thresholds
from blamespan_tracer.alternatives.decision import Thresholds, decide
from blamespan_tracer.numeric import sigmoid


def table(*rows: list[float]) -> np.ndarray:
    return np.array(rows, np.float32)


def test_modes_past_the_threshold_are_reported() -> None:
    """Several modes of one agent may pass; an agent without any is not named."""
    assert decide([table([0.3, 0.25, 0.5], [0.1, 0.0, 0.4])], Thresholds(0.2, 0.9)) == [{(0, 0), (0, 1)}]


def test_likely_agent_is_reported_with_its_likeliest_mode() -> None:
    """An agent that is surely at fault is named even if no single mode is likely."""
    assert decide([table([0.3, 0.1, 0.5], [0.1, 0.15, 0.95])], Thresholds(0.2, 0.9)) == [{(0, 0), (1, 1)}]


def test_likeliest_pair_is_always_reported() -> None:
    """A verdict without any mode would say nothing."""
    assert decide([table([0.01, 0.02, 0.1])], Thresholds(0.5, 0.9)) == [{(0, 1)}]


def test_runs_are_decided_each_by_itself() -> None:
    """What is reported of a run does not depend on the runs beside it, and rows count from its own first agent."""
    runs = [
        table([0.01, 0.02, 0.1], [0.03, 0.01, 0.1]),
        table([0.3, 0.1, 0.5]),
        table([0.0, 0.1, 0.95], [0.1, 0.2, 0.3], [0.0, 0.0, 0.0]),
    ]

    decided = decide(runs, Thresholds(0.2, 0.9))

    assert decided == [{(1, 0)}, {(0, 0)}, {(0, 1), (1, 1)}]
    assert decided == [pairs for run in runs for pairs in decide([run], Thresholds(0.2, 0.9))]


def test_thresholds_separate_what_can_be_separated() -> None:
    """Where one threshold tells all pairs right, the choice gets every run right."""
    runs = [table([0.28, 0.02, 0.1], [0.05, 0.02, 0.1]), table([0.02, 0.25, 0.1], [0.02, 0.03, 0.1])]
    labels = [frozenset({(0, 0)}), frozenset({(0, 1)})]

    chosen = choose_thresholds(runs, labels)

    assert decide(runs, chosen) == labels


def test_sigmoid_never_overflows() -> None:
    """Log-odds of any size are probabilities, without a warning."""
    assert sigmoid(np.array([-1e30, 0, 1e30], np.float32)).tolist() == [0, 0.5, 1]
