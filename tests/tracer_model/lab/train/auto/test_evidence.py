"""The evidence pointer is taught to see an edit, and gives way where the evidence is gone."""

from __future__ import annotations

import numpy as np
import pytest

from blamespan_lab.train.auto import EvidenceExample, fit_evidence
from blamespan_tracer.auto.step_model import EVIDENCE_FEATURES

N_STEPS, STEP = 4, 2


def example(strength: float, step: int | None) -> EvidenceExample:
    """Make a run of four steps of which step 2 shows something as surprising as *strength*."""
    features = np.zeros((N_STEPS, len(EVIDENCE_FEATURES)), np.float32)
    features[STEP, 0] = strength
    return EvidenceExample(features, np.array(2.0, np.float32), np.ones(N_STEPS, np.bool_), step)


@pytest.mark.slow
def test_fitted_pointer_points_at_the_edit_and_follows_the_evidence() -> None:
    """The edited step stands first, and gives way in the twin that lacks the evidence."""
    pairs = [(example(2.0, STEP), example(0.1, None)) for _ in range(60)]

    pointer = fit_evidence(pairs, n_hidden=4, epochs=60, seed=0)

    (edited, nothing), (twin, nothing_twin) = (
        pointer.score(run.features, run.n_claims, run.decides) for run in pairs[0]
    )
    assert edited.argmax() == STEP
    assert edited[STEP] - nothing > twin[STEP] - nothing_twin + 1.0


def test_same_seed_gives_the_same_weights() -> None:
    """Training twice gives the same bits."""
    pairs = [(example(2.0, STEP), example(0.1, None)) for _ in range(20)]

    one, other = (fit_evidence(pairs, n_hidden=4, epochs=2, seed=3) for _ in range(2))

    assert all(np.array_equal(one.tensors()[name], other.tensors()[name]) for name in one.tensors())
