"""Train the tracer `auto`: trees over claims, then evidence, then the model of steps.

Nothing is chosen on what is measured: pairs of held-out kinds and sources are not read, and figures on Who&When are
cross-fitted.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan_lab.agent_names import same_agent
from blamespan_lab.auto.claims import judge_pairs
from blamespan_lab.auto.evidence import EvidenceExample, fit_evidence, lay_out_pairs, observe_all
from blamespan_lab.auto.recipe import AutoRecipe
from blamespan_lab.auto.step_model import FailedSteps, draw_folds, fit_step_model
from blamespan_lab.edits.generate import LabelledPair, read_pairs
from blamespan_lab.labels.learning import CurvePoint, measure_curve, read_steps
from blamespan_lab.measuring.pairs import runs_of_pairs
from blamespan_lab.measuring.who_and_when import SUBSETS, SubsetFigures, evaluate_subset, read_subset
from blamespan_lab.network.calibrating import mass_ahead, mass_holding
from blamespan_lab.recorded_runs import group_by_task, read_recorded
from blamespan_tracer.auto.observed_run import ObservedRun, judge_claims
from blamespan_tracer.auto.plain_features import plain_features
from blamespan_tracer.auto.step_model import EvidenceModel, StepModel, evidence_features
from blamespan_tracer.auto.step_prior import prior_features
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.auto.weights import AutoWeights
from blamespan_tracer.numeric import softmax

__all__ = ["TrainedAuto", "choose_alarm", "train_auto"]

WEIGHTS_FILE = "auto.safetensors"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainedAuto:
    """What training made.

    Attributes:
        path: The weights file, and
        digest: its digest.
        cross_fitted: Figures on each subset of Who&When, every question by weights that have not seen it, and
        left_out: as runs of a kind of team that nobody labelled are judged.
        by_labels: What so many labels of their own are worth to these.
    """

    path: Path
    digest: str
    cross_fitted: dict[str, SubsetFigures]
    left_out: dict[str, SubsetFigures]
    by_labels: dict[str, list[CurvePoint]]


def train_auto(recipe: AutoRecipe, folder: Path, data: Path, out: Path) -> TrainedAuto:
    """Train by *recipe*, and write weights and a log into *out*.

    Args:
        recipe: What decides what comes out.
        folder: Where the recipe lies, and
        data: where the data: what it names is looked for there.
        out: A folder.

    Raises:
        ConfigError: if data is missing.
    """
    pairs = _draw_pairs(recipe, data)
    written, programs = (
        _read_written(recipe, folder, patterns) for patterns in (recipe.data.transcripts, recipe.data.programs)
    )
    teams = {subset: read_subset(data / recipe.data.who_and_when / subset) for subset in SUBSETS}
    labelled = [run for runs in teams.values() for run in runs]
    runs = [*runs_of_pairs(pairs), *written, *programs, *labelled]
    observed = dict(zip((run.trace.trace_id for run in runs), observe_all(run.trace for run in runs), strict=True))
    _log.info("%d pairs, %d transcripts, %d programs read", len(pairs), len(written), len(programs))
    judged = judge_pairs(pairs, observed, recipe.seed)
    examples = lay_out_pairs(pairs, judged.observed)
    evidence = fit_evidence(
        examples, n_hidden=recipe.hidden, epochs=recipe.epochs, seed=recipe.seed, paradigm=recipe.paradigm
    )
    _log.info("claims and evidence fitted")

    def lay_out(run: RecordedRun, own: ObservedRun | None = None, weight: float = 1.0) -> FailedSteps | None:
        own = own or judge_claims(observed[run.trace.trace_id], judged.model)
        return _lay_out(run, own, evidence, weight)

    of_pairs = [
        lay_out(pair.edited, judged.observed[pair.edited.trace.trace_id], recipe.weight_of_pairs) for pair in pairs
    ]
    of_programs = [lay_out(run, weight=recipe.weight_of_programs) for run in programs]
    others = [run for run in (*of_pairs, *map(lay_out, written), *of_programs) if run is not None]
    of_labels = [lay_out(run, weight=recipe.weight_of_labels) for run in labelled]

    def fit(runs: Sequence[FailedSteps | None]) -> StepModel:
        known = [*others, *(run for run in runs if run is not None)]
        return fit_step_model(evidence, known, penalty=recipe.penalty, agent_part=recipe.agent_part)

    model = fit(of_labels)
    weights = AutoWeights(
        claims=judged.model,
        model=model,
        set_mass=_choose_set_mass(model, others, recipe.coverage),
        alarm=choose_alarm(evidence, [one for pair in examples for one in pair], recipe.max_false_alarms / 100),
        about={"recipe": asdict(recipe)},
    )
    digest = weights.save(out / WEIGHTS_FILE)
    weights = replace(weights, digest=digest)
    folds = draw_folds(group_by_task([run.trace.task for run in labelled]), recipe.seed)
    models = {
        fold: fit([run for run, other in zip(of_labels, folds, strict=True) if other != fold])
        for fold in np.unique(folds).tolist()
    }
    fold_of = {run.trace.trace_id: fold for run, fold in zip(labelled, folds.tolist(), strict=True)}
    cross_fitted = {
        subset: evaluate_subset(
            runs,
            [
                AutoTracer(replace(weights, model=models[fold_of[run.trace.trace_id]])).attribute([run.trace])[0]
                for run in runs
            ],
        )
        for subset, runs in teams.items()
    }
    stranger = AutoTracer(replace(weights, model=fit(())))
    left_out = {
        subset: evaluate_subset(runs, stranger.attribute([run.trace for run in runs])) for subset, runs in teams.items()
    }
    by_labels = {subset: measure_curve(read_steps(runs, stranger), seed=recipe.seed) for subset, runs in teams.items()}
    log = {
        "recipe": asdict(recipe),
        "digest": digest,
        "cross_fitted": cross_fitted,
        "left_out": left_out,
        "by_labels": {subset: list(map(asdict, curve)) for subset, curve in by_labels.items()},
    }
    (out / "log.json").write_text(json.dumps(log, indent=1) + "\n", encoding="utf-8")
    return TrainedAuto(out / WEIGHTS_FILE, digest, cross_fitted, left_out, by_labels)


def _draw_pairs(recipe: AutoRecipe, data: Path) -> list[LabelledPair]:
    pairs = list(read_pairs(data / recipe.data.pairs, "every-kind" if recipe.data.every_kind else "train"))
    if not pairs:
        raise ConfigError(f"expected pairs to learn from in {str(data / recipe.data.pairs)!r}, got none")
    draws = random.Random(recipe.seed)  # noqa: S311  # draws pairs, no secrets
    return draws.sample(pairs, min(recipe.data.most_pairs, len(pairs)))


def _read_written(recipe: AutoRecipe, folder: Path, patterns: Sequence[str]) -> list[RecordedRun]:
    """Read the transcripts of failures whose decisive step is known.

    Raises:
        ConfigError: if a pattern names no file.
    """
    runs = []
    for pattern in patterns:
        place = folder / pattern
        paths = sorted(place.parent.glob(place.name))
        if not paths:
            raise ConfigError(f"{recipe.name}.toml: expected {pattern!r} to name transcripts, got no file")
        runs += [run for path in paths for run in read_recorded(path)]
    return [run for run in runs if run.faults and run.faults[0].step is not None]


def _lay_out(run: RecordedRun, observed: ObservedRun, evidence: EvidenceModel, weight: float) -> FailedSteps | None:
    """Lay out a failed run; None where nobody can be blamed for the step that its label names."""
    trace, fault = run.trace, (run.faults or ())[0]
    can_be_blamed = np.array([trace.can_be_blamed(step) for step in trace.steps], np.bool_)
    assert fault.step is not None
    if not can_be_blamed[fault.step]:
        return None
    scores, nothing = evidence.score(evidence_features(observed), observed.n_claims, observed.decides)
    return FailedSteps(
        prior_features(plain_features(trace)),
        can_be_blamed,
        fault.step,
        np.array([same_agent(step.agent, fault.agent) for step in trace.steps], np.bool_),
        scores - nothing,
        weight,
    )


def choose_alarm(evidence: EvidenceModel, examples: Sequence[EvidenceExample], most: float) -> float:
    """Return the probability of a mistake that at most this share of sound runs exceeds."""
    probabilities = []
    for example in examples:
        if example.step is None:
            scores, nothing = evidence.score(example.features, example.n_claims, example.decides)
            probabilities.append(1.0 - float(softmax(np.append(scores, nothing))[-1]))
    return float(np.quantile(probabilities, 1.0 - most))


def _choose_set_mass(model: StepModel, runs: Sequence[FailedSteps], coverage: float) -> float:
    """Return the share of blame up to which the decisive step is in the set often enough."""
    shares = [model.share(run.evidence, run.features, run.can_be_blamed).shares for run in runs]
    return mass_holding([mass_ahead(own, run.step) for own, run in zip(shares, runs, strict=True)], coverage)
