"""Fit the trees over claims, and judge runs by trees that have not seen their source.

Whatever is learnt on top of the trees learns from runs of sources that these have not seen, and in part from kinds of
mistakes that they have not seen: as it will be used.

Dims: C claims, F features of a claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import lightgbm
import numpy as np
from numpy.typing import NDArray

from blamespan.trace import MessageActionTrace
from blamespan_lab.edits.generate import LabelledPair
from blamespan_lab.edits.pairs import WRITTEN
from blamespan_tracer.auto.claim_model import CLAIM_FEATURES, MONOTONE, ClaimModel
from blamespan_tracer.auto.observed_run import ObservedRun
from blamespan_tracer.ledger.values import Value, find_values

__all__ = ["JudgedRuns", "judge_pairs"]

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

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]


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
    wrong: dict[str, Bools] = {}
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


def find_changed(pair: LabelledPair, run: ObservedRun) -> Bools:
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
    features: Mapping[str, Floats], wrong: Mapping[str, Bools], draws: np.random.Generator, floor: float = 0.0
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
