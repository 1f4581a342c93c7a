"""Figures of a campaign: shares with their intervals, and what a better team withstands."""

from __future__ import annotations

from blamespan.analysis.summary.statistics import Share
from blamespan.intercepting.boundaries import Mechanism
from blamespan_lab.rerun.stress.containment import Caught
from blamespan_lab.rerun.stress.figures import cell, cells_by, count_neutralised
from blamespan_lab.rerun.stress.tiers import TIERS, Tier
from blamespan_lab.rerun.stress.trial import FaultTrial, Planned


def trial(
    succeeded: bool | None,
    *,
    task: int = 0,
    role: str = "solver",
    how: str = "",
    missed: str = "",
    tier: Tier | None = None,
) -> FaultTrial:
    mechanism: Mechanism = "response"
    found = Caught("verifier" if how != "ignored" else "", how, 2 if how != "ignored" else None) if how else None  # type: ignore[arg-type]
    return FaultTrial(
        Planned("aegis:FM-3.2", mechanism, role, task, 0),
        "x",
        missed,
        succeeded,
        not succeeded,
        caught=found,
        tier=tier,
    )


def test_only_runs_with_a_fault_in_them_count() -> None:
    """What could not be written says nothing of the team."""
    found = cell(
        [trial(False), trial(True, how="objection"), trial(True, how="ignored"), trial(None, missed="nowhere")]
    )

    assert (found.planned, found.written, found.flipped) == (4, 3, Share(1, 3))
    assert (found.catches, found.catchers) == ({"objection": 1, "ignored": 1}, {"verifier": 1})
    assert (found.noticed, found.median_steps) == (Share(1, 2), 2.0)


def test_tiers_share_out_what_was_tolerated() -> None:
    """Every tolerated fault has one tier, each tier a row; a fault that did harm, or was not written, has none."""
    done = [trial(True, how="objection", tier="prompt"), trial(True, how="ignored", tier="masked"), trial(False)]

    assert cell([*done, done[0], trial(None, missed="nowhere")]).tiers == {
        tier: Share({"prompt": 2, "masked": 1}.get(tier, 0), 3) for tier in TIERS
    }
    assert cell([trial(False)]).tiers == {}


def test_faults_that_broke_one_team_are_looked_for_in_another() -> None:
    """The same fault, and written in both; what the other could not be given is not counted as withstood."""
    chain = [trial(False, task=task) for task in range(4)] + [trial(True, task=4)]
    loop = [trial(True, task=0), trial(True, task=1), trial(False, task=2), trial(None, task=3, missed="no")]

    assert count_neutralised([*loop, trial(True, task=4)], chain) == Share(2, 3)


def test_cells_hold_every_trial_once() -> None:
    """Summed up by agent or by kind, nothing is lost or counted twice."""
    trials = [trial(True, role=role) for role in ("solver", "verifier", "solver")]

    assert {key: one.planned for key, one in cells_by(trials, "role").items()} == {("solver",): 2, ("verifier",): 1}


def test_without_a_check_nothing_is_flipped() -> None:
    """Where nobody can tell right from wrong, only that the answer has changed is known."""
    found = cell([trial(None)])

    assert (found.flipped.count, found.changed, found.catches) == (0, Share(1, 1), {})
