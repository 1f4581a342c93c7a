"""Campaigns: everybody gets a share, and whatever a program does, its runs are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from blamespan.errors import BlamespanError, ConfigError
from blamespan_lab.rerun.stress.campaign import StressCampaign, campaign, planned
from blamespan_lab.rerun.stress.recipe import StressRecipe
from blamespan_lab.rerun.stress.subjects import Bundled, Named, SubjectSpec
from blamespan_lab.rerun.stress.trial import Clean
from blamespan_lab.rerun.stress.watching import WatchedRun

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # most start processes that import both frameworks
pytest.importorskip("autogen_agentchat")
pytest.importorskip("langgraph")

TEAMS = "tests.tracer_model.lab.rerun.stress.teams"
LOSES = ("mas-fire:critical-information-loss", "aegis:FM-3.1")


def untracked(results: Iterator[Any], title: str, total: int) -> Iterator[Any]:
    return results


def stressed(spec: SubjectSpec, recipe: StressRecipe, *, count: int = 1) -> StressCampaign:
    return campaign(spec, recipe, count=count, tracked=untracked)


def clean(*roles: str) -> Clean:
    return Clean(WatchedRun("48", True), {role: (role,) for role in roles})


def test_each_round_reaches_every_kind_at_every_agent() -> None:
    """No pair comes twice before all have come once."""
    recipe = StressRecipe("mine", runs=2, kinds=LOSES)
    plan = planned(recipe, {0: clean("a", "b", "c"), 1: clean("a")})

    first = [(one.kind, one.role) for one in plan[: len(plan) // 2]]
    assert sorted(first) == sorted((kind, role) for kind in LOSES for role in "abc")
    assert {one.task for one in plan if one.role == "b"} == {0}
    assert Counter(one.round for one in plan) == {0: 6, 1: 6}


def test_agents_that_are_not_there_are_named() -> None:
    """The message says who takes part."""
    with pytest.raises(ConfigError, match=r"expected agents among \['clerk'\], got 'boss'"):
        planned(StressRecipe("mine", agents=("boss",)), {0: clean("clerk")})


@pytest.mark.slow
def test_same_seed_same_campaign_however_many_processes() -> None:
    """What runs beside what has no say in what comes out."""
    spec = Bundled("round_robin", "langgraph", tasks=3)
    recipe = StressRecipe("mine", runs=1, budget=12, tasks=3)

    one, two = stressed(spec, recipe), stressed(spec, recipe, count=2)

    assert one == two
    assert any(trial.is_written for trial in one.trials)


def test_users_program_is_stressed_by_the_names_of_its_agents() -> None:
    """Both agents err, the check says when that does harm, and every trial has an end."""
    done = stressed(
        Named(f"{TEAMS}:graph", f"{TEAMS}:is_right", ("How many?",)), StressRecipe("mine", runs=2, kinds=LOSES)
    )

    assert {trial.planned.role for trial in done.trials} == {"clerk", "<b>boss"}
    assert (done.is_verified, done.failing, done.left_out) == (True, {}, 0)
    ended = [trial for trial in done.trials if trial.planned.kind == "aegis:FM-3.1" and trial.is_written]
    assert [trial.is_flipped for trial in ended] == [True, True]
    assert {trial.end for trial in done.trials} == {"by itself"}


def test_program_without_a_check_is_stressed_without_verification() -> None:
    """Answers that change are all that can be told."""
    done = stressed(Named(f"{TEAMS}:graph", None, ("How many?",)), StressRecipe("mine", runs=1, kinds=LOSES))

    assert not done.is_verified
    assert {trial.is_flipped for trial in done.trials} == {False}
    assert any(trial.is_changed for trial in done.trials)


@pytest.mark.slow
def test_run_that_never_ends_is_stopped_and_counted() -> None:
    """The others still run; what hung did not end by itself, and did not come out right."""
    recipe = StressRecipe("mine", runs=1, kinds=("aegis:FM-3.1",), agents=("clerk",), timeout_s=12.0)
    done = stressed(Named(f"{TEAMS}:endless", f"{TEAMS}:is_right", ("How many?",)), recipe)

    assert [(trial.end, trial.is_flipped) for trial in done.trials] == [("timed out", True)]


def test_process_that_dies_is_counted_and_replaced() -> None:
    """A program that takes its process with it costs one run, not the campaign."""
    recipe = StressRecipe("mine", runs=2, kinds=LOSES[:1], agents=("clerk",), mechanisms=("response",))
    done = stressed(Named(f"{TEAMS}:mortal", f"{TEAMS}:is_right", ("How many?",)), recipe)

    assert [(trial.end, trial.is_flipped) for trial in done.trials] == [("broke", True)] * 2


@pytest.mark.parametrize(
    ("program", "check", "why"),
    [("graph", "never_right", "its answer is wrong"), ("silent", "is_right", "its answer is wrong")],
)
def test_what_fails_without_a_fault_is_not_stressed(program: str, check: str, why: str) -> None:
    """There is nothing to be shown by breaking it."""
    with pytest.raises(BlamespanError, match=why):
        stressed(Named(f"{TEAMS}:{program}", f"{TEAMS}:{check}", ("How many?",)), StressRecipe("mine", kinds=LOSES))


def test_program_in_which_no_agent_is_seen_is_not_stressed() -> None:
    """A program of no known framework gets an answer that says so."""
    with pytest.raises(BlamespanError, match="no agent was seen to decide anything"):
        stressed(Named(f"{TEAMS}:silent", None, ("How many?",)), StressRecipe("mine", kinds=LOSES))


def test_program_that_cannot_be_opened_is_named() -> None:
    """What is wrong with it comes back from the process that tried."""
    with pytest.raises(ConfigError, match="has no 'nothing'"):
        stressed(Named(f"{TEAMS}:nothing", None, ("How many?",)), StressRecipe("mine", kinds=LOSES))
