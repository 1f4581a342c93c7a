"""Measure how well failed runs are told from sound ones, with and without known outcomes of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import numpy as np

from blamespan_lab.train.outcome_head import KnownOutcomes, cross_fit, fit_head, predict

_SPLITS = 4
"""Figures of heads are means over so many splits by task."""


class OutcomeFiguresOfFile(TypedDict):
    """Areas under the ROC curve on the runs of one file.

    Attributes:
        failed: Runs that failed, and
        sound: that did not.
        tracer: Of the tracer by itself.
        left_out: Of a head learnt from the other files; None where there is no other.
        own: Of a head learnt from runs of other tasks in the same file: by how many runs it learnt from, `all` at last.
        spread: Standard deviation of *own* over splits.
    """

    failed: int
    sound: int
    tracer: float
    left_out: float | None
    own: dict[str, float]
    spread: dict[str, float]


def evaluate_outcomes(files: Mapping[str, KnownOutcomes], sizes: tuple[int, ...]) -> dict[str, OutcomeFiguresOfFile]:
    """Measure on each file.

    Args:
        files: Runs with a known outcome, by the file's name.
        sizes: How many runs of its own a head learns from.
    """
    figures: dict[str, OutcomeFiguresOfFile] = {}
    for name, known in files.items():
        others = [other for title, other in files.items() if title != name]
        own: dict[str, list[float]] = {}
        for size in (*sizes, None):
            own[str(size or "all")] = [known.area(cross_fit(known, seed=seed, most=size)) for seed in range(_SPLITS)]
        figures[name] = {
            "failed": int(known.has_failed.sum()),
            "sound": int((~known.has_failed).sum()),
            "tracer": known.area(known.suspicion),
            "left_out": known.area(predict(fit_head(_join(others)), known.features)) if others else None,
            "own": {size: float(np.mean(areas)) for size, areas in own.items()},
            "spread": {size: float(np.std(areas)) for size, areas in own.items()},
        }
    return figures


def _join(files: list[KnownOutcomes]) -> KnownOutcomes:
    return KnownOutcomes(
        np.concatenate([known.features for known in files]),
        np.concatenate([known.has_failed for known in files]),
        np.arange(sum(len(known) for known in files)),
        np.concatenate([known.suspicion for known in files]),
    )
