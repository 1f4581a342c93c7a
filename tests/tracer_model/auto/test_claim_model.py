"""Trees over claims: what they read, how they judge, and what a damaged file gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from blamespan.trace import MessageActionTrace
from blamespan_tracer.auto.claim_model import CLAIM_FEATURES, MONOTONE, ClaimModel
from blamespan_tracer.auto.observed_run import judge_claims, observe
from blamespan_tracer.auto.weights import BUNDLED, AutoWeights
from tests.tracer_model.teams import team

_COLUMN = {name: index for index, name in enumerate(CLAIM_FEATURES)}


def _run(*contents: str) -> MessageActionTrace:
    said = [(f"agent_{index}", content) for index, content in enumerate(contents)]
    return team(*said, task="Refund order 48213 of 24.90 EUR.")


def _tree(column: int, threshold: float) -> ClaimModel:
    """Return one tree: 2 above the threshold, -1 at it and below."""
    return ClaimModel(
        feature=np.array([column, 0, 0], np.int32),
        threshold=np.array([threshold, 0, 0], np.float64),
        left=np.array([1, 1, 2], np.int32),
        right=np.array([2, 1, 2], np.int32),
        value=np.array([0.0, -1.0, 2.0]),
        root=np.array([0], np.int32),
        depth=np.array([1], np.int32),
        floor=np.array([0.0]),
    )


def test_trees_lead_each_claim_to_its_leaf() -> None:
    """A claim above the threshold gets the right leaf, one at it the left; so does each of ten thousand."""
    features = np.zeros((10_000, len(CLAIM_FEATURES)), np.float32)
    features[::2, 3] = 1.0

    scores = _tree(3, 0.5).score(features)

    assert set(scores[::2]) == {2.0}
    assert set(scores[1::2]) == {-1.0}
    assert len(_tree(3, 0.5).score(features[:0])) == 0


def test_a_judgement_is_what_a_score_is_above_the_floor() -> None:
    """Claims that score like most sound ones are all judged 0."""
    features = np.zeros((2, len(CLAIM_FEATURES)), np.float32)
    features[1, 3] = 1.0

    assert replace(_tree(3, 0.5), floor=np.array([0.5])).judge(features).tolist() == [0.0, 1.5]


def test_claims_are_laid_out_with_what_the_ledger_says() -> None:
    """A number that differs in a digit from the task is seen with its contradiction; a copied one with its source."""
    rows = observe(_run("I refund order 48213.", "I refund order 48273."), []).claims

    right, wrong = rows.features
    assert rows.steps.tolist() == [0, 1]
    assert (right[_COLUMN["has no source"]], wrong[_COLUMN["has no source"]]) == (0, 1)
    assert (right[_COLUMN["source in task"]], wrong[_COLUMN["near: found"]], right[_COLUMN["near: found"]]) == (1, 1, 0)
    assert wrong[_COLUMN["is a long number"]] == 1


def test_words_that_stand_around_another_value_speak_against_a_claim() -> None:
    """A value of the tool that stands where the tool has another one agrees with fewer words than that one does."""
    told = "The deposit is 310 EUR. The rent is 640 EUR."

    right, wrong = (
        observe(_run(told, said), []).claims.features[-1] for said in ("The rent is 640 EUR.", "The rent is 310 EUR.")
    )

    rather = _COLUMN["words that agree with its source rather"]
    assert right[rather] > 0 > wrong[rather]


@pytest.mark.parametrize(("text", "holds"), [("12 * 3 = 36", True), ("12 * 3 = 35", False)])
def test_written_sums_are_seen(text: str, *, holds: bool) -> None:
    """The numbers of a sum that does not hold are told from those of one that does."""
    features = observe(_run(text), []).claims.features

    assert set(features[:, _COLUMN["is in a sum that holds"]]) == {float(holds)}
    assert set(features[:, _COLUMN["is in a sum that does not hold"]]) == {float(not holds)}


def test_bundled_trees_find_the_wrong_copy() -> None:
    """The wrong copy is likelier wrong than the right one, and than any claim of a run whose copies are right."""
    weights = AutoWeights.load(BUNDLED)
    run = observe(_run("I refund order 48213.", "I refund order 48273."), [])
    sound = observe(_run("I refund order 48213.", "I refund order 48213."), [])

    right, wrong = weights.claims.judge(run.claims.features)

    assert wrong > right + 1
    assert wrong > weights.claims.judge(sound.claims.features).max() + 1
    judged = judge_claims(run, weights.claims)
    assert judged.claims.steps[judged.scores == wrong].tolist() == [1]


def test_more_doubt_and_less_support_never_make_a_claim_less_likely_wrong() -> None:
    """Each feature that speaks one way only does so in the bundled trees, whatever the others are."""
    model = AutoWeights.load(BUNDLED).claims
    draws = np.random.default_rng(0)
    features = (draws.random((200, len(CLAIM_FEATURES))) * 6).astype(np.float32)
    before = model.score(features)

    for name, sign in MONOTONE.items():
        more = features.copy()
        more[:, _COLUMN[name]] += 1.0
        assert (sign * (model.score(more) - before) >= -1e-9).all(), name


def test_trees_are_read_back_as_they_were() -> None:
    """Arrays give the same trees again; a node that leads nowhere, or arrays of other sizes, are refused."""
    model = _tree(3, 0.5)
    tensors: dict[str, Any] = model.tensors()
    features = np.eye(len(CLAIM_FEATURES), dtype=np.float32)

    assert (ClaimModel.from_tensors(tensors).score(features) == model.score(features)).all()
    for change in ({"claims_left": np.array([1, 9, 2], np.int32)}, {"claims_value": np.zeros(2)}):
        with pytest.raises(ValueError, match="trees"):
            ClaimModel.from_tensors({**tensors, **change})


def test_runs_without_claims_are_judged() -> None:
    """A run that states nothing has no claims and no judgement."""
    run = observe(_run("Hello.", ""), [])

    assert len(judge_claims(run, _tree(3, 0.5)).scores) == 0
