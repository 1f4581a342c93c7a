"""Other words for the same runs: near ones, or any at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from blamespan_lab.train.network.examples import NetworkExample, examples_of
from blamespan_lab.train.network.meanings import Meanings
from blamespan_lab.train.network.rewording import with_near_words, with_strange_words
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inputs import RunInputs
from tests.tracer_model.alternatives.network.networks import FEATURES
from tests.tracer_model.lab.train.network.test_training import labelled

MEANINGS = Meanings.bundled()


@pytest.fixture(scope="module")
def examples() -> list[NetworkExample]:
    return examples_of(
        [labelled(seed) for seed in range(6)], LexicalTracer.bundled().lexicon, MEANINGS.vocabulary, FEATURES
    )


def test_near_words_mean_nearly_the_same(examples: list[NetworkExample]) -> None:
    """Each word becomes one of the five nearest, wherever it stands, and never itself."""
    changed = with_near_words(examples, MEANINGS.vectors, seed=3)
    before, after = (np.concatenate([each.inputs.tokens.rows for each in part]) for part in (examples, changed))
    directions = MEANINGS.vectors / np.linalg.norm(MEANINGS.vectors, axis=1, keepdims=True)

    assert len(np.unique(np.stack([before, after]), axis=1)[0]) == len(np.unique(before))
    for word, other in zip(before[:20], after[:20], strict=True):
        likeness = directions @ directions[word]
        assert word != other
        assert (likeness > likeness[other] + 1e-6).sum() <= 5


def test_strange_words_are_others_one_for_one(examples: list[NetworkExample]) -> None:
    """No two words become one, and nothing but words changes."""
    changed = with_strange_words(examples, len(MEANINGS.vocabulary), seed=3)
    before, after = (np.concatenate([each.inputs.tokens.rows for each in part]) for part in (examples, changed))

    assert len(np.unique(after)) == len(np.unique(before))
    assert not np.array_equal(before, after)
    assert all(
        np.array_equal(one.inputs.features, other.inputs.features) for one, other in zip(examples, changed, strict=True)
    )


def test_words_that_are_alone_stay(examples: list[NetworkExample]) -> None:
    """Where there is no other word, there is none to take."""
    lonely = [replace(each, inputs=_of_one_word(each.inputs)) for each in examples]

    assert not np.concatenate(
        [each.inputs.tokens.rows for each in with_near_words(lonely, MEANINGS.vectors[:1], 0)]
    ).any()


def _of_one_word(run: RunInputs) -> RunInputs:
    return replace(run, tokens=replace(run.tokens, rows=run.tokens.rows * 0))
