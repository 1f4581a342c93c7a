"""What probes see of a run: places, sizes, names and words of the steps, and nothing of what they mean.

Dims: C steps that could be decisive of a run, S surface features, W hashed words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from blamespan.importing.recorded import RecordedRun
from blamespan.trace import MessageActionTrace, Step

Floats: TypeAlias = NDArray[np.float64]

SURFACE = (
    *("place", "distance from the middle", "first step of its agent", "last step of its agent", "agent's share"),
    *("length", "length against its agent's", "lines", "is a tool call", "is a hand-over"),
    *("recipients", "inputs", "later steps that build on it", "tokens", "duration", "attributes", "has an error"),
)
"""Single features, each tried as `most` and as `least`. None of them reads a word."""

RUN_SURFACE = (
    *("steps", "steps that could be decisive", "agents", "agents that speak", "length", "length of the last step"),
    *("mean length", "tool calls", "errors", "steps of the busiest agent", "attributes", "spans' duration"),
)
"""Single features of a whole run."""


@dataclass(frozen=True, slots=True)
class ProbedRun:
    """A run as probes see it.

    Attributes:
        group: Its question: a failure and its twin are never on both sides of a split.
        family: Of the task.
        topology: Of the team.
        failed: Whether it did.
        decisive: Row of the decisive step among those that could be; -1 without one.
        position: (C, 12), see `positions`.
        surface: (C, len(SURFACE)).
        names: Name of each step's agent.
        texts: What each step says.
        run_surface: (len(RUN_SURFACE),).
    """

    group: str
    family: str
    topology: str
    failed: bool
    decisive: int
    position: Floats
    surface: Floats
    names: tuple[str, ...]
    texts: tuple[str, ...]
    run_surface: Floats


def probe_run(run: RecordedRun) -> ProbedRun | None:
    """Look at a generated run; None where no step could be decisive."""
    trace, origin = run.trace, run.origin
    steps = blamable_steps(trace)
    if not steps or origin is None:
        return None
    rows = {step.index: row for row, step in enumerate(steps)}
    return ProbedRun(
        group=trace.task,
        family=origin.family,
        topology=origin.topology,
        failed=trace.outcome == "failed",
        decisive=rows.get(origin.decisive, -1) if origin.decisive is not None else -1,
        position=positions(len(steps)),
        surface=surfaces(trace, steps),
        names=tuple(step.agent for step in steps),
        texts=tuple(step.content for step in steps),
        run_surface=run_surface(trace, steps),
    )


def blamable_steps(trace: MessageActionTrace) -> list[Step]:
    """List the steps that could be decisive."""
    return [step for step in trace.steps if trace.can_be_blamed(step)]


def positions(count: int) -> Floats:
    """Return (C, 12) of *count* steps: place, first to third, last two, middle, log place, fifths but the last."""
    rows = np.arange(count)
    relative = rows / max(count - 1, 1)
    fifths = np.minimum((rows + 0.5) / count * 5, 4.999).astype(int)
    columns = [relative, rows == 0, rows == 1, rows == 2, rows == count - 1, rows == count - 2]
    columns += [np.abs(relative - 0.5), np.log1p(rows), *(fifths == fifth for fifth in range(4))]
    return np.column_stack([np.asarray(column, dtype=np.float64) for column in columns])


def surfaces(trace: MessageActionTrace, steps: Sequence[Step]) -> Floats:
    """Lay out (C, len(SURFACE)) of the *steps* of *trace*."""
    own: dict[str, list[Step]] = {}
    for step in steps:
        own.setdefault(step.agent, []).append(step)
    built_on = Counter(index for step in trace.steps for index in step.inputs)
    middle = (len(steps) - 1) / 2
    rows = []
    for row, step in enumerate(steps):
        mine = own[step.agent]
        length = np.log1p(len(step.content))
        rows.append(
            [
                row,
                abs(row - middle),
                step is mine[0],
                step is mine[-1],
                len(mine),
                length,
                length - np.mean([np.log1p(len(other.content)) for other in mine]),
                step.content.count("\n"),
                step.kind == "tool_call",
                step.kind == "handoff",
                len(step.recipients),
                len(step.inputs),
                built_on[step.index],
                step.usage.output_tokens if step.usage else 0,
                step.end_ns - step.start_ns,
                len(step.attributes),
                step.status == "error" or step.error is not None,
            ]
        )
    return np.array(rows, dtype=np.float64)


def run_surface(trace: MessageActionTrace, steps: Sequence[Step]) -> Floats:
    """Lay out (len(RUN_SURFACE),) of *trace*, whose *steps* could be decisive."""
    lengths = [len(step.content) for step in steps]
    busiest = Counter(step.agent for step in steps).most_common(1)[0][1]
    return np.array(
        [
            len(trace.steps),
            len(steps),
            len(trace.agents),
            len({step.agent for step in steps}),
            sum(lengths),
            lengths[-1],
            sum(lengths) / len(lengths),
            sum(step.kind == "tool_call" for step in trace.steps),
            sum(step.status == "error" or step.error is not None for step in trace.steps),
            busiest,
            sum(len(step.attributes) for step in trace.steps),
            sum(step.end_ns - step.start_ns for step in trace.steps),
        ],
        dtype=np.float64,
    )
