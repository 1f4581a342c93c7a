"""Learn a head for steps from people's labels, and measure it on labels that it has not seen.

The head begins as the tracer's own opinion of each step. Labels of a team say how far to leave it: who usually errs
there, and where in a run. The penalty holds it back: a dozen labels do not undo what the tracer sees in the run.

Dims: N labelled failures, F features of a step, K kinds of error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from blamespan.attribution import Attribution
from blamespan.errors import UnreadableInput
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.labels.people import PersonLabel, step_of
from blamespan.lazy import lazy_property
from blamespan.taxonomy import ErrorMode, canonical, mode
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer
from blamespan_lab.recorded_runs import group_by_task
from blamespan_lab.statistics import consensus, interval, percent
from blamespan_lab.train.calibrating import blamed, mass_ahead, mass_holding
from blamespan_lab.train.step_model import LabelledSteps, cross_fit, draw_folds, fit_prior
from blamespan_tracer.auto.evidence import find_doubted_claims
from blamespan_tracer.auto.observed_run import ReadRun
from blamespan_tracer.auto.parallel_calls import order_parallel_calls
from blamespan_tracer.auto.step_prior import StepPrior
from blamespan_tracer.auto.tracer import list_modes
from blamespan_tracer.heads import list_agents
from blamespan_tracer.step_head import KindHead, StepHead, opinion_of_tracer, step_features

FEWEST = 8
"""Labelled failures that learning needs: of fewer nobody can tell better from worse."""

_CURVE_SIZES = (8, 16, 24, 32, 48, 64, 80)
_PENALTIES = (2.0, 10.0)
"""Of the squares of the head's weights; taken is the one by which labelled steps of other tasks are likelier."""
_AGENT_PART = 0.3
_LEAST_OF_RUNS = 0.5
"""Share of the runs that an agent must act in for its name to count: where each run has a team of its own none does."""
_COVERAGE = 90.0
_DRAWS = 1_000
_SPLITS = 20
_FEWEST_MEASURED = 6
_LEFT_OUT_FOLDS = 3
_MOST_KINDS = 4
_LEAST = 1e-6
_KIND_STRENGTHS = (0.03, 0.1, 0.3, 1.0)
"""Inverse penalties of the head for kinds; taken is the one by which kinds of other tasks are likelier."""


@dataclass(frozen=True, slots=True)
class KindFigures:
    """How often the labelled kind of error is named, on failures of tasks that the head has not seen.

    Attributes:
        n: Failures whose kind is labelled.
        before: Percent whose kind is named by what findings say, at the step that the head names, and
        after: by what was learnt as well.
        gain_interval: 90 % interval of the difference, in points.
    """

    n: int
    before: float
    after: float
    gain_interval: tuple[float, float]

    @property
    def is_better(self) -> bool:
        """Whether more kinds are named measurably."""
        return self.gain_interval[0] > 0


class Hits(NamedTuple):
    """What is named right of one failure."""

    step: bool
    agent: bool


