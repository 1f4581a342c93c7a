"""Simulated judges, and how the fitted combination fares beside the better of a judge and the embedded tracer.

What a judge says of itself tells nothing of whether it is right: its confidence is drawn alike for both. A quote stands
in nine of ten steps that it names, right or wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

import numpy as np
from numpy.typing import NDArray

from blamespan.attribution import Attribution, TracerIdentity
from blamespan.trace import MessageActionTrace
from blamespan_lab.recorded_runs import group_by_task
from blamespan_lab.train.judge_head import AskedRun, fit_combination
from blamespan_lab.train.step_model import draw_folds
from blamespan_tracer.alternatives.llm_judge.answers import Diagnosis, Suspect
from blamespan_tracer.alternatives.llm_judge.combination import STATED

Choose = Callable[[Random, list[int], int], int]
"""Names a step, of those that can be blamed, where the right one is given."""

_QUOTED: Final = 0.9


@dataclass(frozen=True, slots=True)
class LabelledFailure:
    """A failed run with the embedded verdict on it, and the labelled step."""

    trace: MessageActionTrace
    verdict: Attribution
    step: int


@dataclass(frozen=True, slots=True)
class CombinedFigures:
    """Percent of steps that are right, of runs whose tasks the combination was not fitted on.

    Attributes:
        judge: Which simulated judge.
        n: Runs.
        alone: By the judge.
        embedded: By the embedded tracer.
        stated: By the stated weights.
        fitted: By the fitted weights.
        gain: Of the fitted over the better of both, and
        noise: two standard errors of that difference.
    """

    judge: str
    n: int
    alone: float
    embedded: float
    stated: float
    fitted: float
    gain: float
    noise: float

    @property
    def is_worse(self) -> bool:
        """Whether the combination is worse than the better of both by more than noise."""
        return self.gain < -self.noise


def _oracle(error: float) -> Choose:
    def choose(random: Random, steps: list[int], right: int) -> int:
        wrong = [step for step in steps if step != right] or [right]
        return random.choice(wrong) if random.random() < error else right

    return choose


def _near_miss(random: Random, steps: list[int], right: int) -> int:
    """Name a neighbour of the right step in six of ten runs."""
    if random.random() >= 0.6 or right not in steps:
        return right if right in steps else random.choice(steps)
    place = steps.index(right) + random.choice([-1, 1, 2])
    return steps[min(max(place, 0), len(steps) - 1)]


def _last(_: Random, steps: list[int], __: int) -> int:
    return steps[-1]


def _contrary(random: Random, steps: list[int], right: int) -> int:
    return random.choice([step for step in steps if step != right] or steps)


JUDGES: Final[Mapping[str, Choose]] = {
    "oracle, 40 % errors": _oracle(0.4),
    "oracle, 60 % errors": _oracle(0.6),
    "oracle, 80 % errors": _oracle(0.8),
    "60 % near misses": _near_miss,
    "always the last step": _last,
    "always another step": _contrary,
}
"""What each names."""


def answers_of(choose: Choose, failures: Sequence[LabelledFailure], seed: int) -> list[AskedRun]:
    """Have a simulated judge answer about each failure."""
    random = Random(seed)  # no secret hangs on it
    asked = []
    for failure in failures:
        trace = failure.trace
        steps = [step.index for step in trace.steps if trace.can_be_blamed(step)]
        step = choose(random, steps, failure.step)
        quote = trace.steps[step].content[:40] if random.random() < _QUOTED else "words that stand nowhere"
        weight = random.uniform(0.5, 0.95)
        asked.append(
            AskedRun(trace, failure.verdict, Diagnosis(0.9, (Suspect(step, weight, (), quote),)), failure.step)
        )
    return asked


def measure(
    name: str, failures: Sequence[LabelledFailure], n_labels: int | None = None, seed: int = 0
) -> CombinedFigures:
    """Measure one judge, each run by a combination that was fitted on runs of other tasks.

    Args:
        name: Of `JUDGES`.
        failures: Labelled.
        n_labels: How many of the others are labelled; all where None.
        seed: Of the answers, and of which are labelled.
    """
    asked = answers_of(JUDGES[name], failures, seed)
    folds = draw_folds(group_by_task([run.trace.task for run in asked]), seed)
    fitted = [False] * len(asked)
    for fold in np.unique(folds):
        taught = [run for run, own in zip(asked, folds, strict=True) if own != fold]
        chosen = taught if n_labels is None else Random(seed).sample(taught, min(n_labels, len(taught)))
        combination = fit_combination(chosen)
        for row, own in enumerate(folds):
            if own == fold:
                run = asked[row]
                fitted[row] = _names(combination.share(run.trace, run.verdict, run.diagnosis), run.trace) == run.step
    alone = [run.diagnosis.suspects[0].step == run.step for run in asked]
    embedded = [run.verdict.decisive_step == run.step for run in asked]
    stated = [_names(STATED.share(run.trace, run.verdict, run.diagnosis), run.trace) == run.step for run in asked]
    better = max(alone, embedded, key=sum)
    difference = np.array(fitted, float) - np.array(better, float)
    noise = 2 * float(difference.std(ddof=1)) / math.sqrt(len(difference))
    return CombinedFigures(
        name, len(asked), *(100 * sum(each) / len(each) for each in (alone, embedded, stated, fitted)),
        gain=100 * float(difference.mean()), noise=100 * noise,
    )  # fmt: skip


def _names(shares: NDArray[np.float64], trace: MessageActionTrace) -> int | None:
    """Return the decisive step, as a verdict with these shares has it."""
    return Attribution.of(trace, shares.tolist(), failure_score=1.0, tracer=TracerIdentity("", "")).decisive_step
