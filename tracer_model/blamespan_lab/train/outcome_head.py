"""Learn a head for outcomes from runs whose outcome is known, and measure it on runs that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta
from sklearn.linear_model import LogisticRegression

from blamespan.attribution import NOBODY_KNOWS
from blamespan.errors import UnreadableInput
from blamespan.labels.people import PersonLabel
from blamespan.trace import MessageActionTrace
from blamespan.tracers import Tracer
from blamespan_lab.recorded_runs import group_by_task
from blamespan_lab.statistics import separation
from blamespan_tracer.heads import list_agents
from blamespan_tracer.outcome_head import HABITS, N_FEATURES, OutcomeHead, outcome_features, scale_features

FEWEST = 20
"""Failed runs, and sound ones, that it takes to say whether a head is better."""

_FOLDS = 5
_DRAWS = 1_000
_MAX_FALSE_ALARMS = 0.03
_CONFIDENCE = 0.95
"""With which no more of the sound runs to come are called failed."""
_PENALTY = 0.3

Floats = NDArray[np.float32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KnownOutcomes:
    """Runs with a known outcome.

    Dims: N runs, F features.

    Attributes:
        features: (N, F) of `outcome_features`.
        has_failed: (N,).
        task: (N,) number of the task of each: runs of a task are never on both sides.
        suspicion: (N,) what the tracer by itself says.
        agents: Who decides anything in these runs.
    """

    features: Floats
    has_failed: Flags
    task: NDArray[np.int64]
    suspicion: NDArray[np.float64]
    agents: tuple[str, ...] = ()

    def __len__(self) -> int:
        """Count the runs."""
        return len(self.has_failed)

    def take(self, rows: NDArray[np.int64]) -> KnownOutcomes:
        """Return those of some rows."""
        return KnownOutcomes(self.features[rows], self.has_failed[rows], self.task[rows], self.suspicion[rows])

    def area(self, scores: NDArray[np.float64]) -> float:
        """Measure the area under the ROC curve of scores of these runs."""
        return separation(scores[self.has_failed], scores[~self.has_failed])


@dataclass(frozen=True, slots=True)
class OutcomeFigures:
    """How well outcomes are told, on runs that the head has not seen.

    Attributes:
        n_failed: Runs that failed, and
        n_sound: that did not.
        head: Area under the ROC curve, cross-fitted by task, and
        head_interval: its 95 % interval.
        tracer: The same of the tracer by itself.
        gain_interval: 95 % interval of the difference.
        false_alarms: Share of the sound runs that the head calls failed, cross-fitted, and
        tracer_false_alarms: that the tracer by itself does.
        fewer_interval: 95 % interval of by how much fewer.
    """

    n_failed: int
    n_sound: int
    head: float
    head_interval: tuple[float, float]
    tracer: float
    gain_interval: tuple[float, float]
    false_alarms: float
    tracer_false_alarms: float
    fewer_interval: tuple[float, float]

    @property
    def is_better(self) -> bool:
        """Whether the head is measurably better than chance, and than the tracer by itself.

        That is, it tells failed runs from sound ones better; or as well, and it calls fewer sound runs failed.
        """
        low, high = self.gain_interval
        return self.head_interval[0] > 0.5 and (low > 0 or (high > 0 and self.fewer_interval[0] > 0))


def apply_labels(run: MessageActionTrace, labels: Sequence[PersonLabel]) -> MessageActionTrace:
    """Return the run with the outcome that people gave it, by the latest who is sure; as it is where nobody is."""
    sure = [label.outcome for label in labels if label.concerns(run) and label.outcome is not None]
    if not sure:
        return run
    return replace(run, outcome="failed" if sure[-1] == "failure" else "succeeded")


def read_outcomes(runs: Sequence[MessageActionTrace], tracer: Tracer) -> KnownOutcomes:
    """Read the runs whose outcome is known; the tracer is not told of it.

    Raises:
        UnreadableInput: if fewer than `FEWEST` runs failed, or succeeded.
    """
    known = [run for run in runs if run.outcome in ("failed", "succeeded") and run.steps]
    failed = sum(run.outcome == "failed" for run in known)
    if min(failed, len(known) - failed) < FEWEST:
        raise UnreadableInput(
            f"expected at least {FEWEST} failed and {FEWEST} sound runs to learn from, got {failed} and "
            f"{len(known) - failed}. Record more: blamespan.record_outcome, or blamespan annotate"
        )
    verdicts = tracer.attribute([replace(run, outcome="unknown") for run in known])
    suspicion = np.array([verdict.failure_score if verdict.abstained is None else 0.5 for verdict in verdicts])
    task = group_by_task([run.task for run in known])
    features = np.stack([outcome_features(run, value) for run, value in zip(known, suspicion.tolist(), strict=True)])
    agents = tuple(sorted({agent for run in known for agent in list_agents(run)}))
    return KnownOutcomes(features, np.array([run.outcome == "failed" for run in known]), task, suspicion, agents)


def learn_head(known: KnownOutcomes, *, seed: int = 0) -> tuple[OutcomeHead, OutcomeFigures]:
    """Fit a head to all runs; its figures and its alarm come from heads that were fitted to the runs of other tasks."""
    probabilities = cross_fit(known, seed=seed)
    alarm = choose_alarm(probabilities[~known.has_failed], known.task[~known.has_failed])
    figures = _measure(known, probabilities, alarm, seed=seed)
    head = fit_head(known)
    about = {
        "failed": figures.n_failed,
        "sound": figures.n_sound,
        "auc": round(figures.head, 4),
        "auc_interval": [round(value, 4) for value in figures.head_interval],
        "tracer_auc": round(figures.tracer, 4),
        "gain_interval": [round(value, 4) for value in figures.gain_interval],
        "false_alarms": round(figures.false_alarms, 4),
        "tracer_false_alarms": round(figures.tracer_false_alarms, 4),
        "agents": list(known.agents),
    }
    return replace(head, alarm=alarm, is_better=figures.is_better, figures=about), figures


def choose_alarm(sound: NDArray[np.float64], task: NDArray[np.int64]) -> float:
    """Return the probability above which a run is called failed, by those that sound runs of other tasks have.

    So many of them may lie above it that no more than `_MAX_FALSE_ALARMS` of all sound runs do, by the upper bound of
    Clopper and Pearson; none where they are too few to tell. Runs of one task are alike, so they count for fewer.

    Args:
        sound: (N,) probabilities of sound runs.
        task: (N,) numbers of their tasks.
    """
    n, alike = len(sound), _design_effect(np.log(sound / (1.0 - sound)), task)
    highest = beta.ppf(_CONFIDENCE, np.arange(n) / alike + 1, (n - np.arange(n)) / alike)
    counts = np.flatnonzero(highest <= _MAX_FALSE_ALARMS).tolist()
    return float(np.sort(sound)[::-1][max(counts, default=0)])


def _design_effect(scores: NDArray[np.float64], task: NDArray[np.int64]) -> float:
    """Return for how many runs of some tasks one run of yet another task counts: 1 where runs of a task are not alike.

    Source: Kish, "Survey Sampling", 1965; the correlation within tasks by analysis of variance.

    Args:
        scores: (N,).
        task: (N,) numbers of their tasks.
    """
    number = np.unique(task, return_inverse=True)[1]
    sizes = np.bincount(number)
    n, n_tasks = len(scores), len(sizes)
    if not 1 < n_tasks < n:
        return 1.0
    means = np.bincount(number, scores) / sizes
    between = float((sizes * (means - scores.mean()) ** 2).sum()) / (n_tasks - 1)
    within = float((scores**2).sum() - (sizes * means**2).sum()) / (n - n_tasks)
    size = (n - float((sizes**2).sum()) / n) / (n_tasks - 1)
    total = between + (size - 1) * within
    correlation = (between - within) / total if total > 0 else 0.0
    return 1.0 + (size - 1) * max(correlation, 0.0)


def fit_head(known: KnownOutcomes) -> OutcomeHead:
    """Fit a logistic regression; failed and sound runs weigh alike."""
    n_buckets = N_FEATURES - len(HABITS)
    having = (known.features[:, :n_buckets] > 0).sum(axis=0)
    rarity = (np.log((1 + len(known)) / (1 + having)) + 1.0).astype(np.float32)
    rarity[having < 2] = 0.0  # what one run alone says tells nothing of the next
    habits = known.features[:, n_buckets:]
    mean, spread = habits.mean(axis=0), habits.std(axis=0) + np.float32(1e-3)
    scaled = scale_features(known.features, rarity, mean, spread)
    model = LogisticRegression(C=_PENALTY, class_weight="balanced", max_iter=1_000).fit(scaled, known.has_failed)
    return OutcomeHead(
        rarity, mean, spread, model.coef_[0].astype(np.float32), float(model.intercept_[0]), 0.5, is_better=False
    )


def predict(head: OutcomeHead, features: Floats) -> NDArray[np.float64]:
    """Return how likely runs failed, by their (N, F) features: (N,)."""
    totals = head.scale(features).astype(np.float64) @ head.weights + head.bias
    return np.asarray(1.0 / (1.0 + np.exp(-totals)))


def cross_fit(known: KnownOutcomes, *, seed: int, most: int | None = None) -> NDArray[np.float64]:
    """Return for each run what a head says that was fitted to other tasks: (N,).

    Args:
        known: The runs.
        seed: Of the split by task.
        most: How many runs each head may be fitted to.
    """
    draws = np.random.default_rng(seed)
    fold = (draws.permutation(known.task.max() + 1) % _FOLDS)[known.task]
    probabilities = np.full(len(known), 0.5)
    for number in range(_FOLDS):
        rows = draws.permutation(np.flatnonzero(fold != number))[:most]
        if len(set(known.has_failed[rows].tolist())) == 2:
            probabilities[fold == number] = predict(fit_head(known.take(rows)), known.features[fold == number])
    return probabilities


def _measure(known: KnownOutcomes, probabilities: NDArray[np.float64], alarm: float, *, seed: int) -> OutcomeFigures:
    has_alarm, tracer_has = probabilities > alarm, known.suspicion > NOBODY_KNOWS
    draws = np.random.default_rng(seed)
    tasks = np.unique(known.task)
    rows_of = {task: np.flatnonzero(known.task == task) for task in tasks.tolist()}
    heads, gains, fewer = [], [], []
    for _ in range(_DRAWS):
        rows = np.concatenate([rows_of[task] for task in draws.choice(tasks, len(tasks)).tolist()])
        if len(set(known.has_failed[rows].tolist())) < 2:
            continue
        drawn = known.take(rows)
        heads.append(drawn.area(probabilities[rows]))
        sound = rows[~known.has_failed[rows]]
        fewer.append(float(tracer_has[sound].mean() - has_alarm[sound].mean()))
        gains.append(heads[-1] - drawn.area(drawn.suspicion))
    return OutcomeFigures(
        n_failed=int(known.has_failed.sum()),
        n_sound=int((~known.has_failed).sum()),
        head=known.area(probabilities),
        head_interval=_interval(heads),
        tracer=known.area(known.suspicion),
        gain_interval=_interval(gains),
        false_alarms=float(has_alarm[~known.has_failed].mean()),
        tracer_false_alarms=float(tracer_has[~known.has_failed].mean()),
        fewer_interval=_interval(fewer),
    )


def _interval(values: Sequence[float]) -> tuple[float, float]:
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