@dataclass(frozen=True, slots=True)
class StepFigures:
    """How often the labelled step is named, on labels that the head has not seen.

    Attributes:
        n: Labelled failures.
        before: Percent whose step the tracer names by itself, and
        before_interval: 95 %.
        after: Percent whose step it names with a head that was learnt from the labels of other tasks, and
        after_interval: 95 %.
        agent_before: Percent whose agent the tracer names by itself, and
        agent_after: with the head.
        mended: Failures that only the head gets right, and
        broken: only the tracer by itself.
        gain_interval: How much likelier the head makes the labelled step, in nats, 90 %: the gain exceeds the lower end
            with a confidence of 95 %.
        hits_before: Of each failure, what the tracer names right by itself, and
        hits_after: with the head.
        penalty: Of the head's weights.
        kinds: How often the labelled kind of error is named; None where too few are labelled.
    """

    n: int
    before: float
    before_interval: tuple[float, float]
    after: float
    after_interval: tuple[float, float]
    agent_before: float
    agent_after: float
    mended: int
    broken: int
    gain_interval: tuple[float, float]
    hits_before: tuple[Hits, ...] = ()
    hits_after: tuple[Hits, ...] = ()
    penalty: float = _PENALTIES[-1]
    kinds: KindFigures | None = None

    @property
    def is_better(self) -> bool:
        """Whether labelled steps are measurably likelier with the head, and not fewer of them named."""
        return self.gain_interval[0] > 0 and self.mended >= self.broken


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What a number of labels is worth, on failures of other tasks than those labelled; means of several draws.

    Attributes:
        n_labels: How many failures were labelled.
        used: Percent of the draws in which the head was measurably better on these labels, and so was used.
        step: Percent of the other failures whose step is named, and
        step_spread: its standard deviation over the draws.
        agent: Percent whose agent is named.
    """

    n_labels: int
    used: float
    step: float
    step_spread: float
    agent: float


def agreed_run(run: RecordedRun, labels: Sequence[PersonLabel]) -> RecordedRun | None:
    """Label a run as most do who labelled it; where a fault was put in counts if nobody knows better and it failed.

    Returns:
        The run with that fault, or without any where it did not fail; None where people disagree, are unsure, or name a
        step that it does not have.
    """
    known = [label for label in labels if label.outcome is not None and label.answer != "failed"]
    if not known and run.trace.outcome == "failed":
        known = [label for label in labels if label.answer == "injected"]
    labels = known
    sides = [label.answer in ("no_failure", "no_agent") for label in labels]
    is_sound = consensus(sides)
    if is_sound is None:
        return None
    if is_sound:
        return replace(run, faults=(), origin=None)
    indices = [named.index for label in labels if (named := step_of(label, run.trace)) is not None]
    step = consensus(indices)
    if step is None:
        return None
    names = [name for label in labels if label.decisive for name in label.decisive.modes]
    agreed = consensus(names) or next(iter(names), None)
    fault = Fault(run.trace.steps[step].agent, mode(agreed) if agreed else None, step)
    return replace(run, faults=(fault,), origin=None)


class ReadingTracer(Protocol):
    """A tracer that also says what it reads in a run."""

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run."""

    def read(self, trace: MessageActionTrace) -> ReadRun:
        """Read a run."""


@dataclass(frozen=True)
class TeamSteps:
    """The failures of a team whose step is labelled.

    Attributes:
        failures: N of them, with `step_features`.
        agents: Those in at least half of the runs: what the features' last columns are about.
        modes: Of each failure and each of its steps, the mode that findings name, if any does, and the one that it has
            without a head.
    """

    failures: tuple[LabelledSteps, ...]
    agents: tuple[str, ...]
    modes: tuple[tuple[tuple[ErrorMode | None, ErrorMode], ...], ...]

    @lazy_property
    def groups(self) -> NDArray[np.int64]:
        """The number of each failure's task: (N,)."""
        return group_by_task([one.run.trace.task for one in self.failures])

    def take(self, rows: Iterable[int]) -> TeamSteps:
        """Return some of them."""
        chosen = list(rows)
        return TeamSteps(
            tuple(self.failures[row] for row in chosen), self.agents, tuple(self.modes[row] for row in chosen)
        )


def read_steps(runs: Sequence[RecordedRun], tracer: ReadingTracer) -> TeamSteps:
    """Read the failures whose step is labelled, as the tracer sees them by itself.

    Left out is a run on which the tracer abstains, and one whose labelled step nobody can be blamed for.

    Args:
        runs: With or without labels.
        tracer: Without a head for steps.
    """
    ordered = [_put_in_order(run) for run in runs if run.faults and run.faults[0].step is not None]
    counts = Counter(agent for run in ordered for agent in list_agents(run.trace))
    agents = tuple(sorted(agent for agent, count in counts.items() if count >= _LEAST_OF_RUNS * len(ordered)))
    verdicts = tracer.attribute([run.trace for run in ordered])
    labelled, modes = [], []
    for run, verdict in zip(ordered, verdicts, strict=True):
        trace, step = run.trace, (run.faults or ())[0].step
        if verdict.abstained is not None or step is None or not trace.can_be_blamed(trace.steps[step]):
            continue
        shares, read = np.array([each.score for each in verdict.steps]), tracer.read(trace)
        features = step_features(read, shares, agents)
        labelled.append(LabelledSteps.of(run, features, read.can_be_blamed, opinion_of_tracer(shares)))
        doubted = find_doubted_claims(read.observed)
        by_step = (list_modes(read, doubted, index) for index in range(len(trace.steps)))
        modes.append(tuple((next(iter(named), None), (*named, *guessed)[0]) for named, guessed in by_step))
    return TeamSteps(tuple(labelled), agents, tuple(modes))


