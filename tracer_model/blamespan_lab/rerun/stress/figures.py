"""From trials to figures: rates with intervals, for each kind of fault at each agent, and as a JSON document. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from blamespan.analysis.summary.statistics import Share
from blamespan_lab.rerun.stress.byzantine import CONDUCTS, ByzantineStudy
from blamespan_lab.rerun.stress.campaign import StressCampaign
from blamespan_lab.rerun.stress.containment import CATCHES
from blamespan_lab.rerun.stress.tiers import TIERS
from blamespan_lab.rerun.stress.trial import FaultTrial


@dataclass(frozen=True, slots=True)
class TrialSummary:
    """What became of some trials.

    Attributes:
        planned: How many there were.
        written: In how many the fault could be written; the rest are of these.
        flipped: Came out wrong because of it.
        changed: Came out with another answer.
        catches: How it was contained otherwise: how often each way.
        catchers: Who contained it: how often each.
        tiers: Of the faults that the team tolerated, how many by each of its tiers.
        median_steps: Steps from the fault to who caught it, in the middle case; None where nobody did.
        ended: Ended by themselves.
        ends: How often each way of ending.
    """

    planned: int
    written: int
    flipped: Share
    changed: Share
    catches: Mapping[str, int]
    catchers: Mapping[str, int]
    tiers: Mapping[str, Share]
    median_steps: float | None
    ended: Share
    ends: Mapping[str, int]

    @property
    def noticed(self) -> Share:
        """Faults that somebody did something about, among those that did no harm."""
        contained = sum(self.catches.values())
        return Share(contained - self.catches.get("ignored", 0), contained)


def cell(trials: Iterable[FaultTrial]) -> TrialSummary:
    """Sum up *trials*."""
    trials = list(trials)
    written = [trial for trial in trials if trial.is_written]
    caught = [trial.caught for trial in written if trial.how is not None and trial.caught is not None]
    steps = [catch.steps for catch in caught if catch.steps is not None]
    ways = Counter(catch.how for catch in caught)
    tiers = Counter(trial.tier for trial in written if trial.tier is not None)
    return TrialSummary(
        planned=len(trials),
        written=len(written),
        flipped=Share(sum(trial.is_flipped for trial in written), len(written)),
        changed=Share(sum(trial.is_changed for trial in written), len(written)),
        catches={how: ways[how] for how in CATCHES if ways[how]},
        catchers=dict(Counter(catch.by for catch in caught if catch.by).most_common()),
        tiers={tier: Share(tiers[tier], tiers.total()) for tier in TIERS} if tiers else {},
        median_steps=float(median(steps)) if steps else None,
        ended=Share(sum(trial.end == "by itself" for trial in written), len(written)),
        ends=dict(sorted(Counter(trial.end for trial in written).items())),
    )


def cells_by(trials: Sequence[FaultTrial], *keys: str) -> dict[tuple[str, ...], TrialSummary]:
    """Sum up by fields of what was planned: `kind`, `role`, `mechanism`; in the order in which they come first."""
    groups: dict[tuple[str, ...], list[FaultTrial]] = {}
    for trial in trials:
        groups.setdefault(tuple(str(getattr(trial.planned, key)) for key in keys), []).append(trial)
    return {key: cell(group) for key, group in groups.items()}


def count_neutralised(trials: Sequence[FaultTrial], reference: Sequence[FaultTrial]) -> Share:
    """Count those of the faults that broke *reference* which the other team, with the same fault, withstood.

    The same: kind, mechanism, role, task and round are, and it was written in both.
    """
    broken = {trial.planned for trial in reference if trial.is_flipped}
    here = [trial for trial in trials if trial.is_written and trial.planned in broken]
    return Share(sum(not trial.is_flipped for trial in here), len(here))


def as_json(done: StressCampaign) -> dict[str, Any]:
    """Lay a campaign out: figures in all, by agent, by kind and agent, and every trial."""
    return {
        "subject": done.subject,
        "recipe": asdict(done.recipe),
        "tasks": done.tasks,
        "failing": {str(task): why for task, why in done.failing.items()},
        "is_verified": done.is_verified,
        "left_out": done.left_out,
        "all": _cell(cell(done.trials)),
        "agents": [{"agent": key[0], **_cell(summary)} for key, summary in cells_by(done.trials, "role").items()],
        "cells": [
            {"kind": kind, "agent": role, **_cell(summary)}
            for (kind, role), summary in cells_by(done.trials, "kind", "role").items()
        ],
        "trials": [{**asdict(trial), "is_flipped": trial.is_flipped} for trial in done.trials],
    }


def _cell(summary: TrialSummary) -> dict[str, Any]:
    return {
        "planned": summary.planned,
        "written": summary.written,
        "flipped": _share_as_json(summary.flipped),
        "changed": _share_as_json(summary.changed),
        "contained_by": dict(summary.catches),
        "contained_by_agent": dict(summary.catchers),
        "tolerated_by": {tier: _share_as_json(rate) for tier, rate in summary.tiers.items()},
        "median_steps": summary.median_steps,
        "ended_by_itself": _share_as_json(summary.ended),
        "ends": dict(summary.ends),
    }


def byzantine_as_json(study: ByzantineStudy) -> dict[str, Any]:
    """Lay out what a team withstands as plain values."""
    return {
        "subject": study.subject,
        "tasks": study.tasks,
        "missed": study.missed,
        "left_out": study.left_out,
        "largest_withstood": {conduct: study.largest_withstood(conduct) for conduct in CONDUCTS},
        "cells": [
            {
                "conduct": cell.conduct,
                "k": cell.k,
                "withstood": _share_as_json(cell.withstood),
                "blamed": _share_as_json(cell.blamed),
                "chance": round(cell.chance, 6),
            }
            for cell in study.cells
        ],
    }


def _share_as_json(share: Share) -> dict[str, Any]:
    return {
        "count": share.count,
        "n": share.total,
        "share": round(share.value, 6),
        "interval": [round(bound, 6) for bound in share.interval],
    }
