"""Train the lexicon: which words speak against an agent, by one penalised logistic regression for each answer.

The problem is convex and starts from zero: there is no luck in it. Every choice (penalty, calibration, thresholds) is
made on held-out questions.

Dims: N agents, V features, K answers, M modes.
"""

from __future__ import annotations

import json
import logging
import math
import platform
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.taxonomy import AEGIS
from blamespan_lab.agent_names import labelled_pairs
from blamespan_lab.recipes import Count, Listed, PositiveNumber
from blamespan_lab.recorded_runs import is_held_out, read_runs
from blamespan_lab.statistics import expected_calibration_error, f1, platt, separation
from blamespan_tracer.alternatives.features import AgentFeatures, agent_features
from blamespan_tracer.alternatives.lexical import Floats, Pair, Thresholds, decide
from blamespan_tracer.alternatives.lexicon import SEAT_WEIGHT, Lexicon, question_digest, scaled
from blamespan_tracer.numeric import sigmoid


@dataclass(frozen=True, slots=True)
class LexicalData:
    """What to train on.

    Attributes:
        train: File of AEGIS runs, relative to the data folder.
        held_out_percent: Share of the *questions* kept aside for every choice: penalty, calibration, thresholds.
        min_agents: A feature that fewer training agents have is dropped.
    """

    train: str = "train.jsonl.xz"
    held_out_percent: Count = 15
    min_agents: Count = 20


@dataclass(frozen=True, slots=True)
class LexicalFit:
    """How to fit.

    Attributes:
        penalties: Candidates for the L2 penalty, weighed against the loss summed over agents; held-out runs choose.
        iterations: Most L-BFGS iterations per fit; the problem is convex.
    """

    penalties: Listed[PositiveNumber] = (0.4,)
    iterations: Count = 40


@dataclass(frozen=True, slots=True)
class LexicalRecipe:
    """Everything that decides what weights come out.

    Attributes:
        name: Names the run directory and the weights.
        model: `lexical`: tells these recipes from those of other models.
        seed: Chooses which questions are held out; nothing else is random.
        data: What to train on.
        fit: How to fit.
    """

    name: str
    model: Literal["lexical"] = "lexical"
    seed: Count = 0
    data: LexicalData = field(default_factory=LexicalData)
    fit: LexicalFit = field(default_factory=LexicalFit)


CODES = (*AEGIS, "any")
"""The answers a lexicon gives, in order."""

AT_FAULT = len(CODES) - 1
"""Column of `any`: at fault at all."""

Hashes: TypeAlias = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class LabelledRun:
    """One run to learn from.

    Attributes:
        question: Its task; runs of one question are never on both sides of a split.
        agents: Features of the agents that can be blamed.
        pairs: (row in `agents`, column of the mode); an agent that never speaks has row -1 - its place
            among such labels, so that it counts as missed and never as found.
    """

    question: str
    agents: tuple[AgentFeatures, ...]
    pairs: frozenset[tuple[int, int]]


def labelled_runs(runs: Iterable[RecordedRun]) -> Iterator[LabelledRun]:
    """Turn recorded runs into labelled features, leaving out runs without a readable agent or without labels."""
    for run in runs:
        agents = tuple(agent_features(run.trace))
        if agents and run.faults is not None:
            yield LabelledRun(run.trace.task, agents, _number_pairs(run, [agent.agent for agent in agents]))


def split(runs: Sequence[LabelledRun], *, percent: int, seed: int) -> tuple[list[LabelledRun], list[LabelledRun]]:
    """Part *runs* into those to fit on and those held out, by question."""
    is_out = [is_held_out(run.question, percent=percent, seed=seed) for run in runs]
    return (
        [run for run, out in zip(runs, is_out, strict=True) if not out],
        [run for run, out in zip(runs, is_out, strict=True) if out],
    )


@dataclass(frozen=True, slots=True)
class LexiconVocabulary:
    """The features worth a weight: (V,) hashes ascending, and their (V,) inverse document frequency."""

    keys: Hashes
    idf: NDArray[np.float32]

    @classmethod
    def of(cls, runs: Sequence[LabelledRun], *, min_agents: int) -> LexiconVocabulary:
        """Keep every feature that at least *min_agents* agents have."""
        agents = [agent for run in runs for agent in run.agents]
        distinct = [np.unique(np.concatenate((*agent.text, agent.opening, agent.seat))) for agent in agents]
        keys, counts = np.unique(np.concatenate(distinct), return_counts=True)
        is_common = counts >= min_agents
        idf = np.log((1 + len(agents)) / (1 + counts[is_common])) + 1
        return cls(keys[is_common], idf.astype(np.float32))

    def find(self, hashes: Hashes) -> NDArray[np.int64]:
        """Place those of *hashes* that are known."""
        rows = np.searchsorted(self.keys, hashes).clip(max=len(self.keys) - 1)
        known: NDArray[np.int64] = rows[self.keys[rows] == hashes]
        return known


