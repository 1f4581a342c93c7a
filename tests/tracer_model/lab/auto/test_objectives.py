"""What the evidence pointer is asked for: supervised, contrastive, or by reward."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
import torch

from blamespan_lab.auto.evidence import EvidenceExample, fit_evidence
from blamespan_lab.auto.objectives import OBJECTIVES, Options, Paradigm, expected_reward
from blamespan_tracer.auto.step_model import EVIDENCE_FEATURES

PARADIGMS = get_args(Paradigm)
N_STEPS, STEP = 4, 2


def options(scores: list[float], step: int | None, *, before: list[float] | None = None) -> Options:
    """Make the options of a run of four steps, of which the agent of step 2 also took step 0."""
    agent = torch.tensor([step is not None, False, step is not None, False])
    policy = None if before is None else torch.softmax(torch.tensor(before), 0)
    return Options(torch.tensor(scores, requires_grad=True), step, agent, policy)


def pair(at_edit: float, at_twin: float) -> list[Options]:
    """Make an edited run and its untouched twin, whose step 2 has the scores given; all else is level."""
    return [options([0.0, 0.0, at_edit, 0.0, 0.0], STEP), options([0.0, 0.0, at_twin, 0.0, 0.0], None)]


@pytest.mark.parametrize("paradigm", PARADIGMS)
def test_loss_pulls_the_edited_step_up_and_its_twin_down(paradigm: Paradigm) -> None:
    """Every paradigm wants the edited step's score higher, and the score of the same step of the twin lower."""
    edited, twin = runs = pair(0.0, 0.0)

    OBJECTIVES[paradigm]([runs], 0.0).backward()  # type: ignore[no-untyped-call]  # torch's own

    assert edited.scores.grad is not None
    assert twin.scores.grad is not None
    assert edited.scores.grad[STEP] < 0 < twin.scores.grad[STEP]


def test_reward_is_half_for_the_distance_and_half_for_the_agent() -> None:
    """A pointer that is sure earns 1 at the step, and less the further it points away, but half for the agent."""
    sure = [expected_reward(options([50.0 * (index == at) for index in range(5)], STEP)) for at in range(5)]

    near = 0.5 * math.exp(-0.5)
    assert sure == pytest.approx([0.5 * math.exp(-2.0) + 0.5, near, 1.0, near, 0.0], abs=1e-6)


def test_nothing_is_rewarded_in_a_sound_run_only() -> None:
    """To say that nothing is wrong earns all in a sound run, and nothing in one with a mistake."""
    nothing = [0.0, 0.0, 0.0, 0.0, 50.0]

    assert expected_reward(options(nothing, None)) == pytest.approx(1.0)
    assert expected_reward(options(nothing, STEP)) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("progress", "is_held"), [(0.5, False), (0.95, True)])
def test_clip_tightens(progress: float, is_held: bool) -> None:
    """A step that is 15 % likelier than before the batch is pulled further up at first, and no more near the end."""
    before = [0.0, 0.0, 0.0, 0.0, 0.0]
    run = options([0.0, 0.0, 0.19, 0.0, 0.0], STEP, before=before)

    OBJECTIVES["reward"]([[run]], progress).backward()  # type: ignore[no-untyped-call]  # torch's own

    assert run.scores.grad is not None
    free = options([0.0, 0.0, 0.19, 0.0, 0.0], STEP)
    OBJECTIVES["reward"]([[free]], progress).backward()  # type: ignore[no-untyped-call]  # torch's own
    assert free.scores.grad is not None
    assert (run.scores.grad[STEP].item() > 0.5 * free.scores.grad[STEP].item()) is is_held


def example(strength: float, step: int | None) -> EvidenceExample:
    """Make a run of four steps of which step 2 shows something as surprising as *strength*."""
    features = np.zeros((N_STEPS, len(EVIDENCE_FEATURES)), np.float32)
    features[STEP, 0] = strength
    is_of_agent = np.arange(N_STEPS) == (-1 if step is None else step)
    return EvidenceExample(features, np.array(2.0, np.float32), np.ones(N_STEPS, np.bool_), step, is_of_agent)


@pytest.mark.slow
@pytest.mark.parametrize("paradigm", PARADIGMS)
def test_fitted_pointer_points_at_the_edit_and_follows_the_evidence(paradigm: Paradigm) -> None:
    """After any training the edited step stands first, and gives way in the twin that lacks the evidence."""
    pairs = [(example(2.0, STEP), example(0.1, None)) for _ in range(60)]

    pointer = fit_evidence(pairs, n_hidden=4, epochs=60, seed=0, paradigm=paradigm)

    (edited, nothing), (twin, nothing_twin) = (
        pointer.score(run.features, run.n_claims, run.decides) for run in pairs[0]
    )
    assert edited.argmax() == STEP
    assert edited[STEP] - nothing > twin[STEP] - nothing_twin + 1.0


def test_same_seed_gives_the_same_weights() -> None:
    """Training twice gives the same bits."""
    pairs = [(example(2.0, STEP), example(0.1, None)) for _ in range(20)]

    one, other = (fit_evidence(pairs, n_hidden=4, epochs=2, seed=3, paradigm="reward") for _ in range(2))

    assert all(np.array_equal(one.tensors()[name], other.tensors()[name]) for name in one.tensors())
