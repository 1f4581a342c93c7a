"""Steps whose statements contradict those of others, and steps that are contradicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blamespan_tracer.alternatives.network.evidence.columns import Evidence
from blamespan_tracer.alternatives.network.representation.analysis import Analysis
from blamespan_tracer.alternatives.network.representation.claims import Floats


@dataclass(frozen=True, slots=True)
class Contradictions:
    """Which steps contradict what, and which are contradicted: (N,) each, of 0 and 1.

    Attributes:
        the_task: Contradicts the task, or what a user said,
        a_result: a tool,
        another: another agent,
        itself: or its own agent.
        by_result: A tool contradicts it later,
        by_another: or another agent,
        overridden: or any step.
        stands: It contradicts, and no later step contradicts it.
    """

    the_task: Floats
    a_result: Floats
    another: Floats
    itself: Floats
    by_result: Floats
    by_another: Floats
    overridden: Floats
    stands: Floats


def mark_conflicts(run: Analysis) -> Contradictions:
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
    return Contradictions(the_task, a_result, another, itself, by_result, by_another, overridden, stands)


CONTRADICTIONS = Evidence(
    mark_conflicts,
    {
        "contradicts the task": "the_task",
        "contradicts a result": "a_result",
        "contradicts another": "another",
        "contradicts itself": "itself",
        "contradicted by a result": "by_result",
        "contradicted by another": "by_another",
        "overridden": "overridden",
        "contradicts and stands": "stands",
    },
)