def label_matrix(runs: Sequence[LabelledRun]) -> NDArray[np.float32]:
    """Lay the labels out as (agents of all runs, answers), 0 or 1."""
    rows = []
    for run in runs:
        block = np.zeros((len(run.agents), len(CODES)), dtype=np.float32)
        for row, column in run.pairs:
            if row >= 0:
                block[row, [column, AT_FAULT]] = 1
        rows.append(block)
    return np.concatenate(rows)


def _number_pairs(run: RecordedRun, agents: Sequence[str]) -> frozenset[tuple[int, int]]:
    silent: dict[str, int] = {}
    rows = {agent: row for row, agent in enumerate(agents)}
    return frozenset(
        (rows[agent] if agent in rows else silent.setdefault(agent, -1 - len(silent)), CODES.index(code))
        for agent, code in sorted(labelled_pairs(run))
    )


def stack_rows(rows: Sequence[tuple[NDArray[np.int64], Floats]], width: int) -> Any:
    """Return the sparse (N, V) matrix of one (columns, values) pair per row."""
    ends = np.cumsum([0, *(len(columns) for columns, _ in rows)])
    columns, values = (np.concatenate([row[part] for row in rows]) for part in (0, 1))
    return csr_array((values, columns, ends), shape=(len(rows), width))


def fit(rows: Any, labels: Floats, *, penalty: float, iterations: int) -> tuple[Floats, Floats]:
    """Minimise the summed cross-entropy plus penalty / 2 times the squared weights; the bias goes free.

    Args:
        rows: (N, V).
        labels: (N, K) of 0 and 1.
        penalty: Above 0.
        iterations: Most L-BFGS iterations.

    Returns:
        (V, K) weights and (K,) bias.
    """
    n_agents, n_answers = labels.shape
    weights, bias = np.zeros((rows.shape[1], n_answers), np.float32), np.zeros(n_answers, np.float32)
    for column, label in enumerate(labels.T):
        if 0 < label.sum() < n_agents:
            model = LogisticRegression(C=1 / penalty, max_iter=iterations, tol=1e-6)
            with warnings.catch_warnings(
                action="ignore", category=ConvergenceWarning
            ):  # iterations are bounded on purpose
                model.fit(rows, label)
            weights[:, column], bias[column] = model.coef_[0], model.intercept_[0]
        else:  # nothing to tell apart
            bias[column] = math.copysign(math.log(n_agents + 1), label.sum() - 0.5)
    return weights, bias


WEIGHTS_FILE = "lexical.safetensors"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LexicalFigures:
    """Figures on the held-out questions, by the weights that have not seen them; F1 in percent.

    The thresholds were chosen on the same runs, so these are slightly flattering. `failure_separation` is
    how often a failed run scores above one without its culprits, 0..1: see `_failure_scores`.
    """

    n: int
    pair_f1: float
    agent_f1: float
    mode_f1: float
    agent_calibration_error: float
    failure_separation: float
    penalty: float


@dataclass(frozen=True, slots=True)
class TrainedLexicon:
    """What training made: the model, its held-out figures, and where it lies."""

    lexicon: Lexicon
    held_out: LexicalFigures
    weights: Path


def train_lexical(recipe: LexicalRecipe, data: Path, out: Path) -> TrainedLexicon:
    """Train by *recipe* on the runs under *data*; leave config, versions, metrics and weights in *out*.

    Raises:
        ConfigError: if the data is missing or too small to hold anything out.
    """
    start_s = time.perf_counter()
    runs = list(labelled_runs(read_runs("aegis", data / recipe.data.train)))
    _log.info("%d runs read and tokenised in %.0f s", len(runs), time.perf_counter() - start_s)
    lexicon, held_out = train_on(runs, recipe)
    out.mkdir(parents=True, exist_ok=True)
    digest = lexicon.save(out / WEIGHTS_FILE)
    wall_s = round(time.perf_counter() - start_s, 1)
    _write(
        out / "recipe.json",
        {
            **asdict(recipe),
            "scikit-learn": version("scikit-learn"),
            "numpy": version("numpy"),
            "blamespan": version("blamespan"),
            "python": platform.python_version(),
        },
    )
    _write(
        out / "metrics.jsonl", {**asdict(held_out), "weights": digest, "features": len(lexicon.keys), "wall_s": wall_s}
    )
    return TrainedLexicon(replace(lexicon, digest=digest), held_out, out / WEIGHTS_FILE)


