"""Measure how far a tracer and people agree, beside how far people agree: `blamespan lab evaluate labels`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import TypeAlias, TypedDict, TypeVar

import numpy as np

from blamespan.analysis.results.rows import row_of
from blamespan.analysis.summary.facts import Fact, Judge, Row, fact_of
from blamespan.analysis.summary.statistics import wilson
from blamespan.attribution import NOBODY_KNOWS
from blamespan.errors import ConfigError, UnreadableInput
from blamespan.importing.recorded import RecordedRun
from blamespan.labels.people import PersonLabel, step_of
from blamespan.taxonomy import canonical, mode
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer
from blamespan_lab.agent_names import resolve
from blamespan_lab.statistics import alpha, consensus, expected_calibration_error, kappa, pairwise, percent, s_score

FEW_LABELS = 30
"""Below that many labelled runs the figures are anecdotes, and said to be."""
LEAST_IN_COMMON = 10
"""Runs that two people must both have labelled for a coefficient between them."""
TRACER = "(tracer)"
"""Stands for the tracer beside names of people."""
_MOST_PEOPLE = 20


_PartT = TypeVar("_PartT", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Opinion:
    """What one side says of one run.

    Attributes:
        has_failed: By an agent's fault; None where it does not say.
        agent: Who decided the failure, or empty.
        step: Index of the decisive step.
        modes: Canonical ones, `taxonomy:code` each; empty where it does not say.
    """

    has_failed: bool | None
    agent: str = ""
    step: int | None = None
    modes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class LabelledVerdict:
    """A run with what the tracer and people say of it.

    Attributes:
        verdict: The tracer's opinion, without what was recorded of the run's outcome.
        failure_score: How likely the tracer says, without that, that the run failed, 0..1; None where it does not say.
        share: Of the blame, that its decisive step has, 0..1.
        choices: Steps that could be blamed.
        people: Each person's opinion, by name; at least one.
        blind: Who of them judged without seeing a verdict.
        recorded_failure: Whether the run was recorded as failed; None where nobody recorded an outcome.
    """

    verdict: Opinion
    failure_score: float | None
    share: float
    choices: int
    people: Mapping[str, Opinion]
    blind: frozenset[str] = frozenset()
    recorded_failure: bool | None = None

    @property
    def has_failed(self) -> bool | None:
        """What users are shown: the recorded outcome, or the tracer's opinion where there is none."""
        return self.verdict.has_failed if self.recorded_failure is None else self.recorded_failure

    def answers(self, part: Callable[[Opinion], _PartT | None], who: Collection[str] | None = None) -> list[_PartT]:
        """List what people say of one part, those of them that say anything.

        Args:
            part: Of their opinions.
            who: Only these.
        """
        parts = (part(opinion) for name, opinion in self.people.items() if who is None or name in who)
        return [opinion for opinion in parts if opinion is not None]


class Right(TypedDict):
    """How often the tracer says what people say, percent of `n`; `interval` is Wilson's, 95 %."""

    n: int
    percent: float
    interval: list[float]


class Among(TypedDict):
    """How far people agree on the runs that several have labelled.

    `percent` of pairs of answers are the same; `alpha` is Krippendorff's, for steps Bennett's S; None where it cannot
    be computed.
    """

    n: int
    percent: float
    alpha: float | None


class PairAgreement(TypedDict):
    """Cohen's kappa of two people, or of a person and the tracer; None where it cannot be computed."""

    who: list[str]
    n: int
    failed: float | None
    agent: float | None
    mode: float | None


class Bin(TypedDict):
    """A fifth of the verdicts by the share of the blame they state, and how often these name the right step."""

    n: int
    stated: float
    right: float


class LabelFigures(TypedDict):
    """What `evaluate labels` prints.

    `failed`, `false_alarms`, `missed` and `failure_ece` are of the tracer alone, and leave out runs of which it says
    nothing without their outcome; `failed_recorded` takes the outcome of the `recorded` runs from their record.
    """

    n: int
    people: dict[str, int]
    few: bool
    disputed: int
    step: Right
    agent: Right
    mode: Right
    failed: Right
    failed_recorded: Right
    recorded: int
    blind_step: Right
    false_alarms: Right
    missed: Right
    step_ece: float | None
    failure_ece: float | None
    calibration: list[Bin]
    among: dict[str, Among]
    kappas: list[PairAgreement]


