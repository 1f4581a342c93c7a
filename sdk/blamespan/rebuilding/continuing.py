"""Runs in parts: one that waits for an answer from outside, and the one that goes on when it comes.

Each part is a trace of its own. The part that goes on links to the one before (`blamespan.link.relation`). A part that
waits is not judged; the one that ends is judged with those before it, as one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from blamespan import conventions as words
from blamespan.attribution import Attribution, Cause, Evidence
from blamespan.errors import BlamespanError
from blamespan.rebuilding.rebuild import rebuild_run
from blamespan.rebuilding.runs import Run, split_runs
from blamespan.spans import Span, SpanLink
from blamespan.trace import Agent, MessageActionTrace

WAITS: Final = "the run waits for an answer from outside: it is judged with the run that goes on from here"
"""Why a part that waits has no verdict."""
MOST_PARTS: Final = 16
"""So many parts before the last one are joined."""


@dataclass(frozen=True, slots=True)
class RebuiltRun:
    """A run, or a part of one, rebuilt together with the parts before it.

    Attributes:
        run: Its spans.
        trace: The run.
        waits: Whether it has stopped to wait for an answer from outside.
        earlier_runs: The spans of the parts before it, the first one first, as far as they are to be had.
        earlier: Those parts, rebuilt.
    """

    run: Run
    trace: MessageActionTrace
    waits: bool
    earlier_runs: tuple[Run, ...]
    earlier: tuple[MessageActionTrace, ...]


def rebuild_with_earlier(run: Run, spans_of: Callable[[str], Sequence[Span]]) -> RebuiltRun:
    """Rebuild a run and the parts before it.

    Args:
        run: The run.
        spans_of: Returns the spans of a trace by its id; nothing where they are gone.

    Raises:
        MalformedTrace: as `blamespan.rebuild` does.
    """
    earlier_runs = _earlier_parts(run, spans_of)
    earlier = tuple(map(rebuild_run, earlier_runs))
    return RebuiltRun(run, rebuild_run(run), is_waiting(run), tuple(earlier_runs), earlier)


def is_waiting(run: Run) -> bool:
    """Check whether a run has stopped to ask somebody outside."""
    return run.root is not None and run.root.attributes.get(words.RUN_INTERRUPTED) is True


def link_to_earlier(run: Run) -> SpanLink | None:
    """Return the link to the run that this one goes on from, if it does; a fork of an earlier run is another run."""
    links = run.root.links if run.root is not None else ()
    return next((link for link in links if link.attributes.get(words.LINK_RELATION) == "continues"), None)


def _earlier_parts(run: Run, spans_of: Callable[[str], Sequence[Span]]) -> list[Run]:
    """Return the parts before a run, the first one first: as many as are to be had without a gap.

    Args:
        run: The part that goes on.
        spans_of: Returns the spans of a trace by its id; nothing where they are gone.
    """
    parts: list[Run] = []
    root_ids = {run.root.span_id} if run.root is not None else set()
    link = link_to_earlier(run)
    while link is not None and link.span_id not in root_ids and len(parts) < MOST_PARTS:
        root_ids.add(link.span_id)
        try:
            candidates = split_runs(spans_of(link.trace_id))
        except BlamespanError:
            break
        before = next((part for part in candidates if part.root and part.root.span_id == link.span_id), None)
        if before is None or not is_waiting(before):
            break
        parts.insert(0, before)
        link = link_to_earlier(before)
    return parts


def join_parts(parts: Sequence[MessageActionTrace]) -> MessageActionTrace:
    """Return one run with the steps of all *parts*, in order.

    It has the task of the first part and the outcome, trace id and resource of the last. What begins a part builds on
    what ended the part before.

    Raises:
        MalformedTrace: if two parts share a span id.
    """
    steps = list(parts[0].steps)
    agents: dict[str, Agent] = {agent.name: agent for agent in parts[0].agents}
    for part in parts[1:]:
        offset = len(steps)
        before = (offset - 1,) if offset else ()
        for step in part.steps:
            inputs = tuple(offset + index for index in step.inputs) or before
            steps.append(replace(step, index=offset + step.index, inputs=inputs))
        for agent in part.agents:
            agents.setdefault(agent.name, agent)
    return replace(parts[-1], task=parts[0].task or parts[-1].task, steps=tuple(steps), agents=tuple(agents.values()))


def part_of_verdict(verdict: Attribution, parts: Sequence[MessageActionTrace], number: int) -> Attribution:
    """Return what a verdict on joined *parts* says of one of them, in that part's own step numbers.

    The part with the decisive step gets the verdict: shares of its steps, scaled to add up to 1. Another part gets an
    abstention that says where the decisive step is. Where nobody is named, each part gets the verdict with its shares.
    """
    part = parts[number]
    offset = sum(len(before.steps) for before in parts[:number])
    own = range(offset, offset + len(part.steps))
    own_verdict = _own_verdict(verdict, parts, part, own)
    cause = _own_cause(verdict, own) if own_verdict.abstained is None else None
    return replace(own_verdict, revision=verdict.revision, outcome=verdict.outcome, cause=cause)


def _own_cause(verdict: Attribution, own: range) -> Cause | None:
    """Return the cause with the places of a part's steps; words of another part have none."""
    cause = verdict.cause
    if cause is None or cause.step is None:
        return cause
    return replace(cause, step=cause.step - own.start if cause.step in own else None)


def _own_verdict(
    verdict: Attribution, parts: Sequence[MessageActionTrace], part: MessageActionTrace, own: range
) -> Attribution:
    decisive = verdict.decisive_step
    if verdict.abstained is not None or decisive is None:
        return Attribution.abstain(part, verdict.abstained or "there is no decisive step", verdict.tracer)
    if decisive not in own and verdict.names_suspects:
        return Attribution.abstain(part, _elsewhere(verdict, parts, decisive), verdict.tracer)
    if not any(verdict.steps[index].score for index in own):
        return Attribution.blameless(
            part,
            failure_score=verdict.failure_score,
            tracer=verdict.tracer,
            unaided_score=verdict.unaided_score,
        )
    names = {agent.name for agent in part.agents}
    own_verdict = Attribution.of(
        part,
        [verdict.steps[index].score for index in own],
        failure_score=verdict.failure_score,
        tracer=verdict.tracer,
        modes=[mode for mode in verdict.modes if mode.agent in names],
        evidence=[_part_evidence(item, own) for item in verdict.evidence if item.index in own],
        coverage=verdict.coverage,
        unaided_score=verdict.unaided_score,
        by_evidence=[verdict.steps[index].by_evidence for index in own],
    )
    return replace(own_verdict, decisive_step=decisive - own.start) if decisive in own else own_verdict


def _part_evidence(evidence: Evidence, own: range) -> Evidence:
    """Return evidence in a part's own step numbers; the part's steps have the numbers *own* in the joined run."""
    contradicts = evidence.contradicts
    if contradicts is not None and contradicts.index is not None:
        index = contradicts.index - own.start if contradicts.index in own else None
        contradicts = replace(contradicts, index=index)
    return replace(evidence, index=evidence.index - own.start, contradicts=contradicts)


def _elsewhere(verdict: Attribution, parts: Sequence[MessageActionTrace], decisive: int) -> str:
    for part in parts:
        if decisive < len(part.steps):
            break
        decisive -= len(part.steps)
    step = part.steps[decisive]
    mode = verdict.mode_of(step.agent)
    what = f", {mode.mode.name}" if mode is not None else ""
    who = "most to blame" if verdict.has_evidence else "the first suspect"
    return f"{who} is {step.agent} at step {step.index} of another part of this run, trace {part.trace_id}{what}"
