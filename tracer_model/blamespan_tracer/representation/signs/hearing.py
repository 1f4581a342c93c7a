"""Who heard what: how much of the run each step was given, and how much of the rest was given it.

Dims: N merged steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from blamespan_tracer.representation.analysis import Analysis

__all__ = ["Hearing", "find_hearing"]

Floats = NDArray[np.float64]

_MAX_INPUTS = 256
"""Inputs of a step that are looked at, the latest: time stays linear in the length of a run."""


@dataclass(frozen=True, slots=True)
class Hearing:
    """Per merged step: (N,) each; 0 where the trace tells nothing of inputs and recipients.

    Attributes:
        hears: Share of the steps before it that it was given.
        misses: Share of what its agent was given the last time that it is not given now.
        heard: Share of the decisions after it that were given it.
        addressed: Share of the other agents that it is addressed to.
        answered: Whether one of those speaks next.
        followed: Share of the other agents of which a decision comes of it: it is the last that was given to them.
    """

    hears: Floats
    misses: Floats
    heard: Floats
    addressed: Floats
    answered: Floats
    followed: Floats


def find_hearing(run: Analysis) -> Hearing:
    """Count what was given to whom."""
    steps, n_steps, n_agents = run.steps, len(run.steps), int(run.agent.max(initial=-1)) + 1
    hears, misses, heard, addressed, answered = np.zeros((5, n_steps))
    followers: list[set[str]] = [set() for _ in steps]
    given_before: dict[str, frozenset[int]] = {}
    owners = np.array(run.owner, np.int64)
    for place, merged in enumerate(steps):
        first = merged.said[0]
        inputs = np.array(first.inputs[-_MAX_INPUTS:], np.int64)
        given = frozenset(owners[inputs].tolist()) - {place}
        if first.index:
            hears[place] = min(len(first.inputs) / first.index, 1.0)
        before = given_before.get(merged.agent, frozenset())
        misses[place] = len(before - given) / max(len(before), 1) if given or before else 0.0
        if merged.can_be_blamed and given:
            heard[list(given)] += 1
            followers[owners[first.inputs[-1]]].add(merged.agent)
        given_before[merged.agent] = given
        names = {name for step in merged.said for name in step.recipients}
        addressed[place] = min(len(names) / max(n_agents - 1, 1), 1.0)
        following = steps[place + 1].agent if place + 1 < n_steps else ""
        answered[place] = float(following in names)
    followed = np.array([len(found - {step.agent}) for step, found in zip(steps, followers, strict=True)], np.float64)
    after = np.clip(run.decides.sum() - np.cumsum(run.decides), 1, None)
    return Hearing(hears, misses, np.minimum(heard / after, 1.0), addressed, answered, followed / max(n_agents - 1, 1))
