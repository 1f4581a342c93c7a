"""An edit of a run, and the three runs that it gives: untouched, edited, and a decoy in which nothing is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import ErrorMode
from blamespan.trace import MessageActionTrace, Step
from blamespan_lab.make.edits.values import Substitution, substitute

WRITTEN: Final = "written"
"""Kind of a mistake that was written, not put in."""

_LEAST_ALIKE = 0.4
"""Share of the words of both steps that a mistake has in common with the step that it stands for."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One mistake put into one step.

    Attributes:
        kind: Name of the kind of edit.
        mode: What is wrong.
        step: Index of the step that is wrong, in the edited run.
        before: What changes in the task, in what agents were given, and in the steps before it.
        after: What changes in that step and in all after it.
        decoy_before: The same for the decoy; None where no decoy is possible.
        decoy_after: The same for the decoy.
        restructure: Takes steps out or repeats them, before anything else changes.
    """

    kind: str
    mode: ErrorMode
    step: int
    before: tuple[Substitution, ...] = ()
    after: tuple[Substitution, ...] = ()
    decoy_before: tuple[Substitution, ...] | None = None
    decoy_after: tuple[Substitution, ...] = ()
    restructure: Callable[[MessageActionTrace], MessageActionTrace] | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """A run as it was, the run with one mistake, and a run in which the same words are right.

    Attributes:
        edit: The mistake.
        source: Name of the source of the run.
        untouched: The run as it was.
        edited: The run with the mistake.
        decoy: The run with the same text in that step, and a source that agrees with it; None where there is none.
    """

    edit: Edit
    source: str
    untouched: MessageActionTrace
    edited: MessageActionTrace
    decoy: MessageActionTrace | None


def make_pair(run: MessageActionTrace, edit: Edit, source: str) -> Pair | None:
    """Apply *edit* to *run*; None where the step that should be wrong comes out as it was, with the same sources."""
    base = edit.restructure(run) if edit.restructure else run
    edited = _rewrite(base, edit.step, edit.before, edit.after, outcome="failed", name=f"{edit.kind} {edit.step}")
    if not edit.restructure and edited.steps == run.steps and edited.task == run.task:
        return None
    decoy = None
    if edit.decoy_before is not None:
        name = f"{edit.kind} {edit.step} decoy"
        decoy = _rewrite(run, edit.step, edit.decoy_before, edit.decoy_after, outcome="succeeded", name=name)
    return Pair(edit, source, replace(run, outcome="succeeded"), edited, decoy)


def join_written(twin: MessageActionTrace, failed: RecordedRun, source: str) -> Pair | None:
    """Join a failed run and the sound one that it was written beside; None where their words have little in common."""
    fault = failed.faults[0] if failed.faults else None
    if fault is None or fault.step is None or fault.mode is None or fault.step >= len(twin.steps):
        return None
    step = fault.step
    words, others = ({*run.steps[step].content.split()} for run in (twin, failed.trace))
    if len(words & others) < _LEAST_ALIKE * len(words | others):
        return None
    steps = tuple(
        replace(one, span_id=twin.steps[one.index].span_id) if one.index < len(twin.steps) else one
        for one in failed.trace.steps
    )
    edited = replace(failed.trace, steps=steps, outcome="failed")
    return Pair(Edit(WRITTEN, fault.mode, step), source, replace(twin, outcome="succeeded"), edited, None)


def _rewrite(
    run: MessageActionTrace,
    index: int,
    before: Sequence[Substitution],
    after: Sequence[Substitution],
    *,
    outcome: str,
    name: str,
) -> MessageActionTrace:
    """Change the task, what agents were given and the steps below *index* by *before*, the others by *after*."""
    steps = tuple(
        replace(
            step,
            content=substitute(step.content, before if step.index < index else after),
            input_text=substitute(step.input_text, before),
        )
        for step in run.steps
    )
    identity = sha256(f"{run.trace_id} {name} {before} {after}".encode()).hexdigest()[:32]
    return replace(run, trace_id=identity, task=substitute(run.task, before), steps=steps, outcome=outcome)  # type: ignore[arg-type]  # a literal


def with_repeat(run: MessageActionTrace, first: int, last: int) -> MessageActionTrace:
    """Repeat the steps from *first* to *last* right after *last*."""
    length = last - first + 1

    def repeat_step(step: Step) -> Step:
        inputs = {i + length if i >= first else i for i in step.inputs} | ({last} if step.index == first else set())
        span_id = sha256(f"{step.span_id} again".encode()).hexdigest()[:16]
        return replace(step, index=step.index + length, span_id=span_id, inputs=tuple(sorted(inputs)), input_text="")

    again = map(repeat_step, run.steps[first : last + 1])
    later = tuple(_move_step(step, lambda i: i + length if i > last else i) for step in run.steps[last + 1 :])
    return replace(run, steps=(*run.steps[: last + 1], *again, *later))


def without_steps(run: MessageActionTrace, first: int, last: int) -> MessageActionTrace:
    """Take the steps from *first* to *last* out; who built on them builds on the step before."""
    length = last - first + 1
    later = tuple(
        _move_step(step, lambda i: first - 1 if first <= i <= last else i - length if i > last else i)
        for step in run.steps[last + 1 :]
    )
    return replace(run, steps=(*run.steps[:first], *later))


def _move_step(step: Step, place: Callable[[int], int]) -> Step:
    return replace(step, index=place(step.index), inputs=tuple(sorted({place(i) for i in step.inputs})))
