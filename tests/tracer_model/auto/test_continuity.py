"""What steps leave out of what they were handed, and what they bring in."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from blamespan_tracer.auto.continuity import CONTINUITY_FEATURES, continuity_features
from tests.tracer_model.runs import trace

TASK = "Order the pallets of Brask Mill."
LIST = "Brask Mill wants 14 pallets at 62.50 EUR by 9 May."
RIGHT, WRONG = "Ordered: 14 pallets at 62.50 EUR by 9 May.", "Ordered: 11 pallets at 62.50 EUR."
LEFT_OUT = "figures left out of the last message of another agent"


def _features(*lines: tuple[str, str]) -> list[Mapping[str, float]]:
    rows = continuity_features(trace(*lines, task=TASK))
    return [dict(zip(CONTINUITY_FEATURES, row.tolist(), strict=True)) for row in rows]


def test_a_copy_that_loses_figures_leaves_out_more_than_its_sound_twin() -> None:
    """Of three figures the whole copy leaves out none; the other one leaves out two and brings in one."""
    whole, cut = (_features(("planner", LIST), ("buyer", text))[1] for text in (RIGHT, WRONG))

    assert whole[LEFT_OUT] == whole["new figures"] == 0.0
    assert cut[LEFT_OUT] == 2 / 4
    assert cut["share of new figures"] == 1 / 3


def test_what_is_left_out_moves_with_the_mistake() -> None:
    """Where the next agent loses the figures, its step leaves them out, and the step before does not."""
    early = _features(("planner", LIST), ("buyer", WRONG), ("clerk", WRONG))
    late = _features(("planner", LIST), ("buyer", RIGHT), ("clerk", WRONG))

    assert [row[LEFT_OUT] > 0 for row in early] == [False, True, False]
    assert [row[LEFT_OUT] > 0 for row in late] == [False, False, True]


def test_a_new_figure_goes_on_where_a_later_step_has_it() -> None:
    """A figure that nobody repeats goes nowhere."""
    repeated = _features(("planner", LIST), ("buyer", WRONG), ("clerk", "Booked: 11 pallets."))
    dropped = _features(("planner", LIST), ("buyer", WRONG), ("clerk", "Booked."))

    assert repeated[1]["new figures that go on"] > 0
    assert dropped[1]["new figures that go on"] == 0


def test_steps_without_words_have_numbers_in_every_column() -> None:
    """A run without steps has no rows; an empty step of an empty task has finite ones."""
    assert continuity_features(trace(task="")).shape == (0, len(CONTINUITY_FEATURES))
    assert np.isfinite(continuity_features(trace(("a", ""), task=""))).all()