def _put_in_order(run: RecordedRun) -> RecordedRun:
    """Return the run with parallel calls in the order in which `auto` reads them."""
    trace, places = order_parallel_calls(run.trace)
    faults = tuple(
        fault if fault.step is None else replace(fault, step=places.index(fault.step)) for fault in run.faults or ()
    )
    return replace(run, trace=trace, faults=faults)


def learn_step_head(team: TeamSteps, *, seed: int = 0) -> tuple[StepHead, StepFigures]:
    """Fit a head to all labels; its figures and its step sets come from heads that have not seen the run's task.

    Raises:
        UnreadableInput: if there are too few labels.
    """
    steps = team.failures
    if len(steps) < FEWEST:
        raise UnreadableInput(
            f"expected at least {FEWEST} labelled failures whose step an agent took, got {len(steps)}. "
            "Label more with: blamespan annotate TRACES"
        )
    shares_by = {penalty: _cross_fit_shares(team, penalty, seed) for penalty in _PENALTIES}
    penalty = max(shares_by, key=lambda penalty: _log_likelihood(steps, shares_by[penalty]))
    shares = shares_by[penalty]
    prior = _fit(steps, penalty)
    kinds, kind_figures = _learn_kinds(team, shares, prior, seed)
    figures = replace(_measure(steps, shares, seed), penalty=penalty, kinds=kind_figures)
    ahead = [mass_ahead(of_run, one.step) for one, of_run in zip(steps, shares, strict=True)]
    about = {
        "labels": figures.n,
        "before": round(figures.before, 1),
        "after": round(figures.after, 1),
        "after_interval": [round(value, 1) for value in figures.after_interval],
        "gain_interval": [round(value, 3) for value in figures.gain_interval],
        "kinds": None if kind_figures is None else round(kind_figures.after, 1),
        "agents": sorted({agent for one in steps for agent in list_agents(one.run.trace)}),
    }
    set_mass = mass_holding(ahead, _COVERAGE)
    return StepHead(prior, team.agents, set_mass, figures.is_better, about, kinds=kinds), figures


def _learn_kinds(
    team: TeamSteps, shares: Sequence[NDArray[np.float64]], prior: StepPrior, seed: int
) -> tuple[KindHead | None, KindFigures | None]:
    """Fit a head for kinds of error to the labelled steps; measure it at the steps that are named without their labels.

    Returns:
        The head, None where it is not measurably better; and its figures, None where too few kinds are labelled.
    """
    modes = [(one.run.faults or ())[0].mode for one in team.failures]
    labels = [None if given is None else canonical(given)[0] for given in modes]
    rows = [row for row, label in enumerate(labels) if label is not None]
    kinds = sorted({label for label in labels if label is not None}, key=str)
    if len(rows) < FEWEST or len(kinds) < 2:
        return None, None
    wanted = np.array([kinds.index(label) for label in labels if label is not None])
    learnt = prior.scale(np.array([team.failures[row].features[team.failures[row].step] for row in rows]))
    steps = [_step_named(team.failures[row], shares[row]) for row in rows]
    asked = prior.scale(np.array([team.failures[row].features[step] for row, step in zip(rows, steps, strict=True)]))
    folds = draw_folds(team.groups, seed)[rows]

    def cross_fit_kinds(strength: float) -> NDArray[np.float64]:
        likely = np.full((len(rows), len(kinds)), _LEAST)
        for fold in np.unique(folds).tolist():
            of_others, own = folds != fold, np.flatnonzero(folds == fold)
            if len(np.unique(wanted[of_others])) > 1:
                model = _fit_kinds(learnt[of_others], wanted[of_others], strength)
                likely[np.ix_(own, model.classes_)] = model.predict_proba(asked[own])
        return likely

    def log_likelihood(strength: float) -> float:
        return float(np.log(likely[strength][np.arange(len(rows)), wanted] + _LEAST).sum())

    likely = {strength: cross_fit_kinds(strength) for strength in _KIND_STRENGTHS}
    strength = max(_KIND_STRENGTHS, key=log_likelihood)
    guesses = [kinds[index] for index in likely[strength].argmax(axis=1)]
    shipped = [team.modes[row][step] for row, step in zip(rows, steps, strict=True)]
    truth = [label for label in labels if label is not None]
    before = np.array([first == label for (_, first), label in zip(shipped, truth, strict=True)])
    alone = np.array([guess == label for guess, label in zip(guesses, truth, strict=True)])
    after = np.array(
        [(named or guess) == label for (named, _), guess, label in zip(shipped, guesses, truth, strict=True)]
    )
    leads = bool(alone.sum() > after.sum())
    gains = 100 * ((alone if leads else after).astype(float) - before)
    drawn = np.random.default_rng(seed).integers(len(gains), size=(_DRAWS, len(gains)))
    low, high = np.quantile(gains[drawn].mean(axis=1), (0.05, 0.95)).tolist()
    figures = KindFigures(
        len(rows), percent(before.tolist()), percent((alone if leads else after).tolist()), (low, high)
    )
    if not figures.is_better:
        return None, figures
    model = _fit_kinds(learnt, wanted, strength)
    weights, bias = (np.asarray(given, np.float32) for given in (model.coef_, model.intercept_))
    if len(kinds) == 2:  # scikit-learn gives the second kind's alone
        weights, bias = np.concatenate([-weights, weights]), np.concatenate([-bias, bias])
    return KindHead(tuple(kinds), weights, bias, leads), figures


