"""Choosing failures so that nothing but what was said tells which step was decisive.

A failure pulls: its decisive step has a place, an agent, a length that an average step of the same run has not.
Failures are chosen so that the pulls of all of them cancel out.

Dims: N failures to choose from, P ways to pull.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace, Step

__all__ = ["chosen", "place_of", "pull"]

Floats: TypeAlias = NDArray[np.float64]

_PLACES = 5
_NEAR_ENDS = 3
_SWAPS = 400
_PLACE_WEIGHT = 2.0
"""How much more a place in the run weighs than anything else: errors near the end are seldom caught, so runs that fail
by them are many."""
_FEWEST = 0.85
"""Share of the failures wanted below which balance may not bring them."""


def place_of(trace: MessageActionTrace, decisive: int) -> float | None:
    """Say where in the run a step stands among those that could be decisive, in [0, 1); None if it is none of them."""
    steps = [step.index for step in trace.steps if trace.can_be_blamed(step)]
    return (steps.index(decisive) + 0.5) / len(steps) if decisive in steps else None


def pull(trace: MessageActionTrace, decisive: int, duties: Mapping[str, str], *, extra_steps: float = 0.0) -> Floats:
    """Give (P,) how the decisive step differs from the average of those that could be, and the run from its twin.

    Args:
        trace: The failed run.
        decisive: Index of a step that can be blamed.
        duties: What each agent does, by its name.
        extra_steps: By what share the run is longer than its twin.
    """
    steps = [step for step in trace.steps if trace.can_be_blamed(step)]
    table = _table(trace, steps, duties)
    row = next(number for number, step in enumerate(steps) if step.index == decisive)
    pulled: Floats = np.append(table[row] - table.mean(axis=0), np.clip(extra_steps, -1, 1))
    return pulled


def chosen(pulls: Sequence[Floats], count: int, *, start: Floats | None = None) -> list[int]:
    """Choose *count* of the failures with the given pulls, or some fewer, so that these add up to as little as can be.

    Args:
        pulls: (P,) each.
        count: How many; fewer, down to 85 %, where that balances better.
        start: (P,) pull of what is chosen already.

    Returns:
        Their places in *pulls*, ascending. The same pulls give the same choice.
    """
    if not pulls:
        return []
    rows = np.array(pulls)
    total = np.zeros(rows.shape[1]) if start is None else start.copy()
    taken: list[int] = []
    left = list(range(len(pulls)))
    for _ in range(min(count, len(pulls))):
        best = left[int(np.argmin(((total + rows[left]) ** 2).sum(axis=1)))]
        taken.append(best)
        left.remove(best)
        total = total + rows[best]
    taken, total = _improved(rows, taken, left, total)
    return sorted(_thinned(rows, taken, total, math.ceil(_FEWEST * count)))


def _improved(rows: Floats, taken: list[int], left: list[int], total: Floats) -> tuple[list[int], Floats]:
    """Exchange one for another as long as that brings the total nearer to nothing."""
    for _ in range(_SWAPS):
        if not left:
            break
        without = total - rows[taken]  # (K, P)
        sizes = ((without[:, None, :] + rows[left][None, :, :]) ** 2).sum(axis=2)  # (K, rest)
        out, into = np.unravel_index(int(np.argmin(sizes)), sizes.shape)
        if sizes[out, into] >= (total**2).sum() - 1e-9:
            break
        total = without[out] + rows[left[into]]
        taken[out], left[into] = left[into], taken[out]
    return taken, total


def _thinned(rows: Floats, taken: list[int], total: Floats, fewest: int) -> list[int]:
    """Leave out what pulls most to one side, as long as that brings the total nearer to nothing."""
    while len(taken) > fewest:
        sizes = ((total - rows[taken]) ** 2).sum(axis=1)
        worst = int(np.argmin(sizes))
        if sizes[worst] >= (total**2).sum() - 1e-9:
            break
        total = total - rows[taken.pop(worst)]
    return taken


def _table(trace: MessageActionTrace, steps: Sequence[Step], duties: Mapping[str, str]) -> Floats:
    """Lay out (C, P) what could tell a step from others without reading it."""
    count = len(steps)
    rows = np.arange(count)
    fifths = np.minimum((rows + 0.5) / count * _PLACES, _PLACES - 0.001).astype(int)
    lengths = np.array([len(step.content) for step in steps], dtype=np.float64)
    own = Counter(step.agent for step in steps)
    names = [step.agent for step in steps]
    is_first = np.array([names.index(name) == row for row, name in enumerate(names)])
    is_last = np.array([name not in names[row + 1 :] for row, name in enumerate(names)])
    columns: list[Floats | NDArray[np.bool_]] = [fifths == fifth for fifth in range(_PLACES)]
    columns += [rows == near for near in range(_NEAR_ENDS)] + [rows == count - 1 - near for near in range(_NEAR_ENDS)]
    ranks = _ranks(lengths)
    columns += [ranks == 0, ranks == 1, ranks]
    digits = [sum(char.isdigit() for char in step.content) / max(len(step.content), 1) for step in steps]
    columns += [_ranks(np.array(digits)) == 0, _ranks(np.array(digits)) == 1]
    columns += [is_first, is_last, np.array([own[name] / count for name in names])]
    busiest = max(own.values())
    columns += [np.array([own[name] == busiest for name in names])]
    columns += [np.array([step.kind == kind for step in steps]) for kind in ("tool_call", "handoff")]
    columns += [np.array([duties.get(name, "") == duty for name in names]) for duty in _DUTIES]
    table = np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])
    table[:, : _PLACES + 2 * _NEAR_ENDS] *= _PLACE_WEIGHT
    return table


def _ranks(values: Floats) -> Floats:
    """Rank (C,) from 0 to 1; equal ones share a rank."""
    below = (values[None, :] < values[:, None]).sum(axis=1)
    return np.asarray(below / max(below.max(), 1), dtype=np.float64)


_DUTIES = ("planner", "researcher", "solver", "verifier", "reporter", "orchestrator", "debater", "judge")
