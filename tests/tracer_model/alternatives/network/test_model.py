"""The arithmetic is one: whichever library does it, and whatever stands beside a run."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from blamespan_lab.train.network.batches import pad
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inference import score_run
from blamespan_tracer.alternatives.network.inputs import read_inputs
from blamespan_tracer.alternatives.network.model import StepInputs, forward
from tests.tracer_model.alternatives.network.networks import FEATURES, VOCABULARY, drawn_network, random_team


def test_torch_and_numpy_say_the_same() -> None:
    """What was trained in one is what runs in the other."""
    network = drawn_network()
    run = read_inputs([random_team(1)], LexicalTracer.bundled().lexicon, network.vocabulary, network.features)[0]
    judged = score_run(network, run)
    weights = {name: torch.from_numpy(value) for name, value in network.weights.items()}
    padded = pad([run])
    padded.features.copy_(torch.from_numpy(network.scale(run.features)))

    in_torch = forward(weights, network.shape, padded.steps(weights))

    for part in ("pointer", "fault", "modes"):
        assert getattr(judged, part) == pytest.approx(getattr(in_torch, part).numpy(), abs=1e-4), part


def test_padding_changes_no_score() -> None:
    """A short run beside a long one is read as it would be alone."""
    network = drawn_network()
    short, long = read_inputs(
        [random_team(1, 4), random_team(2, 19)], LexicalTracer.bundled().lexicon, VOCABULARY, FEATURES
    )
    weights = {name: torch.from_numpy(value) for name, value in network.weights.items()}
    n_steps = len(short)

    alone, beside = (forward(weights, network.shape, pad(runs).steps(weights)) for runs in ([short], [short, long]))

    assert beside.pointer[0, :n_steps].numpy() == pytest.approx(alone.pointer[0, :n_steps].numpy(), abs=1e-4)
    assert float(beside.pointer[0, -1]) == pytest.approx(float(alone.pointer[0, -1]), abs=1e-4)
    assert beside.modes[0, :n_steps].numpy() == pytest.approx(alone.modes[0, :n_steps].numpy(), abs=1e-4)


def test_who_cannot_be_blamed_gets_nothing() -> None:
    """A step that is no decision has a share of exactly 0."""
    network = drawn_network()
    n_steps, shape = 3, network.shape
    steps = StepInputs(
        np.zeros((1, n_steps, shape.n_features), np.float32),
        np.zeros((1, n_steps, shape.bag_width), np.float32),
        np.zeros((1, shape.n_relations, n_steps, n_steps), np.float32),
        np.ones((1, n_steps), bool),
        np.array([[True, False, True]]),
        np.zeros((1, n_steps, shape.sentence_width), np.float32),
    )

    pointer = forward(network.weights, shape, steps).pointer[0]

    assert np.exp(pointer - pointer.max())[1] == 0
