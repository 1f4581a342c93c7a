"""Runs for the back ends' tests: their spans, when they were, and verdicts on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from blamespan.attribution import Attribution, ModeBlame, TracerIdentity
from blamespan.importing.recorded import RecordedRun
from blamespan.importing.selection import nanoseconds_of
from blamespan.rebuilding.emit import emit
from blamespan.spans import Span
from blamespan.taxonomy import mode
from blamespan.trace import Agent, MessageActionTrace, Outcome, Step

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STEP_NS = 1_000_000_000


def trace_of(
    number: int, *, at: datetime = NOON, service: str = "team", steps: int = 3, outcome: Outcome = "unknown"
) -> MessageActionTrace:
    """Make a run of a planner and a writer; each step takes a second."""
    start_ns = nanoseconds_of(at)
    return MessageActionTrace(
        trace_id=f"{number:032x}",
        task=f"task {number}",
        steps=tuple(
            Step(
                index,
                f"{number * 1_000 + index + 1:016x}",
                ("planner", "writer")[index % 2],
                content=f"words of step {index}",
                start_ns=start_ns + index * STEP_NS,
                end_ns=start_ns + (index + 1) * STEP_NS,
            )
            for index in range(steps)
        ),
        agents=(Agent("planner"), Agent("writer")),
        outcome=outcome,
        resource={"service.name": service},
    )


def run_spans(
    number: int, *, at: datetime = NOON, service: str = "team", steps: int = 3, outcome: Outcome = "unknown"
) -> list[Span]:
    """Make that run's spans: its own, then one for each step."""
    return emit(trace_of(number, at=at, service=service, steps=steps, outcome=outcome))


def without_root(spans: Sequence[Span]) -> list[Span]:
    """Leave out the run's own span, as where it never arrived."""
    return [span for span in spans if span.parent_id]


def in_project(spans: Sequence[Span], project: str) -> list[Span]:
    """Say which of Phoenix's projects spans are of."""
    return [replace(s, resource={**s.resource, "openinference.project.name": project}, origin=None) for s in spans]


def verdicts(runs: Sequence[RecordedRun]) -> list[tuple[RecordedRun, Attribution]]:
    """Blame the first step of each run; a run of one step is not judged."""
    return [(run, _verdict(run.trace)) for run in runs]


def _verdict(trace: MessageActionTrace) -> Attribution:
    identity = TracerIdentity("first-step", "1", "0123456789ab")
    if len(trace.steps) == 1:
        return Attribution.abstain(trace, "too short", identity)
    shares = [float(step.index == 0) for step in trace.steps]
    modes = [ModeBlame(mode("mast:FM-1.1"), trace.steps[0].agent, 0.7)]
    return Attribution.of(trace, shares, failure_score=0.9, tracer=identity, modes=modes)
