"""Train the lexical tracer: data, split, choice of the penalty, calibration, thresholds, weights.

Every choice is made on held-out questions of the training file; no other file is opened.
"""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan.errors import ConfigError
from blamespan_lab.recorded_runs import read_runs
from blamespan_lab.statistics import expected_calibration_error, f1, platt, separation
from blamespan_lab.train.lexical.fit import fit, stack_rows
from blamespan_lab.train.lexical.labelled_agents import (
    AT_FAULT,
    CODES,
    LabelledRun,
    LexiconVocabulary,
    label_matrix,
    labelled_runs,
    split,
)
from blamespan_lab.train.lexical.recipe import LexicalRecipe
from blamespan_tracer.alternatives.decision import Floats, Pair, Thresholds, decide
from blamespan_tracer.alternatives.features import AgentFeatures
from blamespan_tracer.alternatives.lexicon import SEAT_WEIGHT, Lexicon, question_digest, scaled
from blamespan_tracer.numeric import sigmoid

__all__ = ["LexicalFigures", "TrainedLexicon", "choose_thresholds", "fit_lexicon", "mean_f1", "train", "train_on"]

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


def train(recipe: LexicalRecipe, data: Path, out: Path) -> TrainedLexicon:
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
    scores = [_logits(run, raw) for run in held_out]
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


def _logits(run: LabelledRun, lexicon: Lexicon) -> Floats:
    return np.stack([lexicon.score(agent).logits for agent in run.agents])


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
    answers = decide(probabilities, thresholds)
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
        return mean_f1(labels, decide(runs, thresholds))

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
