"""How far a tracer and people agree, beside how far people agree among themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypedDict, TypeVar

import numpy as np

from blamespan.analysis.summary.statistics import wilson
from blamespan.errors import ConfigError
from blamespan_lab.measuring.agreement import alpha, consensus, kappa, pairwise, s_score
from blamespan_lab.measuring.metrics import percent
from blamespan_lab.training.calibration import expected_calibration_error
from blamespan_tracer.labels import resolve

__all__ = ["FEW_LABELS", "LEAST_IN_COMMON", "LabelFigures", "LabelledVerdict", "Opinion", "evaluate_labels"]

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
        verdict: The tracer's opinion.
        failure_score: The tracer's, 0..1.
        share: Of the blame, that its decisive step has, 0..1.
        choices: Steps that could be blamed.
        people: Each person's opinion, by name; at least one.
        blind: Who of them judged without seeing a verdict.
    """

    verdict: Opinion
    failure_score: float
    share: float
    choices: int
    people: Mapping[str, Opinion]
    blind: frozenset[str] = frozenset()

    def said(self, part: Callable[[Opinion], _PartT | None], who: Collection[str] | None = None) -> list[_PartT]:
        """List what people say of one part, those of them that say anything.

        Args:
            part: Of their opinions.
            who: Only these.
        """
        found = (part(one) for name, one in self.people.items() if who is None or name in who)
        return [one for one in found if one is not None]


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


class Pair(TypedDict):
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
    """What `evaluate labels` prints."""

    n: int
    people: dict[str, int]
    few: bool
    disputed: int
    step: Right
    agent: Right
    mode: Right
    failed: Right
    blind_step: Right
    false_alarms: Right
    missed: Right
    step_ece: float | None
    failure_ece: float | None
    calibration: list[Bin]
    among: dict[str, Among]
    kappas: list[Pair]


def evaluate_labels(runs: Sequence[LabelledVerdict]) -> LabelFigures:
    """Compare verdicts with people's labels.

    Where several people labelled a run, the answer that most of them give counts; a run without one is disputed, and
    left out of what is asked. An abstention counts as wrong for step, agent and mode. A mode is right if it is one of
    those that people name.

    Raises:
        ConfigError: if no label says anything.
    """
    if not any(_says(opinion) for run in runs for opinion in run.people.values()):
        raise ConfigError(
            f"expected labels that say something of these runs, got {len(runs)} runs without. "
            "Make some with: blamespan annotate TRACES"
        )
    sided = [(run, failed) for run in runs if (failed := consensus(run.said(_failed))) is not None]
    stepped = [(run, step) for run in runs if (step := consensus(run.said(_step))) is not None]
    blamed = [(run, agent) for run in runs if (agent := consensus(run.said(_agent))) is not None]
    named = [(run, names) for run in runs if (names := _mode_names(run))]
    blind = [(run, step) for run in runs if (step := consensus(run.said(_step, run.blind))) is not None]
    shares = [(run.share, run.verdict.step == step) for run, step in stepped if run.verdict.step is not None]
    return {
        "n": len(runs),
        "people": dict(sorted(Counter(who for run in runs for who in run.people).items())),
        "few": len(runs) < FEW_LABELS,
        "disputed": sum(consensus(run.said(_step)) is None for run in runs if len(run.said(_step)) > 1),
        "step": _right([run.verdict.step == step for run, step in stepped]),
        "agent": _right([_is_agent(run.verdict.agent, agent) for run, agent in blamed]),
        "mode": _right([bool(run.verdict.modes & names) for run, names in named]),
        "failed": _right([run.verdict.has_failed is failed for run, failed in sided]),
        "blind_step": _right([run.verdict.step == step for run, step in blind]),
        "false_alarms": _right([bool(run.verdict.has_failed) for run, failed in sided if not failed]),
        "missed": _right([not run.verdict.has_failed for run, failed in sided if failed]),
        "step_ece": _ece(shares),
        "failure_ece": _ece([(run.failure_score, failed) for run, failed in sided if run.verdict.step is not None]),
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
    counts = Counter(name for one in run.people.values() for name in one.modes)
    most = max(counts.values(), default=0)
    return frozenset(name for name, count in counts.items() if count == most)


def _is_agent(said: str, wanted: str) -> bool:
    return bool(said) and resolve(wanted, [said]) == said


def _right(hits: Sequence[bool]) -> Right:
    return {"n": len(hits), "percent": percent(hits), "interval": [100 * end for end in wilson(sum(hits), len(hits))]}


def _ece(stated: Sequence[tuple[float, bool]]) -> float | None:
    if not stated:
        return None
    chances = np.array([chance for chance, _ in stated], np.float32)
    return expected_calibration_error(chances, np.array([is_right for _, is_right in stated]))


def _bins(stated: Sequence[tuple[float, bool]]) -> list[Bin]:
    """Put what is stated beside what is so, in fifths."""
    found: list[Bin] = []
    for place in range(5):
        some = [(chance, is_right) for chance, is_right in stated if min(int(chance * 5), 4) == place]
        if some:
            chances, rights = zip(*some, strict=True)
            found.append({"n": len(some), "stated": sum(chances) / len(some), "right": sum(rights) / len(some)})
    return found


def _among(runs: Sequence[LabelledVerdict]) -> dict[str, Among]:
    """Measure how far people agree on runs that several have labelled."""
    steps = [run.said(_step) for run in runs]
    units: dict[str, list[list[Hashable]]] = {
        "failed": [list(run.said(_failed)) for run in runs],
        "agent": [list(run.said(_agent)) for run in runs],
        "mode": [list(run.said(_modes)) for run in runs],
    }
    found = {part: _shared(answers, alpha(answers)) for part, answers in units.items()}
    return {"step": _shared(steps, s_score(steps, [max(1, run.choices) for run in runs])), **found}


def _shared(units: Sequence[Sequence[Hashable]], coefficient: float | None) -> Among:
    return {"n": sum(len(unit) > 1 for unit in units), "percent": percent(pairwise(units)), "alpha": coefficient}


def _kappas(runs: Sequence[LabelledVerdict]) -> list[Pair]:
    """Compare each person with the tracer, and people two by two, where they have enough runs in common."""
    names = sorted({name for run in runs for name in run.people})
    found = [
        _pair(name, TRACER, [(run.people[name], run.verdict) for run in runs if name in run.people]) for name in names
    ]
    for one, two in combinations(names[:_MOST_PEOPLE], 2):
        both = [(run.people[one], run.people[two]) for run in runs if one in run.people and two in run.people]
        found.append(_pair(one, two, both))
    return [pair for pair in found if pair["n"] >= LEAST_IN_COMMON]


def _pair(one: str, two: str, both: Sequence[tuple[Opinion, Opinion]]) -> Pair:
    def agreed(part: Callable[[Opinion], Hashable | None]) -> float | None:
        pairs = [(left, right) for a, b in both if (left := part(a)) is not None and (right := part(b)) is not None]
        return kappa(pairs) if len(pairs) >= LEAST_IN_COMMON else None

    return {
        "who": [one, two],
        "n": len(both),
        "failed": agreed(_failed),
        "agent": agreed(_agent),
        "mode": agreed(_modes),
    }
