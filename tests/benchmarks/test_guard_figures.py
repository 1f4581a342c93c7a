"""What the table of `scripts/bench guard` says follows from what was measured; each bar has its sound twin."""

from __future__ import annotations

import pytest

pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

from tests.benchmarks.bench_guard import POLICY
from tests.benchmarks.guard_figures import find_percentile, fit_growth, sum_up_timings, sum_up_tries
from tests.benchmarks.guard_rows import Timing, WayTries

from blamespan.guarding.policy import read_policy
from blamespan.guarding.watching import make_watcher


def test_one_call_that_gets_through_misses_the_bar_and_so_does_a_way_that_leads_nowhere() -> None:
    """A way counts only where it leads to the tool without a guard."""
    held = [WayTries("autogen", "plain", 500, 0, True), WayTries("langgraph", "sends", 500, 0, True)]

    assert sum_up_tries(held)["bars"]["forbidden"]
    assert not sum_up_tries([*held, WayTries("autogen", "code", 10, 1, True)])["bars"]["forbidden"]
    assert not sum_up_tries([*held, WayTries("autogen", "code", 10, 0, False)])["bars"]["forbidden"]


def timing(steps: int, added_s: float) -> Timing:
    return Timing("autogen", "findings", steps, (added_s,) * steps, (added_s,) * steps, 1)


def test_time_is_judged_at_two_hundred_steps_and_over_lengths() -> None:
    """What grows faster than the run's length misses the bar, what takes the same time does not."""
    flat = sum_up_timings([timing(steps, 0.002) for steps in (50, 200, 400)], "findings")
    steep = sum_up_timings([timing(steps, 1e-8 * steps**2) for steps in (50, 200, 400)], "findings")
    slow = sum_up_timings([timing(200, 0.004), timing(400, 0.001)], "findings")

    assert flat["bars"] == {"time_p50": True, "time_p99": True, "time_growth": True}
    assert steep["bars"]["time_growth"] is False
    assert slow["bars"]["time_p50"] is False
    assert fit_growth([(50, 1.0)]) is None
    assert find_percentile(range(1, 101), 99) == 99


def test_measured_policy_is_one_that_can_be_used() -> None:
    """Every check in it is known, and every rule has a name to be counted by."""
    policy = read_policy(POLICY)
    make_watcher([policy], "task")

    assert all(rule.name == rule.check for rule in policy.findings)