def train_on(runs: Sequence[LabelledRun], recipe: LexicalRecipe) -> tuple[Lexicon, LexicalFigures]:
    """Train on runs in memory.

    Raises:
        ConfigError: if a side of the split has no run.
    """
    fitted, held_out = split(runs, percent=recipe.data.held_out_percent, seed=recipe.seed)
    if not fitted or not held_out:
        raise ConfigError(
            f"expected runs of enough questions to hold {recipe.data.held_out_percent} % of them out, "
            f"got {len(fitted)} to fit on and {len(held_out)} held out. "
            "Give more data or another data.held_out_percent."
        )
    _log.info("%d runs to fit on, %d held out by question", len(fitted), len(held_out))
    trials = [_try_penalty(fitted, held_out, recipe, penalty) for penalty in recipe.fit.penalties]
    lexicon, figures = max(trials, key=lambda trial: trial[1].pair_f1)
    _log.info("penalty %g chosen; fitting on all runs", figures.penalty)
    final = fit_lexicon(runs, recipe, figures.penalty)
    return replace(
        final,
        slope=lexicon.slope,
        offset=lexicon.offset,
        failure_slope=lexicon.failure_slope,
        failure_offset=lexicon.failure_offset,
        mode_threshold=lexicon.mode_threshold,
        agent_threshold=lexicon.agent_threshold,
        questions=frozenset(question_digest(run.question) for run in runs),
        notes={"recipe": recipe.name, "seed": str(recipe.seed), "penalty": str(figures.penalty)},
    ), figures


def _try_penalty(
    fitted: Sequence[LabelledRun], held_out: Sequence[LabelledRun], recipe: LexicalRecipe, penalty: float
) -> tuple[Lexicon, LexicalFigures]:
    """Fit with one penalty, calibrate and choose thresholds on the held-out runs, and measure there."""
    start_s = time.perf_counter()
    raw = fit_lexicon(fitted, recipe, penalty)
    scores = [np.stack([raw.score(agent).logits for agent in run.agents]) for run in held_out]
    labels = label_matrix(held_out).astype(bool)
    scaling = np.array(
        [platt(np.concatenate(scores)[:, column], labels[:, column]) for column in range(len(CODES))], np.float32
    )
    probabilities = [sigmoid(logits * scaling[:, 0] + scaling[:, 1]) for logits in scores]
    thresholds = choose_thresholds(probabilities, [run.pairs for run in held_out])
    failed, sound = _failure_scores(held_out, [logits[:, AT_FAULT] for logits in scores], scaling[AT_FAULT])
    failure = platt(np.concatenate([failed, sound]), np.arange(len(failed) + len(sound)) < len(failed))
    lexicon = replace(
        raw,
        slope=scaling[:, 0],
        offset=scaling[:, 1],
        failure_slope=failure[0],
        failure_offset=failure[1],
        mode_threshold=thresholds.mode,
        agent_threshold=thresholds.agent,
    )
    measured = _measure(held_out, probabilities, thresholds, labels, penalty, separation(failed, sound))
    _log.info("penalty %g: %s in %.0f s, %s", penalty, measured, time.perf_counter() - start_s, thresholds)
    return lexicon, measured


def fit_lexicon(runs: Sequence[LabelledRun], recipe: LexicalRecipe, penalty: float) -> Lexicon:
    """Fit a lexicon to *runs* with one penalty; its answers are log-odds that nobody has calibrated."""
    vocabulary = LexiconVocabulary.of(runs, min_agents=recipe.data.min_agents)
    _log.info("%d features that at least %d agents have", len(vocabulary.keys), recipe.data.min_agents)
    agents = [agent for run in runs for agent in run.agents]
    typical_length = float(np.median([_length(agent, vocabulary) for agent in agents]))
    rows = stack_rows([_row(agent, vocabulary, typical_length) for agent in agents], len(vocabulary.keys))
    weights, bias = fit(rows, label_matrix(runs), penalty=penalty, iterations=recipe.fit.iterations)
    return Lexicon(
        codes=CODES,
        keys=vocabulary.keys,
        idf=vocabulary.idf,
        weights=weights.astype(np.float16).astype(
            np.float32
        ),  # as the file will hold them: what is measured is what is shipped
        bias=bias,
        slope=np.ones(len(CODES), np.float32),
        offset=np.zeros(len(CODES), np.float32),
        typical_length=typical_length,
        failure_slope=1.0,
        failure_offset=0.0,
        mode_threshold=0.5,
        agent_threshold=0.5,
    )