def evaluate_labels(runs: Sequence[LabelledVerdict]) -> LabelFigures:
    """Compare verdicts with people's labels.

    Where several people labelled a run, the answer that most of them give counts; a run without one is disputed, and
    left out of what is asked. An abstention counts as wrong for step, agent and mode. A mode is right if it is one of
    those that people name.

    Raises:
        UnreadableInput: if no label says anything.
    """
    if not any(_says(opinion) for run in runs for opinion in run.people.values()):
        raise UnreadableInput(
            f"expected labels that say something of these runs, got {len(runs)} runs without. "
            "Make some with: blamespan annotate TRACES"
        )
    agreed = [(run, failed) for run in runs if (failed := consensus(run.answers(_failed))) is not None]
    sided = [(run, failed) for run, failed in agreed if run.verdict.has_failed is not None]
    stepped = [(run, step) for run in runs if (step := consensus(run.answers(_step))) is not None]
    blamed = [(run, agent) for run in runs if (agent := consensus(run.answers(_agent))) is not None]
    named = [(run, names) for run in runs if (names := _mode_names(run))]
    blind = [(run, step) for run in runs if (step := consensus(run.answers(_step, run.blind))) is not None]
    shares = [(run.share, run.verdict.step == step) for run, step in stepped if run.verdict.step is not None]
    return {
        "n": len(runs),
        "people": dict(sorted(Counter(who for run in runs for who in run.people).items())),
        "few": len(runs) < FEW_LABELS,
        "disputed": sum(consensus(run.answers(_step)) is None for run in runs if len(run.answers(_step)) > 1),
        "step": _right([run.verdict.step == step for run, step in stepped]),
        "agent": _right([_is_agent(run.verdict.agent, agent) for run, agent in blamed]),
        "mode": _right([bool(run.verdict.modes & names) for run, names in named]),
        "failed": _right([run.verdict.has_failed is failed for run, failed in sided]),
        "failed_recorded": _right([run.has_failed is failed for run, failed in agreed if run.has_failed is not None]),
        "recorded": sum(run.recorded_failure is not None for run, _ in agreed),
        "blind_step": _right([run.verdict.step == step for run, step in blind]),
        "false_alarms": _right([bool(run.verdict.has_failed) for run, failed in sided if not failed]),
        "missed": _right([not run.verdict.has_failed for run, failed in sided if failed]),
        "step_ece": _ece(shares),
        "failure_ece": _ece(
            [
                (run.failure_score, failed)
                for run, failed in sided
                if run.verdict.step is not None and run.failure_score is not None
            ]
        ),
        "calibration": _bins(shares),
        "among": _among(runs),
        "kappas": _kappas(runs),
    }


def _says(opinion: Opinion) -> bool:
    return opinion.has_failed is not None or opinion.step is not None


def _failed(opinion: Opinion) -> bool | None:
    return opinion.has_failed


def _step(opinion: Opinion) -> int | None:
    return opinion.step


def _agent(opinion: Opinion) -> str | None:
    return opinion.agent or None


def _modes(opinion: Opinion) -> frozenset[str] | None:
    return opinion.modes or None


def _mode_names(run: LabelledVerdict) -> frozenset[str]:
    """List the modes that most people name, of those who name any."""
    counts = Counter(name for opinion in run.people.values() for name in opinion.modes)
    most = max(counts.values(), default=0)
    return frozenset(name for name, count in counts.items() if count == most)


def _is_agent(blamed: str, wanted: str) -> bool:
    return bool(blamed) and resolve(wanted, [blamed]) == blamed


def _right(hits: Sequence[bool]) -> Right:
    return {"n": len(hits), "percent": percent(hits), "interval": [100 * end for end in wilson(sum(hits), len(hits))]}


def _ece(stated: Sequence[tuple[float, bool]]) -> float | None:
    if not stated:
        return None
    chances = np.array([chance for chance, _ in stated], np.float32)
    return expected_calibration_error(chances, np.array([is_right for _, is_right in stated]))


