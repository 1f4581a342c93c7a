"""Training a team's layer of the tracer on what a campaign made, and measuring whether it is worth using."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.labels.people import PersonLabel, by_run
from blamespan.taxonomy import canonical
from blamespan_lab.train.labels.learning import (
    LeftOutFigures,
    StepFigures,
    agreed_run,
    learn_step_head,
    measure_left_out,
    read_steps,
)
from blamespan_lab.train.outcomes.learning import OutcomeFigures, apply_labels, learn_head, read_outcomes
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.outcome_head import OUTCOME_HEAD_FILE
from blamespan_tracer.step_head import STEP_HEAD_FILE

__all__ = ["Trained", "train_team"]

_WELL_KNOWN = 0.8
_FEWEST_OF_ONE = 3
"""Failures of an agent, or of a kind, from which on something is said of it."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What was learnt, and how good it is on what it has not seen.

    Attributes:
        steps: Of the head for steps; None where there were too few labels, and
        why_not: then why.
        left_out: Of the same, kinds of faults left out.
        outcomes: Of the head for outcomes; None where there were too few runs, and
        why_no_outcomes: then why.
        known: Agents and kinds of which most failures are named, and
        unknown: those of which they are not; each with how many of how many.
        step_head: Whether the head for steps is better than the tracer by itself, and than naming the same always.
        outcome_head: Whether that for outcomes is.
        unused: Labels that are about none of the runs.
    """

    steps: StepFigures | None
    why_not: str
    left_out: LeftOutFigures | None
    outcomes: OutcomeFigures | None
    why_no_outcomes: str
    known: tuple[str, ...]
    unknown: tuple[str, ...]
    step_head: bool
    outcome_head: bool
    unused: int


def train_team(runs: Sequence[RecordedRun], labels: Iterable[PersonLabel], folder: Path, *, seed: int = 0) -> Trained:
    """Learn heads for steps and outcomes from *runs*, measure them, and write them into *folder*.

    Args:
        runs: With or without outcomes of their own.
        labels: What is known of them, from wherever.
        folder: Where the heads are written.
        seed: Of the splits by task.
    """
    known = by_run(labels)
    about = {
        run.trace.trace_id: [label for label in known.get(run.trace.trace_id, ()) if label.concerns(run.trace)]
        for run in runs
    }
    unused = sum(len(said) for trace_id, said in known.items() if not about.get(trace_id))
    traces = {run.trace.trace_id: apply_labels(run.trace, about[run.trace.trace_id]) for run in runs}
    tracer = AutoTracer.bundled()
    agreed = [
        one
        for run in runs
        if (one := agreed_run(replace(run, trace=traces[run.trace.trace_id]), about[run.trace.trace_id])) is not None
    ]
    figures, left_out, why_not, is_better = None, None, "", False
    well: tuple[str, ...] = ()
    badly: tuple[str, ...] = ()
    try:
        steps = read_steps(agreed, tracer)
        head, figures = learn_step_head(steps, seed=seed)
        kinds = [_kind_of(one.run) for one in steps]
        left_out = measure_left_out(steps, kinds, seed=seed)
        is_better = head.is_better and figures.after >= max(left_out.agent, left_out.place)
        replace(head, is_better=is_better).save(folder / STEP_HEAD_FILE)
        agents = [(one.run.faults or ())[0].agent for one in steps]
        well, badly = _sort_by_hits([*zip(agents, figures.named, strict=True), *zip(kinds, figures.named, strict=True)])
    except ConfigError as error:
        why_not = str(error)
    outcomes, why_no_outcomes = None, ""
    try:
        outcome_head, outcomes = learn_head(read_outcomes(list(traces.values()), tracer), seed=seed)
        outcome_head.save(folder / OUTCOME_HEAD_FILE)
    except ConfigError as error:
        why_no_outcomes = str(error)
    return Trained(
        figures,
        why_not,
        left_out,
        outcomes,
        why_no_outcomes,
        well,
        badly,
        step_head=is_better,
        outcome_head=outcomes is not None and outcomes.is_better,
        unused=unused,
    )


def _kind_of(run: RecordedRun) -> str:
    named = (run.faults or ())[0].mode
    return "" if named is None else str(canonical(named)[0])


def _sort_by_hits(named: Iterable[tuple[str, bool]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split what failures have in common by whether most of them are named: the best, and the worst, first."""
    hits: dict[str, list[bool]] = defaultdict(list)
    for name, is_named in named:
        hits[name].append(is_named)
    shares = sorted(
        ((sum(of_one) / len(of_one), name, of_one) for name, of_one in hits.items() if name),
        key=lambda item: (-item[0], -len(item[2]), item[1]),
    )
    shares = [item for item in shares if len(item[2]) >= _FEWEST_OF_ONE]
    texts = {name: f"{name} {sum(of_one)} of {len(of_one)}" for _, name, of_one in shares}
    well = tuple(texts[name] for share, name, _ in shares if share >= _WELL_KNOWN)
    return well, tuple(texts[name] for share, name, _ in reversed(shares) if share < _WELL_KNOWN)