def _text(agent: AgentFeatures, vocabulary: LexiconVocabulary) -> NDArray[np.int64]:
    return np.unique(vocabulary.find(np.concatenate((*agent.text, agent.opening))))


def _length(agent: AgentFeatures, vocabulary: LexiconVocabulary) -> float:
    return float(np.sqrt((vocabulary.idf[_text(agent, vocabulary)] ** 2).sum()))


def _row(
    agent: AgentFeatures, vocabulary: LexiconVocabulary, typical_length: float
) -> tuple[NDArray[np.int64], Floats]:
    text, seat = _text(agent, vocabulary), vocabulary.find(agent.seat)
    weighed = scaled(vocabulary.idf[text], typical_length)
    return np.concatenate([text, seat]), np.concatenate([weighed, np.full(len(seat), SEAT_WEIGHT, np.float32)])


def _failure_scores(
    held_out: Sequence[LabelledRun], scores: Sequence[Floats], scaling: Floats
) -> tuple[Floats, Floats]:
    """Score whole runs: as they failed, and as they would look without their culprits.

    AEGIS holds no sound run. The agents of a failed run that are not at fault stand in for one; they may
    still repeat what the culprits said, so the two are harder to tell apart than they should be.

    Returns:
        (N,) log-odds of the most suspected agent of each failed run, and (M,) of each run's other agents.
    """
    failed, sound = [], []
    for run, raw in zip(held_out, scores, strict=True):
        logits = raw * scaling[0] + scaling[1]
        culprits = {row for row, _ in run.pairs}
        others = [row for row in range(len(run.agents)) if row not in culprits]
        failed.append(logits.max())
        sound.extend([logits[others].max()] if others else [])
    return np.array(failed, np.float32), np.array(sound, np.float32)


def _measure(
    held_out: Sequence[LabelledRun],
    probabilities: Sequence[Floats],
    thresholds: Thresholds,
    labels: NDArray[np.bool_],
    penalty: float,
    failure_separation: float,
) -> LexicalFigures:
    answers = [decide(of_run, thresholds) for of_run in probabilities]
    pairs = [run.pairs for run in held_out]
    return LexicalFigures(
        n=len(held_out),
        pair_f1=f1(pairs, answers).micro_f1,
        agent_f1=f1(
            [{row for row, _ in pairs_of_run} for pairs_of_run in pairs],
            [{row for row, _ in pairs_of_run} for pairs_of_run in answers],
        ).micro_f1,
        mode_f1=f1(
            [{m for _, m in pairs_of_run} for pairs_of_run in pairs],
            [{m for _, m in pairs_of_run} for pairs_of_run in answers],
        ).micro_f1,
        agent_calibration_error=expected_calibration_error(
            np.concatenate(probabilities)[:, AT_FAULT], labels[:, AT_FAULT]
        ),
        failure_separation=failure_separation,
        penalty=penalty,
    )


def _write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")


_MODE_GRID = np.round(np.arange(0.06, 0.51, 0.01), 2)
_AGENT_GRID = np.round(np.arange(0.20, 0.96, 0.05), 2)


def choose_thresholds(runs: Sequence[Floats], labels: Sequence[frozenset[Pair]]) -> Thresholds:
    """Find the thresholds with the best mean of pair, agent and mode micro-F1 on held-out *runs*; on a tie the lowest.

    Pairs alone would leave agents unnamed for half a point of their F1 at the price of seven of the agents'.

    Args:
        runs: Per run the (A, M + 1) probabilities.
        labels: Per run the true pairs; a pair that no row can give (a silent agent) counts as missed.
    """

    def score(thresholds: Thresholds) -> float:
        return mean_f1(labels, [decide(run, thresholds) for run in runs])

    # One after the other: the two barely interact, and a grid of both would take minutes.
    mode = max((float(mode) for mode in _MODE_GRID), key=lambda mode: score(Thresholds(mode, 0.5)))
    agent = max((float(agent) for agent in _AGENT_GRID), key=lambda agent: score(Thresholds(mode, agent)))
    mode = max((float(mode) for mode in _MODE_GRID), key=lambda mode: score(Thresholds(mode, agent)))
    return Thresholds(mode, agent)


def mean_f1(labels: Sequence[frozenset[Pair]], answers: Sequence[frozenset[Pair]]) -> float:
    """Average the micro-F1 of pairs, of agents alone and of modes alone, percent."""
    sides = (labels, answers)
    agents = [[{agent for agent, _ in pairs} for pairs in side] for side in sides]
    modes = [[{mode for _, mode in pairs} for pairs in side] for side in sides]
    return (f1(*sides).micro_f1 + f1(*agents).micro_f1 + f1(*modes).micro_f1) / 3
