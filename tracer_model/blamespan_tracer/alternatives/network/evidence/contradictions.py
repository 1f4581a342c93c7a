"""Steps whose statements contradict those of others, and steps that are contradicted."""

from __future__ import annotations

import numpy as np

from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats


def mark_conflicts(run: Analysis) -> tuple[Floats, ...]:
    """Mark both steps of every conflict between statements."""
    segments = run.segments
    the_task, a_result, another, itself, by_result, by_another, overridden = np.zeros((7, len(run.steps)))
    for conflict in run.facts.conflicts:
        earlier, later = int(segments.owner[conflict.earlier]), int(segments.owner[conflict.later])
        if segments.is_said[conflict.later]:
            if segments.is_given[conflict.earlier]:
                the_task[later] = 1.0
            elif segments.is_result[conflict.earlier]:
                a_result[later] = 1.0
            elif segments.speaker[conflict.earlier] == segments.speaker[conflict.later]:
                itself[later] = 1.0
            else:
                another[later] = 1.0
        if segments.is_said[conflict.earlier] and earlier != later:
            overridden[earlier] = 1.0
            if segments.is_result[conflict.later]:
                by_result[earlier] = 1.0
            elif run.agent[earlier] != run.agent[later]:
                by_another[earlier] = 1.0
    stands = np.maximum.reduce([the_task, a_result, another, itself]) * (1 - overridden)
    return the_task, a_result, another, itself, by_result, by_another, overridden, stands


CONTRADICTIONS = Evidence(
    mark_conflicts,
    (
        "contradicts the task",
        "contradicts a result",
        "contradicts another",
        "contradicts itself",
        "contradicted by a result",
        "contradicted by another",
        "overridden",
        "contradicts and stands",
    ),
)
