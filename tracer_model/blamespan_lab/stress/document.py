"""A campaign as one JSON object."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from blamespan_lab.stress.campaign import Campaign
from blamespan_lab.stress.figures import Rate, TrialSummary, cell, cells_by

__all__ = ["as_json"]


def as_json(done: Campaign) -> dict[str, Any]:
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
