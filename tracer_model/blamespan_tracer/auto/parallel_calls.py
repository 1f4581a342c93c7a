"""Parallel calls: which of them is recorded first is chance, so no verdict may depend on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from blamespan.attribution import Attribution, Contradicted
from blamespan.trace import MessageActionTrace, Step


def order_parallel_calls(trace: MessageActionTrace) -> tuple[MessageActionTrace, list[int]]:
    """Return the run with parallel calls in the order of their words, and the place of each of its steps in *trace*.

    Calls that an agent makes one after another, without an answer in between, are parallel; their answers follow in the
    order of the calls.
    """
    places: list[int] = []
    order: dict[int, int] = {}
    for block in _split_into_blocks(trace.steps):
        if len(block) > 1 and not any(index >= block[0].index for step in block for index in step.inputs):
            block = sorted(block, key=lambda step: ([order[index] for index in step.inputs], step.content, step.index))
        for step in block:
            order[step.index] = len(places)
            places.append(step.index)
    if places == list(range(len(places))):
        return trace, places
    steps = tuple(
        replace(trace.steps[place], index=index, inputs=tuple(sorted(order[i] for i in trace.steps[place].inputs)))
        for index, place in enumerate(places)
    )
    return replace(trace, steps=steps), places


def restore_order(verdict: Attribution, places: Sequence[int]) -> Attribution:
    """Return a verdict on what `order_parallel_calls` returned as one on the run that it was given.

    Args:
        verdict: On the run in order.
        places: Of each of its steps in the run that was given.
    """
    if list(places) == list(range(len(places))):
        return verdict
    evidence = [
        replace(item, index=places[item.index], contradicts=_restore_source(item.contradicts, places))
        for item in verdict.evidence
    ]
    cause = verdict.cause
    if cause is not None:
        step = None if cause.step is None else places[cause.step]
        cause = replace(cause, step=step, against=_restore_source(cause.against, places))
    return replace(
        verdict,
        steps=tuple(
            sorted((replace(step, index=places[step.index]) for step in verdict.steps), key=lambda step: step.index)
        ),
        decisive_step=None if verdict.decisive_step is None else places[verdict.decisive_step],
        step_set=tuple(sorted(places[index] for index in verdict.step_set)),
        evidence=tuple(evidence),
        cause=cause,
    )


def _restore_source(source: Contradicted | None, places: Sequence[int]) -> Contradicted | None:
    return source if source is None or source.index is None else replace(source, index=places[source.index])


def _split_into_blocks(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield the steps in turn: calls of one agent that follow each other together, likewise their answers."""
    for (kind, _), block in groupby(steps, key=lambda step: (step.kind, step.agent)):
        if kind in ("tool_call", "tool_result"):
            yield list(block)
        else:
            yield from ([step] for step in block)
