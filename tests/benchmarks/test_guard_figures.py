"""What the table of `scripts/bench guard` says follows from what was measured; each bar has its sound twin."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

from tests.benchmarks.bench_guard import POLICY
from tests.benchmarks.guard_figures import (
    compare_arms,
    find_percentile,
    fit_growth,
    gather_bars,
    sum_up_overruns,
    sum_up_same,
    sum_up_solved,
    sum_up_timings,
    sum_up_tries,
)
from tests.benchmarks.guard_rows import Overruns, Timing, WayTries
from tests.benchmarks.guard_work import ArmRun, Trial, TrialPlan, plan_trials

from blamespan.guarding.policy import read_policy
from blamespan.guarding.watching import make_watcher
from blamespan_lab.make.corpus.recipe import find_recipe

PLAN = TrialPlan(0, "tables", "chain", "autogen", "blamespan:X1", "response", "unsupported-claim", 0.0)


def trial(*, none: bool, guard: bool, claims: tuple[int, int] = (1, 0), rules: dict[str, int] | None = None) -> Trial:
    def arm(is_solved: bool, unsupported: int = 0, **more: Any) -> ArmRun:
        return ArmRun(is_solved, False, 10, 1, unsupported=unsupported, **more)

    arms = {
        "none": arm(none, claims[0]),
        "random": arm(none, claims[0]),
        "guard": arm(guard, claims[1], retries=1, repaired=1, rules={"sum-holds": 1}),
        "sound": arm(True, rules=rules or {}),
    }
    return Trial(PLAN, arms)


def test_gain_counts_where_the_intervals_are_apart() -> None:
    """Thirty points in a hundred trials meet the bar; in ten trials nobody can say; a loss is one."""
    many = [trial(none=number < 50, guard=number < 80) for number in range(100)]

    assert sum_up_solved(many)["bars"]["solved"]
    assert sum_up_solved(many)["gain"]["points"] == 30
    assert not sum_up_solved(many[::10])["bars"]["solved"]
    assert not sum_up_solved([trial(none=True, guard=False)] * 100)["bars"]["solved"]


def test_disturbed_sound_runs_and_claims_are_judged() -> None:
    """Two in a hundred may be disturbed, not three; half of the claims may be left, not more; none is no half."""
    calm = [trial(none=True, guard=True, rules={"step-new": 1} if number < 2 else {}) for number in range(100)]
    assert sum_up_solved(calm)["bars"]["disturbed"]
    assert not sum_up_solved([*calm, trial(none=True, guard=True, rules={"a": 1})] * 2)["bars"]["disturbed"]

    assert sum_up_solved([trial(none=True, guard=True, claims=(2, 1))])["bars"]["claims"]
    assert not sum_up_solved([trial(none=True, guard=True, claims=(3, 2))])["bars"]["claims"]
    assert not sum_up_solved([trial(none=True, guard=True, claims=(0, 0))])["bars"]["claims"]


def test_trials_without_a_fault_are_left_out_and_counted() -> None:
    """They say nothing of a guard; without any trial no bar is met."""
    found = sum_up_solved([Trial(PLAN, {}, "the fault could not be written")])

    assert (found["trials"], found["left_out"]) == (0, {"the fault could not be written": 1})
    assert not any(found["bars"].values())


def test_difference_is_taken_within_trials() -> None:
    """The same gain in every trial has no spread."""
    assert compare_arms([True] * 9, [False] * 9).interval == (100.0, 100.0)
    low, high = compare_arms([True, False] * 20, [False] * 40).interval
    assert low < 50 < high


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


def test_budgets_may_be_gone_beyond_by_one_call() -> None:
    """Two calls are too many; and a budget that is not used up proves nothing."""
    assert sum_up_overruns([Overruns("autogen", "tokens", 4, 16, 1, 0)])["bars"]["budgets"]
    assert not sum_up_overruns([Overruns("autogen", "tokens", 4, 16, 2, 0)])["bars"]["budgets"]
    assert not sum_up_overruns([Overruns("autogen", "tokens", 4, 16, 0, 1)])["bars"]["budgets"]


def test_run_that_changes_is_named() -> None:
    """One is one too many; a guard that observed nothing proves nothing."""
    assert sum_up_same(10, 100, 50, [])["bars"] == {"same": True}
    assert sum_up_same(10, 100, 50, ["this one"])["programs"] == ["'this one'"]
    assert gather_bars({"same": sum_up_same(10, 100, 0, []), "machine": {}}) == {"same": False}


def test_trials_go_round_every_way_and_every_team() -> None:
    """As many trials as there are ways and teams have each of them; loads take turns."""
    recipe = find_recipe("heldout")
    ways, cells = len(recipe.faults.ways()), len(recipe.cells())
    plans = plan_trials(recipe, max(ways, cells), (0.0, 0.3))

    assert len({(plan.kind, plan.mechanism, plan.operator) for plan in plans[:ways]}) == ways
    assert len({(plan.family, plan.topology, plan.framework) for plan in plans[:cells]}) == cells
    assert [plan.rate for plan in plans[:4]] == [0.0, 0.3, 0.0, 0.3]


def test_measured_policy_is_one_that_can_be_used() -> None:
    """Every check in it is known, and every rule has a name to be counted by."""
    policy = read_policy(POLICY)
    make_watcher([policy], "task")

    assert all(rule.name == rule.check for rule in policy.findings)
