"""From trials to figures: rates with intervals, for each kind of fault at each agent, and as a JSON document. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from blamespan.analysis.summary.statistics import Share, wilson
from blamespan_lab.rerun.stress.byzantine import CONDUCTS, ByzantineStudy
from blamespan_lab.rerun.stress.campaign import StressCampaign
from blamespan_lab.rerun.stress.containment import CATCHES
from blamespan_lab.rerun.stress.tiers import TIERS
from blamespan_lab.rerun.stress.trial import FaultTrial


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something happened.

    Attributes:
        hits: How often.
        n: Of how many.
    """

    hits: int
    n: int

    @property
    def share(self) -> float:
        """The share, 0 to 1; 0 of none."""
        return self.hits / self.n if self.n else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval by Wilson's score, which holds for few runs too; 0 to 1 of none."""
        return wilson(self.hits, self.n)


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
    flipped: Rate
    changed: Rate
    catches: Mapping[str, int]
    catchers: Mapping[str, int]
    tiers: Mapping[str, Rate]
    median_steps: float | None
    ended: Rate
    ends: Mapping[str, int]

    @property
    def noticed(self) -> Rate:
        """Faults that somebody did something about, among those that did no harm."""
        contained = sum(self.catches.values())
        return Rate(contained - self.catches.get("ignored", 0), contained)


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
        flipped=Rate(sum(trial.is_flipped for trial in written), len(written)),
        changed=Rate(sum(trial.is_changed for trial in written), len(written)),
        catches={how: ways[how] for how in CATCHES if ways[how]},
        catchers=dict(Counter(catch.by for catch in caught if catch.by).most_common()),
        tiers={tier: Rate(tiers[tier], tiers.total()) for tier in TIERS} if tiers else {},
        median_steps=float(median(steps)) if steps else None,
        ended=Rate(sum(trial.end == "by itself" for trial in written), len(written)),
        ends=dict(sorted(Counter(trial.end for trial in written).items())),
    )


def cells_by(trials: Sequence[FaultTrial], *keys: str) -> dict[tuple[str, ...], TrialSummary]:
    """Sum up by fields of what was planned: `kind`, `role`, `mechanism`; in the order in which they come first."""
    groups: dict[tuple[str, ...], list[FaultTrial]] = {}
    for trial in trials:
        groups.setdefault(tuple(str(getattr(trial.planned, key)) for key in keys), []).append(trial)
    return {key: cell(group) for key, group in groups.items()}


def count_neutralised(trials: Sequence[FaultTrial], reference: Sequence[FaultTrial]) -> Rate:
    """Count those of the faults that broke *reference* which the other team, with the same fault, withstood.

    The same: kind, mechanism, role, task and round are, and it was written in both.
    """
    broken = {trial.planned for trial in reference if trial.is_flipped}
    here = [trial for trial in trials if trial.is_written and trial.planned in broken]
    return Rate(sum(not trial.is_flipped for trial in here), len(here))


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
        "flipped": _rate(summary.flipped),
        "changed": _rate(summary.changed),
        "contained_by": dict(summary.catches),
        "contained_by_agent": dict(summary.catchers),
        "tolerated_by": {tier: _rate(rate) for tier, rate in summary.tiers.items()},
        "median_steps": summary.median_steps,
        "ended_by_itself": _rate(summary.ended),
        "ends": dict(summary.ends),
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {
        "hits": rate.hits,
        "n": rate.n,
        "share": round(rate.share, 6),
        "interval": [round(x, 6) for x in rate.interval],
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
    return {"count": share.count, "n": share.total, "share": share.value, "interval": list(share.interval)}
