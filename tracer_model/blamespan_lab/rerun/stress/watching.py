"""Runs as they are seen: the steps of the trace that is rebuilt, and how the run ended."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from blamespan.errors import BlamespanError
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import split_runs
from blamespan.spans import Span
from blamespan.trace import MessageActionTrace
from blamespan_lab.rerun.stress.tiers import Defences, read_defences

End: TypeAlias = Literal["by itself", "at a limit", "broke", "timed out"]
"""How a run ended: by its own rule, by a limit that its fault-free twin did not reach, by an exception, or not at all
within the time it was given."""

_STOP_REASON = "blamespan.autogen.stop_reason"
"""Why an AutoGen team stopped, as the recording says it."""
_LIMITS = re.compile(r"\bmax(?:imum)?\b|\blimit\b", re.IGNORECASE)
_LIMIT_ERRORS = re.compile(r"GraphRecursionError|recursion limit", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SeenStep:
    """A step of a run, without what is random in it.

    Attributes:
        index: Its place in the rebuilt trace.
        agent: Whose.
        kind: As `blamespan.trace.Step`.
        content: Its text.
        inputs: Indices of the steps it builds on.
        is_decision: Whether an agent decided it.
    """

    index: int
    agent: str
    kind: str
    content: str
    inputs: tuple[int, ...]
    is_decision: bool


@dataclass(frozen=True, slots=True)
class WatchedRun:
    """A run.

    Attributes:
        answer: What it gave.
        succeeded: Whether that is right; None where nobody can tell.
        error: What broke it, or the check; empty if nothing.
        agents: Who decided something in it, the first to do so first.
        steps: What was done.
        limits: Limits that it ran into, in words.
        is_void: Whether it says nothing of the team, as it never ended.
        trace_id: Of the trace that the steps are of.
        defences: What it shows of the team's.
    """

    answer: str
    succeeded: bool | None
    error: str = ""
    agents: tuple[str, ...] = ()
    steps: tuple[SeenStep, ...] = ()
    limits: tuple[str, ...] = ()
    is_void: bool = False
    trace_id: str = field(default="", compare=False)
    defences: Defences = field(default_factory=Defences)

    def ended(self, twin: WatchedRun) -> End:
        """Tell how it ended; *twin*, the same without a fault, shows which limits are its own rule."""
        if set(self.limits) - set(twin.limits):
            return "at a limit"
        return "broke" if self.error and not twin.error else "by itself"


def seen_in(
    spans: Iterable[Span], answer: str, succeeded: bool | None, error: str, *, ran_out: bool = False
) -> WatchedRun:
    """Make a run of what was recorded of it; of several teams in it, the one with the most steps.

    Args:
        spans: All that ended during the run.
        answer: As `WatchedRun`, like the next two.
        succeeded: Likewise.
        error: Likewise.
        ran_out: Whether it is known to have run into a limit.
    """
    spans = list(spans)
    limits = {str(span.attributes[_STOP_REASON]) for span in spans if _STOP_REASON in span.attributes}
    limits = {re.sub(r"\d+", "#", limit) for limit in limits if _LIMITS.search(limit)}
    limits |= {"rounds"} if ran_out else set()
    limits |= {"recursion limit"} if _LIMIT_ERRORS.search(error) else set()
    trace = longest_trace(spans)
    if trace is None:
        return WatchedRun(answer, succeeded, error, limits=tuple(sorted(limits)))
    steps = tuple(
        SeenStep(step.index, step.agent, step.kind, step.content, step.inputs, trace.can_be_blamed(step))
        for step in trace.steps
    )
    agents = tuple(dict.fromkeys(step.agent for step in steps if step.is_decision))
    defences = read_defences(trace, spans)
    return WatchedRun(
        answer,
        succeeded,
        error,
        agents,
        steps,
        tuple(sorted(limits)),
        trace_id=trace.trace_id,
        defences=defences,
    )


def longest_trace(spans: Iterable[Span]) -> MessageActionTrace | None:
    """Rebuild what was recorded; of several runs return the one with the most steps, None where nobody did anything."""
    by_trace: dict[str, list[Span]] = {}
    for span in spans:
        by_trace.setdefault(span.trace_id, []).append(span)
    traces: list[MessageActionTrace] = []
    for spans_of_trace in by_trace.values():
        try:
            traces += [rebuild_run(run) for run in split_runs(spans_of_trace)]
        except BlamespanError:  # somebody else's spans, with no agent in them
            continue
    return max(traces, key=lambda trace: len(trace.steps), default=None)
