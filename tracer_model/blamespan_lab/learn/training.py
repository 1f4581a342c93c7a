"""Training a team's layer of the tracer on what a campaign made, and measuring whether it is worth using."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.labels.people import PersonLabel, by_run
from blamespan.learnt_files import OUTCOME_HEAD_FILE, STEP_HEAD_FILE, USUAL_COURSE_FILE
from blamespan.taxonomy import canonical
from blamespan.trace import MessageActionTrace
from blamespan_lab.recorded_runs import group_by_task
from blamespan_lab.train.outcome_head import OutcomeFigures, apply_labels, learn_head, read_outcomes
from blamespan_lab.train.step_head import (
    Hits,
    LeftOutFigures,
    StepFigures,
    agreed_run,
    learn_step_head,
    measure_left_out,
    measure_named,
    read_steps,
)
from blamespan_tracer.auto.observed_run import ReadRun
from blamespan_tracer.auto.parallel_calls import order_parallel_calls
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.auto.weights import BUNDLED, AutoWeights
from blamespan_tracer.checks import CHECKS
from blamespan_tracer.checks.usual_course import UsualCourses, learn_usual_courses
from blamespan_tracer.heads import list_agents

_FOLDS = 5
_WELL_KNOWN = 0.8
_FEWEST_OF_ONE = 3
"""Failures of an agent, or of a kind, from which on something is said of it."""


@dataclass(frozen=True, slots=True)
class Trained:
    """What was learnt, and how good it is on what it has not seen.

    Attributes:
        courses: What is usual in each team with enough sound runs, and
        n_sound: how many there were.
        by_itself: Percent of the labelled failures whose step the tracer names without anything that was learnt.
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
        n_teams: Teams that share no agent, of all runs.
        labelled: The runs of which it is known what decided them, or that nothing did, with that.
        hits: Of each labelled failure, by trace id, what is named right by what is used: the head, if it is better.
    """

    courses: UsualCourses
    n_sound: int
    by_itself: float
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
    n_teams: int
    labelled: tuple[RecordedRun, ...]
    hits: Mapping[str, Hits]


def train_team(
    runs: Sequence[RecordedRun],
    labels: Iterable[PersonLabel],
    folder: Path,
    *,
    with_fault: Set[str] = frozenset(),
) -> Trained:
    """Learn what is usual, and heads for steps and outcomes, from *runs*, measure them, and write them into *folder*.

    What is usual is learnt from sound runs into which no fault was put. A head reads a run by what is usual in runs of
    other tasks, as it will be in runs to come.

    Args:
        runs: With or without outcomes of their own.
        labels: What is known of them, from wherever.
        folder: Where all is written.
        with_fault: Trace ids of the runs into which a fault was put.
    """
    known = by_run(labels)
    about = {
        run.trace.trace_id: [label for label in known.get(run.trace.trace_id, ()) if label.concerns(run.trace)]
        for run in runs
    }
    unused = sum(len(said) for trace_id, said in known.items() if not about.get(trace_id))
    traces = {run.trace.trace_id: apply_labels(run.trace, about[run.trace.trace_id]) for run in runs}
    sound = [
        order_parallel_calls(trace)[0]
        for key, trace in traces.items()
        if trace.outcome == "succeeded" and key not in with_fault
    ]
    courses = learn_usual_courses(sound)
    if courses.teams:
        courses.save(folder / USUAL_COURSE_FILE)
    tracer = _TracerOfOthers(sound, [trace.task for trace in traces.values()])
    agreed = [
        one
        for run in runs
        if (one := agreed_run(replace(run, trace=traces[run.trace.trace_id]), about[run.trace.trace_id])) is not None
    ]
    figures, left_out, why_not, is_better = None, None, "", False
    by_itself = 0.0
    in_use: dict[str, Hits] = {}
    well: tuple[str, ...] = ()
    badly: tuple[str, ...] = ()
    try:
        team = read_steps(agreed, tracer)
        head, figures = learn_step_head(team)
        kinds = [_kind_of(one.run) for one in team.failures]
        left_out = measure_left_out(team, kinds, figures.penalty)
        by_itself = measure_named(team, AutoTracer.bundled())
        is_better = head.is_better and figures.after >= max(left_out.agent, left_out.place)
        replace(head, is_better=is_better).save(folder / STEP_HEAD_FILE)
        agents = [(one.run.faults or ())[0].agent for one in team.failures]
        named = [hits.step for hits in figures.hits_after]
        well, badly = _sort_by_hits([*zip(agents, named, strict=True), *zip(kinds, named, strict=True)])
        hits = figures.hits_after if is_better else figures.hits_before
        in_use = {one.run.trace.trace_id: of_one for one, of_one in zip(team.failures, hits, strict=True)}
    except UnreadableInput as error:
        why_not = str(error)
    outcomes, why_no_outcomes = None, ""
    try:
        outcome_head, outcomes = learn_head(read_outcomes(list(traces.values()), tracer))
        outcome_head.save(folder / OUTCOME_HEAD_FILE)
    except UnreadableInput as error:
        why_no_outcomes = str(error)
    return Trained(
        courses,
        len(sound),
        by_itself,
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
        n_teams=_count_teams(traces.values()),
        labelled=tuple(agreed),
        hits=in_use,
    )


def _count_teams(traces: Iterable[MessageActionTrace]) -> int:
    teams: list[set[str]] = []
    for trace in traces:
        agents = set(list_agents(trace))
        others = [team for team in teams if not team & agents]
        teams = [*others, agents.union(*(team for team in teams if team & agents))]
    return len(teams)


class _TracerOfOthers:
    """Reads each run by what is usual in sound runs of other tasks: a run must not say what is usual for itself."""

    def __init__(self, sound: Sequence[MessageActionTrace], tasks: Sequence[str]) -> None:
        groups = group_by_task(tasks)
        folds = np.random.default_rng(0).permutation(groups.max() + 1 if len(groups) else 0) % _FOLDS
        self._fold = dict(zip(tasks, folds[groups].tolist(), strict=True))
        weights = AutoWeights.load(BUNDLED)
        self._tracers: list[AutoTracer] = []
        for fold in range(_FOLDS):
            usual = learn_usual_courses(trace for trace in sound if self._fold[trace.task] != fold)
            self._tracers.append(AutoTracer(weights, checks=(*CHECKS, *usual.checks())))

    @property
    def identity(self) -> TracerIdentity:
        """That of the tracer by itself."""
        return self._tracers[0].identity

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run."""
        return [self._tracers[self._fold[trace.task]].attribute([trace])[0] for trace in traces]

    def read(self, trace: MessageActionTrace) -> ReadRun:
        """Read a run."""
        tracer: AutoTracer = self._tracers[self._fold[trace.task]]
        return tracer.read(trace)


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