def _bins(stated: Sequence[tuple[float, bool]]) -> list[Bin]:
    """Put what is stated beside what is so, in fifths."""
    bins: list[Bin] = []
    for number in range(5):
        some = [(chance, is_right) for chance, is_right in stated if min(int(chance * 5), 4) == number]
        if some:
            chances, rights = zip(*some, strict=True)
            bins.append({"n": len(some), "stated": sum(chances) / len(some), "right": sum(rights) / len(some)})
    return bins


def _among(runs: Sequence[LabelledVerdict]) -> dict[str, Among]:
    """Measure how far people agree on runs that several have labelled."""
    steps = [run.answers(_step) for run in runs]
    units: dict[str, list[list[Hashable]]] = {
        "failed": [list(run.answers(_failed)) for run in runs],
        "agent": [list(run.answers(_agent)) for run in runs],
        "mode": [list(run.answers(_modes)) for run in runs],
    }
    by_part = {part: _measure_agreement(answers, alpha(answers)) for part, answers in units.items()}
    return {"step": _measure_agreement(steps, s_score(steps, [max(1, run.choices) for run in runs])), **by_part}


def _measure_agreement(units: Sequence[Sequence[Hashable]], coefficient: float | None) -> Among:
    return {"n": sum(len(unit) > 1 for unit in units), "percent": percent(pairwise(units)), "alpha": coefficient}


def _kappas(runs: Sequence[LabelledVerdict]) -> list[PairAgreement]:
    """Compare each person with the tracer, and people two by two, where they have enough runs in common."""
    names = sorted({name for run in runs for name in run.people})
    pairs = [
        _pair(name, TRACER, [(run.people[name], run.verdict) for run in runs if name in run.people]) for name in names
    ]
    for first, second in combinations(names[:_MOST_PEOPLE], 2):
        both = [(run.people[first], run.people[second]) for run in runs if first in run.people and second in run.people]
        pairs.append(_pair(first, second, both))
    return [pair for pair in pairs if pair["n"] >= LEAST_IN_COMMON]


def _pair(first: str, second: str, both: Sequence[tuple[Opinion, Opinion]]) -> PairAgreement:
    def agreed(part: Callable[[Opinion], Hashable | None]) -> float | None:
        pairs = [(left, right) for a, b in both if (left := part(a)) is not None and (right := part(b)) is not None]
        return kappa(pairs) if len(pairs) >= LEAST_IN_COMMON else None

    return {
        "who": [first, second],
        "n": len(both),
        "failed": agreed(_failed),
        "agent": agreed(_agent),
        "mode": agreed(_modes),
    }


Labels: TypeAlias = Mapping[str, Sequence[PersonLabel]]

_BATCH_RUNS = 50
_FAILED = {
    "agrees": True,
    "corrects": True,
    "failed": True,
    "no_failure": False,
    "no_agent": False,
    "injected": None,
    "unsure": None,
}
"""Whether an agent's fault made the run fail, by a label's answer."""
_RECORDED = {"failed": True, "succeeded": False}
"""The same, by the outcome that somebody recorded."""


@dataclass(slots=True)
class Joined:
    """What belongs together, and what found no partner.

    Attributes:
        verdicts: Runs with a verdict and labels.
        misfits: Labels whose step the run does not have.
        ambiguous: Labels of traces that hold several runs, which results cannot tell apart.
        met: Ids of the traces that were there.
    """

    verdicts: list[LabelledVerdict] = field(default_factory=list)
    misfits: int = 0
    ambiguous: int = 0
    met: set[str] = field(default_factory=set)

    def add(self, fact: Fact, row: Row, labels: Iterable[tuple[PersonLabel, int | None]]) -> None:
        """Take a verdict and the labels on the same run.

        Args:
            fact: The verdict.
            row: It, as a row.
            labels: Those on the run, each with the index of the step it names, if the run has it.
        """
        self.met.add(fact.trace_id)
        people: dict[str, Opinion] = {}
        blind: set[str] = set()
        for label, step in labels:
            if label.decisive is not None and step is None:
                self.misfits += 1
                continue
            people[label.by] = _opinion(label, step)
            if label.shown is None:
                blind.add(label.by)
        if people:
            score, recorded = _unaided_score(row), _RECORDED.get(row["outcome"])
            opinion = _opinion_of_tracer(fact, score)
            self.verdicts.append(
                LabelledVerdict(opinion, score, fact.share, _choices(row), people, frozenset(blind), recorded)
            )

    def count_unmatched(self, labels: Labels) -> dict[str, int]:
        """Count those of *labels* that say nothing of these runs, by reason."""
        strangers = sum(len(of_trace) for trace_id, of_trace in labels.items() if trace_id not in self.met)
        return {"of_other_runs": strangers, "misfits": self.misfits, "ambiguous": self.ambiguous}


