"""What a run says against its steps: contradictions by their kind, broken checks by their weight, repetition."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from blamespan_tracer.auto.observed_run import DOUBTS, ObservedRun, observe
from blamespan_tracer.checks import CHECKS, apply_checks
from blamespan_tracer.checks.alarms import weight_of
from tests.tracer_model.teams import team


def _doubts(run: ObservedRun, step: int) -> Mapping[str, float]:
    return dict(zip(DOUBTS, run.doubts[step].tolist(), strict=True))


def test_a_wrong_copy_is_doubted_by_the_kind_of_its_contradiction() -> None:
    """A copy that differs in a digit is near its source and has none; the right copy is doubted by nothing."""
    right, wrong = "The deposit of 48,213 was paid.", "The deposit of 48,273 was paid."

    copied, mistaken = (observe(team(("A", right), ("B", text), task="Pay."), ()) for text in (right, wrong))

    assert _doubts(mistaken, 1)["near"] > 1
    assert _doubts(mistaken, 1)["no source"] > 1
    assert not any(_doubts(copied, 1).values())


def test_what_the_run_puts_right_is_not_doubted() -> None:
    """The same wrong copy that a later step corrects has no standing contradiction."""
    right, wrong = "The deposit of 48,213 was paid.", "The deposit of 48,273 was paid."

    standing = observe(team(("A", right), ("B", wrong), ("A", "Thank you, that is all."), task="Pay."), ())
    mended = observe(team(("A", right), ("B", wrong), ("B", right), task="Pay."), ())

    assert _doubts(standing, 1)["near"] > 1
    assert _doubts(mended, 1)["near"] == 0


def test_broken_checks_count_by_their_weight() -> None:
    """A wrong sum counts as much as its check says; the right one counts nothing, nor does the step beside it."""
    check = next(check for check in CHECKS if check.name == "sum-holds")

    def observed(total: str) -> ObservedRun:
        trace = team(("A", f"The bills are 120 + 260 = {total} EUR."), ("B", "Thank you."), task="Add the bills.")
        return observe(trace, apply_checks([check], trace))

    assert observed("390").checks.tolist() == [pytest.approx(weight_of(check)), 0.0]
    assert not observed("380").checks.any()


def test_who_says_the_same_again_repeats() -> None:
    """An agent that repeats itself is told from one that repeats another; new words repeat nothing."""
    text = "I will look for the invoice of March."

    own = observe(team(("A", text), ("B", "Go on, please."), ("A", text), task="Find it."), ())
    others = observe(team(("A", text), ("B", text), task="Find it."), ())

    assert own.repeats.tolist() == [0, 0, 2]
    assert others.repeats.tolist() == [0, 1]
