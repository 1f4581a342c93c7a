"""Train the tracer `auto`: trees over claims, then evidence, then the model of steps.

Nothing is chosen on what is measured: pairs of held-out kinds and sources are not read, and verdicts on Who&When are
cross-fitted.

Dims: C claims of a run, T its steps, F features of a claim or of a step.
"""

from __future__ import annotations

import logging
import math
import os
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from blamespan.attribution import Attribution
from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.trace import MessageActionTrace
from blamespan.worker_processes import end_with_parent
from blamespan_lab.agent_names import same_agent
from blamespan_lab.make.edits.generate import LabelledPair, read_pairs, runs_of_pairs
from blamespan_lab.make.edits.pairs import WRITTEN
from blamespan_lab.recipes import Count, Listed, Number, PositiveCount, PositiveNumber
from blamespan_lab.recorded_runs import SUBSETS, group_by_task, read_recorded, read_subset
from blamespan_lab.train.calibrating import mass_ahead, mass_holding
from blamespan_lab.train.step_head import CurvePoint, measure_curve, read_steps
from blamespan_lab.train.step_model import FailedSteps, draw_folds, fit_step_model
from blamespan_tracer.auto.claim_model import CLAIM_FEATURES, MONOTONE, ClaimModel
from blamespan_tracer.auto.observed_run import ObservedRun, judge_claims, observe
from blamespan_tracer.auto.plain_features import plain_features
from blamespan_tracer.auto.step_model import EVIDENCE_FEATURES, EvidenceModel, StepModel, evidence_features
from blamespan_tracer.auto.step_prior import prior_features
from blamespan_tracer.auto.tracer import AutoTracer
from blamespan_tracer.auto.weights import AutoWeights
from blamespan_tracer.checks import CHECKS, apply_checks
from blamespan_tracer.ledger.values import Value, find_values
from blamespan_tracer.numeric import softmax


@dataclass(frozen=True, slots=True)
class AutoData:
    """What to train on, relative to the data folder.

    Attributes:
        pairs: Folder that `blamespan lab generate edits` made; sources that its recipe holds out are not learnt from.
        every_kind: Whether kinds of edits that it holds out are; no to measure weights on kinds that they do not know.
        most_pairs: Most pairs that are learnt from.
        transcripts: Files of written runs of whose failures the decisive step is known: patterns, relative to the
            recipe.
        programs: The same of small programs, which count more: teams of users are like them.
        who_and_when: Folder of Who&When runs whose decisive step people labelled.
    """

    pairs: str = "edits"
    every_kind: bool = True
    most_pairs: PositiveCount = 4_000
    transcripts: Listed[str] = ("../../../transcripts/*.txt",)
    programs: Listed[str] = tuple(f"../../../transcripts/{name}/*.txt" for name in ("programs", "relations", "office"))
    who_and_when: str = "who_and_when_dev"


@dataclass(frozen=True, slots=True)
class AutoRecipe:
    """Everything that decides what weights come out.

    Attributes:
        name: Names the run directory and the weights.
        model: `auto`: tells these recipes from those of other models.
        seed: Chooses the first weights and every draw.
        data: What to train on.
        hidden: Hidden units of the evidence.
        epochs: How often each pair is learnt from.
        penalty: L2 penalty of the prior.
        agent_part: Part of the loss of the prior that asks for the agent rather than the step, 0..1.
        weight_of_pairs: How much a failed run of a pair counts there beside one of a transcript, and
        weight_of_programs: how much one of a small program, and
        weight_of_labels: how much one that people labelled.
        max_false_alarms: Percent of sound runs of pairs that may be called failed.
        coverage: Percent of failed runs whose decisive step the step set is to hold.
    """

    name: str
    model: str = "auto"
    seed: Count = 0
    data: AutoData = field(default_factory=AutoData)
    hidden: PositiveCount = 12
    epochs: PositiveCount = 10
    penalty: PositiveNumber = 30.0
    agent_part: Number = 0.3
    weight_of_pairs: PositiveNumber = 6.0
    weight_of_programs: PositiveNumber = 8.0
    weight_of_labels: PositiveNumber = 30.0
    max_false_alarms: Number = 5.0
    coverage: Number = 90.0


_FOLDS = 4
_MOST_SOUND = 4_000
"""Claims of one run that nobody changed that the trees learn from: no run of many claims speaks for all."""

_MOST_CHANGED = 4
"""Values by which a written mistake differs from its twin; of those with more nobody knows which is wrong."""

_REMARKED = 0.2
"""Part of the sound claims whose score is above the floor, those likeliest wrong."""