def _fit_kinds(features: NDArray[np.float64], kinds: NDArray[np.int64], strength: float) -> LogisticRegression:
    return LogisticRegression(C=strength, max_iter=1_000).fit(features, kinds)


def _fit(steps: Sequence[LabelledSteps], penalty: float) -> StepPrior:
    return fit_prior(steps, penalty=penalty, agent_part=_AGENT_PART)


def _cross_fit_shares(team: TeamSteps, penalty: float, seed: int) -> list[NDArray[np.float64]]:
    priors = cross_fit(team.failures, team.groups, penalty=penalty, agent_part=_AGENT_PART, seed=seed)
    return [one.share(prior) for one, prior in zip(team.failures, priors, strict=True)]


def _log_likelihood(steps: Sequence[LabelledSteps], shares: Sequence[NDArray[np.float64]]) -> float:
    return float(sum(np.log(of_run[one.step] + _LEAST) for one, of_run in zip(steps, shares, strict=True)))


def measure_curve(team: TeamSteps, *, seed: int = 0) -> list[CurvePoint]:
    """Measure what 0, 8, 16 and more labels are worth; only sizes that leave tasks to measure on."""
    points = []
    for size in (0, *_CURVE_SIZES):
        if size > team.groups.max() + 1 - _FEWEST_MEASURED:
            break
        used, named, agents = 100 * np.array([_draw(team, size, seed + split) for split in range(_SPLITS)]).T
        points.append(
            CurvePoint(size, float(used.mean()), float(named.mean()), float(named.std()), float(agents.mean()))
        )
    return points


def _draw(team: TeamSteps, size: int, seed: int) -> tuple[bool, float, float]:
    """Return whether a head of *size* tasks is used, and how often step and agent of the others' failures are named."""
    chosen = np.random.default_rng(seed).permutation(team.groups.max() + 1)[:size]
    is_chosen = np.isin(team.groups, chosen)
    learnt, others = team.take(np.flatnonzero(is_chosen)), team.take(np.flatnonzero(~is_chosen)).failures
    head = learn_step_head(learnt, seed=seed)[0] if learnt.failures else None
    prior = head.prior if head is not None and head.is_better else None
    named, agents = np.array([_hit(one, one.share(prior)) for one in others]).mean(axis=0).tolist()
    return prior is not None, named, agents


def _hit(one: LabelledSteps, shares: NDArray[np.float64]) -> Hits:
    """Return whether the most blamed step of the most blamed agent is the labelled one, and whether of its agent."""
    step = _step_named(one, shares)
    return Hits(step == one.step, bool(one.is_of_agent[step]))


def _step_named(one: LabelledSteps, shares: NDArray[np.float64]) -> int:
    """Return the most blamed step of the most blamed agent."""
    agents = np.unique([step.agent for step in one.run.trace.steps], return_inverse=True)[1]
    return blamed(agents, shares)[1]


