"""The turns of a run: consecutive steps merged, numbered, and tied to those they build on and object to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from blamespan.trace import MessageActionTrace, Step
from blamespan_tracer.alternatives.network.representation import (
    EDGE_TYPES,
    Analysis,
    Representation,
    analyse,
    represent,
)

MOST_LINKS = 4
"""Decisions named as what one builds on, or objects to."""

_OWED = 0.1
"""A decision builds on another from this share of what it owes to all."""

_TIES = [EDGE_TYPES.index(kind) for kind in ("reply", "depends", "objects")]


@dataclass(frozen=True, slots=True)
class RenderedDecision:
    """One merged step: what one agent said and did at a stretch.

    Attributes:
        place: Its place among the decisions of the run, from 0.
        label: Index of its first step, as the trace counts.
        agent: Who took it.
        can_be_blamed: Whether it is an agent's decision.
        steps: The steps it is made of.
        lands_on: Index of the step that blame for it lands on, where nothing says otherwise.
        results: What tools answered.
        builds_on: Places of the decisions it uses or answers, the most used first.
        objects_to: Places of those that it says are wrong.
        read: What is said in it, the ends where it is long.
        answered: What tools answered, likewise.
    """

    place: int
    label: int
    agent: str
    can_be_blamed: bool
    steps: tuple[Step, ...]
    lands_on: int
    results: tuple[Step, ...]
    builds_on: tuple[int, ...]
    objects_to: tuple[int, ...]
    read: str
    answered: str

    @property
    def has_error(self) -> bool:
        """Whether it, or what a tool answered to it, ended with an error."""
        return any(step.status == "error" for step in (*self.steps, *self.results))


def decisions_of(trace: MessageActionTrace) -> tuple[RenderedDecision, ...]:
    """Merge the steps of *trace* and find what ties them together; none for a run without steps."""
    if not trace.steps:
        return ()
    analysis = analyse(trace, turns=True)
    run = represent(trace, analysis)
    built, objected = _ties(run)
    brought = _brought(analysis)
    return tuple(
        RenderedDecision(
            position,
            merged.origins[0].index,
            merged.agent,
            merged.can_be_blamed,
            tuple(merged.origins),
            max(merged.origins, key=lambda step: (brought[step.index + 1], -step.index)).index,
            tuple(merged.results),
            tuple(sorted(owed, key=lambda position: (-owed[position], position))[:MOST_LINKS]),
            tuple(dict.fromkeys(objected.get(position, ())))[:MOST_LINKS],
            run.texts[position],
            run.results[position],
        )
        for position, merged in enumerate(analysis.steps)
        for owed in [built.get(position, {})]
    )


def _brought(analysis: Analysis) -> list[float]:
    """Weigh what each original step brings into the run, the task before them: blame lands where that is most."""
    claims, segments = analysis.claims, analysis.segments
    fresh = (claims.segment == claims.source) & segments.is_said[claims.segment]
    weights = np.bincount(claims.segment[fresh], claims.weight[fresh], minlength=len(analysis.reading.texts))
    brought: list[float] = weights.tolist()
    return brought


def _ties(run: Representation) -> tuple[dict[int, dict[int, float]], dict[int, list[int]]]:
    """List, per decision, how much it builds on which earlier ones, and which ones it says are wrong."""
    kinds, source, target = run.edges
    built: dict[int, dict[int, float]] = {}
    objected: dict[int, list[int]] = {}
    for row in np.flatnonzero(np.isin(kinds, _TIES)):
        kind, start, end = EDGE_TYPES[int(kinds[row])], int(source[row]), int(target[row])
        weight = float(run.edge_weights[row])
        if kind == "objects":
            objected.setdefault(start, []).append(end)
        elif kind == "reply" or weight >= _OWED:
            owed = built.setdefault(end, {})
            owed[start] = max(owed.get(start, 0.0), weight)
    return built, objected
