"""Train the tracer `auto` beside the bundled network and lexicon.

Nothing is chosen on what is measured: pairs of held-out kinds and sources are not read, and figures on labelled teams
are cross-fitted.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import MessageActionTrace
from blamespan_lab.auto.claims import JudgedRuns, judge_pairs
from blamespan_lab.auto.evidence import EvidenceExample, fit_pointer, lay_out_pairs, observe_all
from blamespan_lab.auto.labelled_team import LabelledSteps, cross_fit, fit_labelled_team
from blamespan_lab.auto.recipe import AutoRecipe
from blamespan_lab.edits.generate import LabelledPair, read_pairs
from blamespan_lab.labels.learning import CurvePoint, measure_curve, read_steps
from blamespan_lab.measuring.pairs import runs_of_pairs
from blamespan_lab.measuring.who_and_when import SUBSETS, SubsetFigures, evaluate_subset, read_subset
from blamespan_lab.network.calibrating import mass_ahead, mass_holding
from blamespan_lab.recorded_runs import group_by_task
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.prose_expert import gate_features
from blamespan_tracer.alternatives.network.tracer import NetworkTracer
from blamespan_tracer.auto.evidence_pointer import EvidencePointer
from blamespan_tracer.auto.experts import RUN_KINDS, Gate, LabelledTeamPointer, labelled_team_features
from blamespan_tracer.auto.observations import ObservedRun
from blamespan_tracer.auto.tracer import AutoTracer, opinion_of_network, read_prose, shares_of_steps
from blamespan_tracer.auto.weights import AutoWeights, Sharing
from blamespan_tracer.numeric import softmax

__all__ = ["TrainedAuto", "calibrate_prose", "choose_alarm", "train_auto"]

WEIGHTS_FILE = "auto.safetensors"

_NEVER = np.float32(-1e4)
_LEAST = 1e-6
_EVERYTHING = 10.0
"""Nats below "nothing is wrong" from which on evidence counts in prose: all of it."""
_WEIGHTS = 0.2, 5.0
_BEGINNING = 1, 4
"""Steps of the beginnings of runs that the gate learns from beside whole ones."""
_CALIBRATED = 500
"""Pairs that shares and step sets are fitted to."""

_log = logging.getLogger(__name__)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TrainedAuto:
    """What training made.

    Attributes:
        path: The weights file, and
        digest: its digest.
        cross_fitted: Figures on each subset of Who&When, every question by weights that have not seen it, and
        left_out: as runs of a kind of team that nobody labelled are judged.
        by_labels: What so many labels of their own are worth to these.
        gate: Percent of the runs whose kind the gate names, cross-validated.
    """

    path: Path
    digest: str
    cross_fitted: dict[str, SubsetFigures]
    left_out: dict[str, SubsetFigures]
    by_labels: dict[str, list[CurvePoint]]
    gate: float


def train_auto(recipe: AutoRecipe, data: Path, out: Path) -> TrainedAuto:
    """Train by *recipe* on what is in *data*, and write weights and a log into *out*.

    Raises:
        ConfigError: if data is missing.
    """
    network, lexical = NetworkTracer.bundled(), LexicalTracer.bundled()
    pairs = list(read_pairs(data / recipe.data.pairs, "every-kind" if recipe.data.every_kind else "train"))
    if not pairs:
        raise ConfigError(f"expected pairs to learn from in {str(data / recipe.data.pairs)!r}, got none")
    _log.info("%d pairs", len(pairs))
    runs = runs_of_pairs(pairs)
    observed = dict(zip((run.trace.trace_id for run in runs), observe_all(run.trace for run in runs), strict=True))
    judged, pointer, examples = _fit_evidence(recipe, pairs, observed)
    _log.info("evidence pointer fitted")
    teams = {subset: read_subset(data / recipe.data.who_and_when / subset) for subset in SUBSETS}
    labelled = _read_labelled([run for runs in teams.values() for run in runs], judged, network, lexical)
    labelled_team = fit_labelled_team(labelled, penalty=recipe.penalty, agent_part=recipe.agent_part)
    _log.info("pointer for labelled teams fitted to %d runs", len(labelled))
    gate, gate_rate = _fit_gate(recipe, pairs, labelled, network)
    weights = AutoWeights(
        table=judged.table,
        claims=judged.model,
        pointer=pointer,
        labelled_team=labelled_team,
        gate=gate,
        sharing={
            "labelled team": Sharing(recipe.sharpness, *recipe.evidence),
            "prose": Sharing(recipe.prose_sharpness, 1.0, _EVERYTHING),
        },
        set_mass={"labelled team": 0.9, "prose": 0.9},
        alarm=choose_alarm(pointer, [one for pair in examples for one in pair], recipe.max_false_alarms / 100),
        network=network.network.digest,
        lexical=lexical.lexicon.digest,
        about={"recipe": asdict(recipe)},
    )
    tasks = group_by_task([run.run.trace.task for run in labelled])
    pointers = cross_fit(labelled, tasks, penalty=recipe.penalty, agent_part=recipe.agent_part, seed=recipe.seed)
    mass = _choose_set_mass(recipe, weights, labelled, pointers, network, lexical)
    weights = replace(weights, set_mass={**weights.set_mass, "labelled team": mass})
    sample = random.Random(recipe.seed).sample(range(len(pairs)), min(_CALIBRATED, len(pairs)))  # noqa: S311
    edited = [(pairs[index].edited.trace, examples[index][0]) for index in sample]
    weights = calibrate_prose(weights, edited, network, recipe.coverage)
    digest = weights.save(out / WEIGHTS_FILE)
    weights = replace(weights, digest=digest)
    by_id = {run.run.trace.trace_id: one for run, one in zip(labelled, pointers, strict=True)}
    figures = {
        subset: evaluate_subset(
            runs,
            [
                AutoTracer(replace(weights, labelled_team=by_id[run.trace.trace_id]), network, lexical).attribute(
                    [run.trace]
                )[0]
                for run in runs
            ],
        )
        for subset, runs in teams.items()
    }
    bias = gate.bias.copy()
    bias[RUN_KINDS.index("labelled team")] = _NEVER
    stranger = AutoTracer(replace(weights, gate=replace(gate, bias=bias)), network, lexical)
    left_out = {
        subset: evaluate_subset(runs, stranger.attribute([run.trace for run in runs])) for subset, runs in teams.items()
    }
    by_labels = {subset: measure_curve(read_steps(runs, stranger), seed=recipe.seed) for subset, runs in teams.items()}
    log = {
        "recipe": asdict(recipe),
        "digest": digest,
        "cross_fitted": figures,
        "left_out": left_out,
        "by_labels": {subset: list(map(asdict, curve)) for subset, curve in by_labels.items()},
        "gate": gate_rate,
    }
    (out / "log.json").write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8")
    return TrainedAuto(out / WEIGHTS_FILE, digest, figures, left_out, by_labels, gate_rate)


def _fit_evidence(
    recipe: AutoRecipe, pairs: Sequence[LabelledPair], observed: Mapping[str, ObservedRun]
) -> tuple[JudgedRuns, EvidencePointer, list[tuple[EvidenceExample, ...]]]:
    """Fit tables, trees and the evidence pointer to pairs, whose runs are observed."""
    judged = judge_pairs(pairs, observed, recipe.seed)
    examples = lay_out_pairs(pairs, judged.observed, judged.tables)
    pointer = fit_pointer(
        examples, n_hidden=recipe.hidden, epochs=recipe.epochs, seed=recipe.seed, paradigm=recipe.paradigm
    )
    return judged, pointer, examples


def choose_alarm(pointer: EvidencePointer, examples: Sequence[EvidenceExample], most: float) -> float:
    """Return the probability of a mistake that at most this share of sound runs exceeds."""
    sound = [example for example in examples if example.step is None]
    probabilities = []
    for example in sound:
        scores, nothing = pointer.score(example.features, example.n_claims, example.decides)
        shares = softmax(np.append(scores.astype(np.float64), nothing))
        probabilities.append(1.0 - float(shares[-1]))
    return float(np.quantile(probabilities, 1.0 - most))


def _read_labelled(
    runs: Sequence[RecordedRun], judged: JudgedRuns, network: NetworkTracer, lexical: LexicalTracer
) -> list[LabelledSteps]:
    labelled = []
    for run in runs:
        [(inputs, results)] = network.read([run.trace])
        prediction, by_words = network.predict([inputs])[0], lexical.attribute([run.trace])[0]
        reading = read_prose(run.trace, inputs, results, prediction, by_words, judged.table, judged.model)
        features = labelled_team_features(reading.plain, reading.network, reading.lexical)
        labelled.append(LabelledSteps.of(run, features, reading.can_be_blamed))
    return labelled


def _fit_gate(
    recipe: AutoRecipe, pairs: Sequence[LabelledPair], labelled: Sequence[LabelledSteps], network: NetworkTracer
) -> tuple[Gate, float]:
    """Fit the gate to runs of both kinds, each kind weighing alike, and return how often it is right on others."""
    most, draws = recipe.data.most, random.Random(recipe.seed)  # noqa: S311  # draws runs, no secrets
    prose = list({pair.untouched.trace.trace_id: pair.untouched.trace for pair in pairs}.values())
    groups = [[run.run.trace for run in labelled], draws.sample(prose, min(most, len(prose)))]
    # what is short is no labelled team for that alone
    groups[1] += [_begin(trace, draws.randint(*_BEGINNING)) for trace in draws.sample(groups[1], len(groups[1]) // 4)]
    rows = [gate_features(run.features).astype(np.float64) for group in groups for run, _ in network.read(group)]
    kinds = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    table = np.stack(rows)
    mean, spread = table.mean(axis=0), table.std(axis=0) + 1e-3
    scaled = np.clip((table - mean) / spread, -4.0, 4.0)
    fold = np.random.default_rng(recipe.seed).permutation(len(table)) % 5
    hits = np.zeros(len(table), np.bool_)
    for number in range(5):
        model = _gate_model(recipe).fit(scaled[fold != number], kinds[fold != number])
        hits[fold == number] = model.predict(scaled[fold == number]) == kinds[fold == number]
    for number, kind in enumerate(RUN_KINDS):
        _log.info("gate: %s %.1f %% of %d", kind, 100 * hits[kinds == number].mean(), (kinds == number).sum())
    model = _gate_model(recipe).fit(scaled, kinds)
    gate = Gate(  # a logistic regression of two classes is a softmax in which the other class scores 0
        mean.astype(np.float32),
        spread.astype(np.float32),
        np.stack([np.zeros_like(model.coef_[0]), model.coef_[0]], axis=1).astype(np.float32),
        np.array([0.0, model.intercept_[0]], np.float32),
    )
    return gate, 100 * float(hits.mean())


def _begin(trace: MessageActionTrace, n_steps: int) -> MessageActionTrace:
    """Return the first steps of a run."""
    return replace(trace, steps=trace.steps[:n_steps])


def _gate_model(recipe: AutoRecipe) -> LogisticRegression:
    return LogisticRegression(C=recipe.gate_penalty, class_weight="balanced", max_iter=500)


def _choose_set_mass(
    recipe: AutoRecipe,
    weights: AutoWeights,
    labelled: Sequence[LabelledSteps],
    pointers: Sequence[LabelledTeamPointer],
    network: NetworkTracer,
    lexical: LexicalTracer,
) -> float:
    """Return the share of blame up to which the labelled step of a labelled team is in the set often enough."""
    ahead = []
    for run, pointer in zip(labelled, pointers, strict=True):
        verdict = AutoTracer(replace(weights, labelled_team=pointer), network, lexical).attribute([run.run.trace])[0]
        ahead.append(mass_ahead(np.array([step.score for step in verdict.steps]), run.step))
    return mass_holding(ahead, recipe.coverage)


def calibrate_prose(
    weights: AutoWeights,
    edited: Sequence[tuple[MessageActionTrace, EvidenceExample]],
    network: NetworkTracer,
    coverage: float,
) -> AutoWeights:
    """Return weights whose shares of the blame in prose are as likely as they say, and whose sets hold the wrong step.

    Args:
        weights: What is trained so far.
        edited: Runs with a mistake, each as tables and trees lay it out that have not seen its source.
        network: Says where mistakes usually are.
        coverage: In how many of 100 runs a set is to hold the wrong step.
    """
    sharing = weights.sharing["prose"]
    runs = []
    for trace, example in edited:
        [(inputs, _)] = network.read([trace])
        opinion = opinion_of_network(shares_of_steps(inputs, network.predict([inputs])[0].shares, len(trace.steps)))
        can_be_blamed = np.array([trace.can_be_blamed(step) for step in trace.steps], np.bool_)
        scores, nothing = weights.pointer.score(example.features, example.n_claims, example.decides)
        runs.append((example.step or 0, (opinion, scores, nothing, can_be_blamed)))

    def surprise(weight: float) -> float:
        shares = [replace(sharing, weight=weight).share(*run)[step] for step, run in runs]
        return -float(np.log(np.array(shares) + _LEAST).mean())

    weight = float(minimize_scalar(surprise, bounds=_WEIGHTS, method="bounded").x)
    sharing = replace(sharing, weight=weight)
    _log.info("a nat of evidence counts %.2f in prose", weight)
    ahead = [mass_ahead(sharing.share(*run), step) for step, run in runs]
    return replace(
        weights,
        sharing={**weights.sharing, "prose": sharing},
        set_mass={**weights.set_mass, "prose": mass_holding(ahead, coverage)},
    )
