"""Rewards are those of the papers: every part of them by an example."""

from __future__ import annotations

import math

import pytest

from blamespan_lab.language_model.rewards import Points, aegis_reward, chance_of_step, clip_bound, step_reward
from blamespan_tracer.causal.prompts import NOBODY, PairsAnswer, StepAnswer

LABEL = StepAnswer(2, 7, "FM-1.1")
PAIRS = frozenset({(1, "FM-1.1"), (2, "FM-2.3")})


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        (StepAnswer(2, 7), 1.0),
        (StepAnswer(2, 7, "FM-3.3"), 1.0),
        (StepAnswer(1, 7), 0.5),
        (StepAnswer(2, 8), 0.5 * math.exp(-0.5) + 0.5),
        (StepAnswer(2, 5), 0.5 * math.exp(-2.0) + 0.5),
        (StepAnswer(1, 100), 0.0),
        (NOBODY, 0.0),
        (None, 0.0),
    ],
)
def test_step_reward_is_agentracers(answer: StepAnswer | None, reward: float) -> None:
    """1[format] (0.5 exp(-(t - t*)^2 / 2) + 0.5 1[i = i*]); the mode earns nothing."""
    assert step_reward(answer, LABEL) == pytest.approx(reward, abs=1e-12)


def test_wider_kernel_forgives_more() -> None:
    """Sigma is in steps, and the weight moves from agent to step."""
    found = step_reward(StepAnswer(1, 9), LABEL, sigma=2.0, step_weight=0.8)

    assert found == pytest.approx(0.8 * math.exp(-0.5))


def test_sound_run_is_answered_by_nobody_alone() -> None:
    """Where nobody is to blame, blaming earns nothing, near or far."""
    assert [step_reward(each, NOBODY) for each in (NOBODY, StepAnswer(1, 0), None)] == [1.0, 0.0, 0.0]


def test_chance_is_the_mean_over_possible_answers() -> None:
    """Two decisions and nobody: one is right, one has the wrong agent one step off."""
    found = chance_of_step([(1, 0), (2, 1)], StepAnswer(1, 0))

    assert found == pytest.approx((1.0 + 0.5 * math.exp(-0.5) + 0.0) / 3)


def test_clip_tightens_to_a_fifth() -> None:
    """B_s = max(0.2 B_0, B_0 (1 - s / S))."""
    assert [clip_bound(step, 10, 0.2) for step in (0, 5, 8, 9, 10)] == pytest.approx([0.2, 0.1, 0.04, 0.04, 0.04])


def pairs(*given: tuple[int, str]) -> PairsAnswer:
    return PairsAnswer(given)


@pytest.mark.parametrize(
    ("answer", "reward"),
    [
        (pairs((1, "FM-1.1"), (2, "FM-2.3")), 1.0),
        (pairs((1, "FM-1.1")), 2.5 / 4.5),
        (pairs((1, "FM-3.1")), 1.5 / 4.5),
        (pairs((3, "FM-2.3")), 1.5 / 4.5),
        (pairs((3, "FM-3.1")), 0.0),
        (pairs(), 0.5 / 4.5),
        (pairs((1, "FM-1.1"), (1, "FM-1.1")), 2.0 / 4.5),
        (pairs((1, "FM-3.1"), (1, "FM-3.2")), 1.0 / 4.5),
        (pairs((1, "FM-1.1"), (1, "FM-3.2")), 2.0 / 4.5),
        (None, -1.0),
    ],
)
def test_aegis_reward_by_its_parts(answer: PairsAnswer | None, reward: float) -> None:
    """Pair over agent or error over neither; half credits once; repetitions cost; divided by what is to be earned."""
    assert aegis_reward(answer, PAIRS) == pytest.approx(reward)


def test_answers_beyond_twice_the_labels_cost() -> None:
    """Naming everybody with everything is worse than naming one agent with the right error."""
    everything = pairs(*((agent, code) for agent in (1, 2, 3) for code in ("FM-1.1", "FM-2.3", "FM-3.1")))

    assert aegis_reward(everything, PAIRS) < aegis_reward(pairs((1, "FM-1.1")), PAIRS)
    assert aegis_reward(everything, PAIRS) == pytest.approx((0.5 + 4.0 - 7 * 0.5 - 5 * 0.5) / 4.5)


def test_points_can_be_chosen() -> None:
    """The paper keeps its constants to itself, so ours are settings."""
    assert aegis_reward(None, PAIRS, Points(malformed=-0.2)) == -0.2