_SETTINGS: Mapping[str, Any] = {
    "objective": "binary",
    "num_leaves": 8,
    "learning_rate": 0.08,
    "feature_fraction": 0.3,
    "min_data_in_leaf": 100,
    "lambda_l2": 1.0,
    "monotone_constraints": [MONOTONE.get(name, 0) for name in CLAIM_FEATURES],
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
_TREES = 150

_Floats = NDArray[np.float32]
_Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class JudgedRuns:
    """The runs of pairs, with what trees that have not seen their source make of their claims.

    Attributes:
        model: Trees fitted to the claims of all pairs.
        observed: By trace id.
    """

    model: ClaimModel
    observed: dict[str, ObservedRun]


def judge_pairs(pairs: Sequence[LabelledPair], observed: Mapping[str, ObservedRun], seed: int) -> JudgedRuns:
    """Fit trees to the claims of *pairs*, and judge each run by trees of other sources.

    Args:
        pairs: What to learn from.
        observed: Their runs by trace id.
        seed: Draws the folds, and claims of very long runs.
    """
    order = np.random.default_rng(seed)
    sources = sorted({pair.source for pair in pairs})
    fold_of_source = dict(zip(sources, (order.permutation(len(sources)) % _FOLDS).tolist(), strict=True))
    fold_of: dict[str, int] = {}
    wrong: dict[str, _Bools] = {}
    for pair in pairs:
        for run in (pair.untouched, pair.edited, pair.decoy):
            if run is not None:
                trace_id = run.trace.trace_id
                fold_of[trace_id] = fold_of_source[pair.source]
                wrong.setdefault(trace_id, np.zeros(len(observed[trace_id].claims.steps), np.bool_))
        wrong[pair.edited.trace.trace_id] = find_changed(pair, observed[pair.edited.trace.trace_id])
    sound = sorted({pair.untouched.trace.trace_id for pair in pairs})
    unclear = {
        pair.edited.trace.trace_id
        for pair in pairs
        if pair.kind == WRITTEN and wrong[pair.edited.trace.trace_id].sum() > _MOST_CHANGED
    }
    kinds = sorted({pair.kind for pair in pairs})
    fold_of_kind = dict(zip(kinds, (order.permutation(len(kinds)) % _FOLDS).tolist(), strict=True))
    kind_of = {pair.edited.trace.trace_id: fold_of_kind[pair.kind] for pair in pairs}
    taught = {i for i in fold_of if wrong[i].any() and i not in unclear}.union(sound)

    def fit_without(fold: int) -> ClaimModel:
        others = {i for i in taught if fold not in (fold_of[i], kind_of.get(i))}
        return _fit({i: observed[i].claims.features for i in others}, wrong, order)

    models = [fit_without(fold) for fold in range(_FOLDS)]
    scores = {i: models[fold].score(observed[i].claims.features) for i, fold in fold_of.items()}
    floor = float(np.quantile(np.concatenate([scores[trace_id] for trace_id in sound]), 1.0 - _REMARKED))
    return JudgedRuns(
        model=_fit({i: observed[i].claims.features for i in taught}, wrong, order, floor),
        observed={i: replace(observed[i], scores=np.maximum(values - floor, 0.0)) for i, values in scores.items()},
    )


def find_changed(pair: LabelledPair, run: ObservedRun) -> _Bools:
    """Return which claims of the edited run are wrong: (C,).

    Where the step was changed they are the values that it did not state before; where its sources were changed those
    that the sources no longer state.
    """
    edited, untouched, step = pair.edited.trace, pair.untouched.trace, pair.step
    before = pair.untouched_step
    own = {value.start: _key(value) for value in find_values(edited.steps[step].content)}
    if before is not None and edited.steps[step].content != untouched.steps[before].content:
        changed = {*own.values()} - _keys(untouched.steps[before].content)
    else:
        changed = set()
        for text, other in _sources(edited, untouched, step):
            if text != other:
                changed |= _keys(other) - _keys(text)
    claims = run.claims
    return np.array(
        [
            at == step and own.get(place) in changed
            for at, place in zip(claims.steps.tolist(), claims.places.tolist(), strict=True)
        ],
        np.bool_,
    )


def _sources(edited: MessageActionTrace, untouched: MessageActionTrace, step: int) -> Iterator[tuple[str, str]]:
    yield edited.task, untouched.task
    for one, other in zip(edited.steps[:step], untouched.steps[:step], strict=False):
        yield one.content, other.content


def _key(value: Value) -> tuple[str, str, str]:
    return value.form, value.key, value.unit


def _keys(text: str) -> set[tuple[str, str, str]]:
    return {_key(value) for value in find_values(text)}


def _fit(
    features: Mapping[str, _Floats], wrong: Mapping[str, _Bools], draws: np.random.Generator, floor: float = 0.0
) -> ClaimModel:
    """Fit trees to which claims were changed."""
    rows, is_wrong = [], []
    for trace_id in sorted(features):
        sound = np.flatnonzero(~wrong[trace_id])
        if len(sound) > _MOST_SOUND:
            sound = draws.choice(sound, _MOST_SOUND, replace=False)
        kept = np.concatenate([np.flatnonzero(wrong[trace_id]), sound])
        rows.append(features[trace_id][kept])
        is_wrong.append(wrong[trace_id][kept])
    data = lightgbm.Dataset(np.concatenate(rows), np.concatenate(is_wrong).astype(np.float64))
    booster = lightgbm.train(dict(_SETTINGS), data, _TREES)
    return _export(booster.dump_model(), floor)


def _export(dumped: Mapping[str, Any], floor: float) -> ClaimModel:
    """Return what LightGBM dumped as arrays."""
    nodes: list[tuple[int, float, int, int, float]] = []
    depths: list[int] = []

    def add(node: Mapping[str, Any], depth: int) -> int:
        index = len(nodes)
        nodes.append((0, 0.0, index, index, float(node.get("leaf_value", 0.0))))
        depths.append(depth)
        if "split_feature" in node:
            left = add(node["left_child"], depth + 1)
            right = add(node["right_child"], depth + 1)
            nodes[index] = (node["split_feature"], float(node["threshold"]), left, right, 0.0)
        return index

    roots = [add(tree["tree_structure"], 0) for tree in dumped["tree_info"]]
    feature, threshold, left, right, value = (np.array(column) for column in zip(*nodes, strict=True))
    return ClaimModel(
        feature=feature.astype(np.int32),
        threshold=threshold.astype(np.float64),
        left=left.astype(np.int32),
        right=right.astype(np.int32),
        value=value.astype(np.float64),
        root=np.array(roots, np.int32),
        depth=np.array([max(depths)], np.int32),
        floor=np.array([floor], np.float64),
    )


_BATCH = 32
_LEARNING_RATE = 1e-2
_FIRST_BIAS = -6.0
_NEVER = -30.0


@dataclass(frozen=True, slots=True)
class EvidenceExample:
    """A run as the evidence of the model of steps reads it.

    Attributes:
        features: (T, F).
        n_claims: How many claims it has.
        decides: (T,) bool.
        step: The edited step; None for a sound run.
    """

    features: _Floats
    n_claims: int
    decides: NDArray[np.bool_]
    step: int | None


def observe_all(traces: Iterable[MessageActionTrace]) -> Iterator[ObservedRun]:
    """Observe many runs in as many processes as there are cores, in order; without their claims."""
    with ProcessPoolExecutor(os.cpu_count(), initializer=end_with_parent) as pool:
        yield from pool.map(_observe, traces, chunksize=64)


def _observe(trace: MessageActionTrace) -> ObservedRun:
    run = observe(trace, apply_checks(CHECKS, trace))
    return replace(run, claims=replace(run.claims, claims=()))


def lay_out_pairs(
    pairs: Sequence[LabelledPair], observed: Mapping[str, ObservedRun]
) -> list[tuple[EvidenceExample, ...]]:
    """List the runs of each pair, the edited one first; an untouched run is in every pair that it was edited for.

    Args:
        pairs: The pairs.
        observed: Their runs by trace id, judged.
    """
    features = {trace_id: evidence_features(run) for trace_id, run in observed.items()}

    def lay_out(trace: MessageActionTrace, step: int | None) -> EvidenceExample:
        run = observed[trace.trace_id]
        return EvidenceExample(features[trace.trace_id], run.n_claims, run.decides, step)

    return [
        tuple(
            lay_out(run.trace, step)
            for run, step in ((pair.edited, pair.step), (pair.untouched, None), (pair.decoy, None))
            if run is not None
        )
        for pair in pairs
    ]


class _Evidence(nn.Module):
    """The evidence of the model with weights that stay positive while they are fitted."""

    def __init__(self, n_hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Parameter(torch.randn(len(EVIDENCE_FEATURES), n_hidden) * 0.3 - 1.5)
        self.hidden_bias = nn.Parameter(torch.randn(n_hidden) * 0.5 - 0.5)
        self.step = nn.Parameter(torch.randn(n_hidden) * 0.3 - 1.5)
        self.step_bias = nn.Parameter(torch.tensor([_FIRST_BIAS]))
        self.nothing = nn.Parameter(torch.tensor([1.0, 0.0]))

    def forward(self, batch: Sequence[EvidenceExample]) -> list[Tensor]:
        """Score what may be pointed at in each run of a batch: (T + 1,), the last is "nothing is wrong"."""
        features = torch.from_numpy(np.concatenate([example.features for example in batch]))
        hidden = features @ functional.softplus(self.hidden) + self.hidden_bias
        active = 2.0 * torch.sigmoid(hidden) + 0.3 * functional.softplus(hidden)
        scores = active @ functional.softplus(self.step) + self.step_bias
        decides = torch.from_numpy(np.concatenate([example.decides for example in batch]))
        sizes = [len(example.decides) for example in batch]
        parts = torch.split(torch.where(decides, scores, torch.tensor(_NEVER)), sizes)
        return [
            torch.cat([part, (self.nothing[0] + self.nothing[1] * math.log1p(example.n_claims))[None]])
            for example, part in zip(batch, parts, strict=True)
        ]

    def export(self) -> EvidenceModel:
        """Return the weights for NumPy."""

        def values(tensor: Tensor) -> _Floats:
            return np.asarray(tensor.detach().numpy(), np.float32)

        return EvidenceModel(
            values(functional.softplus(self.hidden)),
            values(self.hidden_bias),
            values(functional.softplus(self.step)),
            values(self.step_bias),
            values(self.nothing),
        )


def fit_evidence(
    pairs: Sequence[Sequence[EvidenceExample]],
    *,
    n_hidden: int,
    epochs: int,
    seed: int,
) -> EvidenceModel:
    """Fit the evidence by Adam, its learning rate up and down once.

    Args:
        pairs: The runs of each pair, as `lay_out_pairs` returns them.
        n_hidden: Hidden units.
        epochs: How often each pair is learnt from.
        seed: Chooses the first weights and the order.
    """
    torch.manual_seed(seed)
    torch.set_num_threads(1)  # small sums: more threads only wait for each other, and change the last digit
    model = _Evidence(n_hidden)
    optimizer = torch.optim.Adam(model.parameters(), _LEARNING_RATE)
    draws = random.Random(seed)  # noqa: S311  # an order, no secret
    rows = [example for pair in pairs for example in pair]
    n_updates = epochs * -(-len(rows) // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _LEARNING_RATE, total_steps=n_updates + 1)
    for _ in range(epochs):
        draws.shuffle(rows)
        for first in range(0, len(rows), _BATCH):
            batch = rows[first : first + _BATCH]
            losses = [
                -torch.log_softmax(scores, 0)[-1 if run.step is None else run.step]
                for run, scores in zip(batch, model(batch), strict=True)
            ]
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]  # torch's own
            optimizer.step()
            schedule.step()
    return model.export()


WEIGHTS_FILE = "auto.safetensors"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TrainedAuto:
    """What training made.

    Attributes:
        path: The weights file, and
        digest: its digest.
        labelled: The runs of each subset of Who&When.
        cross_fitted: The verdicts on them, every question's by weights that have not seen it, and
        left_out: as runs of a kind of team that nobody labelled are judged.
        by_labels: What so many labels of their own are worth to these.
    """

    path: Path
    digest: str
    labelled: dict[str, list[RecordedRun]]
    cross_fitted: dict[str, list[Attribution]]
    left_out: dict[str, list[Attribution]]
    by_labels: dict[str, list[CurvePoint]]


def train_auto(recipe: AutoRecipe, folder: Path, data: Path, out: Path) -> TrainedAuto:
    """Train by *recipe*, and write weights into *out*.

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
    evidence = fit_evidence(examples, n_hidden=recipe.hidden, epochs=recipe.epochs, seed=recipe.seed)
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
        subset: [
            AutoTracer(replace(weights, model=models[fold_of[run.trace.trace_id]])).attribute([run.trace])[0]
            for run in runs
        ]
        for subset, runs in teams.items()
    }
    stranger = AutoTracer(replace(weights, model=fit(())))
    left_out = {subset: stranger.attribute([run.trace for run in runs]) for subset, runs in teams.items()}
    by_labels = {subset: measure_curve(read_steps(runs, stranger), seed=recipe.seed) for subset, runs in teams.items()}
    return TrainedAuto(out / WEIGHTS_FILE, digest, teams, cross_fitted, left_out, by_labels)


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
