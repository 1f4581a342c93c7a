"""The model: its sums, and the file it lives in."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from blamespan.errors import TracerUnavailable
from blamespan_tracer.alternatives.features import agent_features
from blamespan_tracer.alternatives.lexicon import FORMAT, SEAT_WEIGHT, AgentScores, Lexicon
from tests.tracer_model.runs import trace

RUN = trace(
    ("one", "the sea is grey and cold"), ("two", "I count nothing"), ("one", "the sea is loud"), ("two", "cold feet")
)


@pytest.fixture(params=[1e-9, 500.0], ids=["long texts", "short texts"])
def lexicon(request: pytest.FixtureRequest) -> Lexicon:
    """A model of random weights that knows most features of `RUN`, to which its texts are long or short."""
    typical_length: float = request.param
    generator = np.random.default_rng(0)
    keys = np.unique(
        np.concatenate([part for agent in agent_features(RUN) for part in (*agent.text, agent.opening, agent.seat)])
    )[:-9]
    shape = (len(keys), 3)
    return Lexicon(
        codes=("FM-1.1", "FM-2.6", "any"),
        keys=keys,
        idf=generator.uniform(1, 5, len(keys)).astype(np.float32),
        weights=generator.normal(size=shape).astype(np.float16).astype(np.float32),
        bias=generator.normal(size=3).astype(np.float32),
        slope=np.array([1, 2, 0.5], np.float32),
        offset=np.array([0, 1, -1], np.float32),
        typical_length=typical_length,
        failure_slope=1.5,
        failure_offset=-0.5,
        mode_threshold=0.2,
        agent_threshold=0.8,
        questions=frozenset({"00112233"}),
        notes={"seed": "0"},
    )


def slow_scores(lexicon: Lexicon, place: int) -> tuple[list[float], list[list[float]]]:
    """Score the agent at *place* of `RUN` feature by feature, as the documentation says it."""
    agent = agent_features(RUN)[place]
    row = {int(key): index for index, key in enumerate(lexicon.keys)}
    steps = [[int(key) for key in part if int(key) in row] for part in (*agent.text, agent.opening)]
    distinct = {key for part in steps for key in part}
    length = max(math.sqrt(sum(float(lexicon.idf[row[key]]) ** 2 for key in distinct)), lexicon.typical_length)
    by_step = []
    for part in steps:
        added = [0.0] * 3
        for key in part:
            shared_by = sum(key in other for other in steps)
            for answer in range(3):
                value = float(lexicon.idf[row[key]]) / length / shared_by
                added[answer] += value * float(lexicon.weights[row[key], answer])
        by_step.append(added)
    logits = []
    for answer in range(3):
        seat = sum(SEAT_WEIGHT * float(lexicon.weights[row[int(key)], answer]) for key in agent.seat if int(key) in row)
        raw = sum(added[answer] for added in by_step) + seat + float(lexicon.bias[answer])
        logits.append(raw * float(lexicon.slope[answer]) + float(lexicon.offset[answer]))
    by_step = by_step[:-1]  # the opening belongs to the agent, to no step
    slopes = [float(slope) for slope in lexicon.slope]
    return logits, [[value * slope for value, slope in zip(added, slopes, strict=True)] for added in by_step]


@pytest.mark.parametrize("place", [0, 1])
def test_scores_agree_with_a_slow_reference(lexicon: Lexicon, place: int) -> None:
    """The vectorised sums are those of the formula, written out feature by feature."""
    logits, by_step = slow_scores(lexicon, place)

    scores = lexicon.score(agent_features(RUN)[place])

    np.testing.assert_allclose(scores.logits, logits, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(scores.by_step, by_step, rtol=1e-4, atol=1e-5)


def test_unknown_words_leave_the_bias(lexicon: Lexicon) -> None:
    """An agent of whom nothing is known gets the base rate, not an error."""
    (stranger,) = agent_features(trace(("x", "zyzzyva quux"), task=""))
    stranger = replace(stranger, seat=stranger.seat[:0])

    scores = lexicon.score(stranger)

    np.testing.assert_allclose(scores.logits, lexicon.bias * lexicon.slope + lexicon.offset, rtol=1e-6)


def assert_equal(one: AgentScores, other: AgentScores) -> None:
    for spec in fields(AgentScores):
        np.testing.assert_array_equal(getattr(one, spec.name), getattr(other, spec.name))


def test_model_comes_back_from_its_file(lexicon: Lexicon, tmp_path: Path) -> None:
    """Weights of 16-bit precision survive saving bit for bit, with everything around them."""
    digest = lexicon.save(tmp_path / "a.safetensors")

    loaded = Lexicon.load(tmp_path / "a.safetensors")

    for agent in agent_features(RUN):
        assert_equal(loaded.score(agent), lexicon.score(agent))
    assert loaded.digest == digest
    kept = ("codes", "mode_threshold", "agent_threshold", "questions", "notes")
    assert [getattr(loaded, name) for name in kept] == [getattr(lexicon, name) for name in kept]


def test_arrays_of_any_layout_survive(lexicon: Lexicon, tmp_path: Path) -> None:
    """Columns of a larger table are views with strides; the file holds what they show."""
    scaling = np.arange(6, dtype=np.float32).reshape(3, 2)
    replace(lexicon, slope=scaling[:, 0], offset=scaling[:, 1]).save(tmp_path / "a.safetensors")

    loaded = Lexicon.load(tmp_path / "a.safetensors")

    assert (loaded.slope.tolist(), loaded.offset.tolist()) == ([0, 2, 4], [1, 3, 5])


def test_same_model_is_the_same_file(lexicon: Lexicon, tmp_path: Path) -> None:
    """The digest identifies the weights, so writing them twice must not change it."""
    assert len({lexicon.save(tmp_path / f"{number}.safetensors") for number in range(5)}) == 1


@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "noise", "other format", "wrong shape"])
def test_damaged_weights_are_refused(lexicon: Lexicon, tmp_path: Path, damage: str) -> None:
    """Whatever is wrong with the file, the message says what was expected, where, and what to do."""
    path = tmp_path / "weights.safetensors"
    lexicon.save(path)
    content = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "empty":
            path.write_bytes(b"")
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "noise":
            path.write_bytes(bytes(range(256)) * 40)
        case "other format":
            path.write_bytes(content.replace(FORMAT.encode(), b"blamespan-lexicon-9"))
        case "wrong shape":
            replace(lexicon, codes=("FM-1.1", "any")).save(path)

    with pytest.raises(TracerUnavailable, match=r"expected lexical weights .* got .*blamespan lab train"):
        Lexicon.load(path)