def measure_named(team: TeamSteps, tracer: Tracer) -> float:
    """Return the percent of the failures whose labelled step a tracer names."""
    verdicts = tracer.attribute([one.run.trace for one in team.failures])
    return percent([verdict.decisive_step == one.step for verdict, one in zip(verdicts, team.failures, strict=True)])


def _measure(steps: Sequence[LabelledSteps], shares: Sequence[NDArray[np.float64]], seed: int) -> StepFigures:
    """Compare the tracer by itself with the *shares* by heads that have not seen the run's task."""
    by_tracer = [one.share() for one in steps]
    hits_before, hits_after = (
        tuple(_hit(one, of_run) for one, of_run in zip(steps, given, strict=True)) for given in (by_tracer, shares)
    )
    before, after = np.array(hits_before), np.array(hits_after)
    gains = np.array(
        [
            np.log((now[one.step] + _LEAST) / (then[one.step] + _LEAST))
            for one, then, now in zip(steps, by_tracer, shares, strict=True)
        ]
    )
    drawn = np.random.default_rng(seed).integers(len(gains), size=(_DRAWS, len(gains)))
    low, high = np.quantile(gains[drawn].mean(axis=1), (0.05, 0.95)).tolist()
    named_before, named_after = before[:, 0].tolist(), after[:, 0].tolist()
    return StepFigures(
        len(steps),
        percent(named_before),
        interval(named_before),
        percent(named_after),
        interval(named_after),
        percent(before[:, 1].tolist()),
        percent(after[:, 1].tolist()),
        mended=int((after[:, 0] & ~before[:, 0]).sum()),
        broken=int((before[:, 0] & ~after[:, 0]).sum()),
        gain_interval=(low, high),
        hits_before=hits_before,
        hits_after=hits_after,
    )


@dataclass(frozen=True, slots=True)
class LeftOutFigures:
    """How often the labelled step is named where neither its task nor its kind of fault was learnt from.

    Attributes:
        n: Failures.
        before: Percent whose step the tracer names by itself.
        after: Percent whose step it names with a head of other tasks and other kinds.
        agent: Percent named by always naming the agent that is labelled most often, at its usual turn, and
        place: by always naming the usual place; each as the other failures have it.
    """

    n: int
    before: float
    after: float
    agent: float
    place: float


def measure_left_out(team: TeamSteps, kinds: Sequence[str], penalty: float, *, seed: int = 0) -> LeftOutFigures:
    """Measure a head on kinds of faults that it has not learnt, beside what needs no tracer at all.

    Args:
        team: The labelled failures.
        kinds: What kind each is of; where all are of one, only tasks are left out.
        penalty: As it was chosen for all of them.
        seed: Of the folds of tasks.
    """
    steps, groups = team.failures, team.groups
    folds = (np.random.default_rng(seed).permutation(groups.max() + 1) % _LEFT_OUT_FOLDS)[groups].tolist()
    commonest = [kind for kind, _ in Counter(kinds).most_common(_MOST_KINDS)]
    grouped = [kind if kind in commonest else "" for kind in kinds]  # rare ones are left out together
    hits = []
    for fold, kind in sorted(set(zip(folds, grouped, strict=True))):
        of_others = [one for one, other in zip(steps, folds, strict=True) if other != fold]
        learnt = [
            one for one, other_fold, other in zip(steps, folds, grouped, strict=True)
            if other_fold != fold and (other != kind or len(set(grouped)) == 1)
        ]  # fmt: skip
        prior = _fit(learnt, penalty) if learnt else None
        turn = Counter(_turn(one.run.trace, one.step) for one in of_others or steps).most_common(1)[0][0]
        place = Counter(one.step for one in of_others or steps).most_common(1)[0][0]
        hits += [
            (_hit(one, one.share())[0], _hit(one, one.share(prior))[0],
             _turn(one.run.trace, one.step) == turn, one.step == place)
            for one, other_fold, other in zip(steps, folds, grouped, strict=True) if (other_fold, other) == (fold, kind)
        ]  # fmt: skip
    return LeftOutFigures(len(hits), *(100 * np.array(hits, float).mean(axis=0)).tolist())


def _turn(trace: MessageActionTrace, step: int) -> tuple[str, int]:
    """Return whose step it is, and which of the agent's own."""
    agent = trace.steps[step].agent
    return agent, sum(other.agent == agent for other in trace.steps[:step])