def join_runs(runs: Iterable[RecordedRun], tracer: Tracer, labels: Labels) -> Joined:
    """Let *tracer* judge those of *runs* that are labelled.

    Args:
        runs: Any.
        tracer: Who judges.
        labels: By trace id.
    """
    joined = Joined()
    wanted = (run for run in runs if any(label.concerns(run.trace) for label in labels.get(run.trace.trace_id, ())))
    while batch := list(islice(wanted, _BATCH_RUNS)):
        for run, verdict in zip(batch, tracer.attribute([run.trace for run in batch]), strict=True):
            row = row_of(run, verdict)
            about = [label for label in labels[run.trace.trace_id] if label.concerns(run.trace)]
            joined.add(fact_of(row), row, [(label, _index_in(label, run.trace)) for label in about])
    return joined


def join_results(rows: Iterable[Row], labels: Labels) -> dict[str, Joined]:
    """Find the verdicts on labelled runs among results, those of each tracer and revision by themselves.

    A result does not say which run of its trace it is: labels of traces with several runs are left out and counted.

    Args:
        rows: Results.
        labels: By trace id.

    Raises:
        UnreadableInput: if a row is none of results.
    """
    rows_by_run: dict[tuple[Judge, str], list[Row]] = {}
    for row in rows:
        if row["trace_id"] in labels:
            rows_by_run.setdefault((fact_of(row).judge, row["trace_id"]), []).append(row)
    by_judge: dict[str, Joined] = {}
    for (judge, trace_id), rows_of_run in sorted(rows_by_run.items()):
        joined = by_judge.setdefault(str(judge), Joined())
        if len(rows_of_run) > 1:
            joined.ambiguous += len(labels[trace_id])
            joined.met.add(trace_id)
            continue
        joined.add(
            fact_of(rows_of_run[0]),
            rows_of_run[0],
            [(label, _place_in(label, rows_of_run[0])) for label in labels[trace_id]],
        )
    return by_judge


def _opinion(label: PersonLabel, step: int | None) -> Opinion:
    named = label.decisive
    if named is None or label.answer == "injected":  # what was put in need not have made the run fail
        return Opinion(_FAILED[label.answer])
    return Opinion(True, named.agent, step, _canonical(named.modes))


def _unaided_score(row: Row) -> float | None:
    """Return the failure score without a recorded outcome, which is 0 or 1 where there is one."""
    unaided: float | None = row["unaided_score"]
    return row["failure_score"] if unaided is None and row["outcome"] not in _RECORDED else unaided


def _opinion_of_tracer(fact: Fact, score: float | None) -> Opinion:
    """Return what the tracer says by itself, whatever is known of the outcome; to abstain is to raise no alarm."""
    if fact.kind == "abstained":
        return Opinion(False)
    has_failed = None if score is None else score > NOBODY_KNOWS
    return Opinion(has_failed, fact.agent, fact.step, _canonical([fact.mode] if fact.mode else []))


def _canonical(names: Sequence[str]) -> frozenset[str]:
    """Put error modes into canonical words, so that labels and verdicts of two taxonomies can agree."""
    codes = set()
    for name in names:
        try:
            codes.add(str(canonical(mode(name))[0] or name))
        except ConfigError:  # results of a tracer with words of its own
            codes.add(name)
    return frozenset(codes)


def _choices(row: Row) -> int:
    return sum(step["kind"] != "tool_result" for step in row["steps"])


def _index_in(label: PersonLabel, trace: MessageActionTrace) -> int | None:
    step = step_of(label, trace)
    return None if step is None else step.index


def _place_in(label: PersonLabel, row: Row) -> int | None:
    """Find a label's step among a result's steps, which have no spans but the decisive one's."""
    named = label.decisive
    if named is None:
        return None
    if named.span_id and named.span_id == row["span_id"]:
        return int(row["step"])
    return next(
        (named.step for step in row["steps"] if (step["index"], step["agent"]) == (named.step, named.agent)), None
    )
