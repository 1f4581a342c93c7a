"""The arithmetic is one: whichever library does it, and whatever stands beside a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inference import NumpyEngine
from blamespan_tracer.alternatives.network.inputs import read_inputs
from blamespan_tracer.alternatives.network.model import StepInputs, average_scores, forward, stack_ensemble
from blamespan_tracer.alternatives.network.torch_inference import pad
from tests.tracer_model.alternatives.network.networks import FEATURES, VOCABULARY, drawn_network, random_team


def test_torch_and_numpy_say_the_same() -> None:
    """What was trained in one is what runs in the other."""
    network = drawn_network()
    run = read_inputs([random_team(1)], LexicalTracer.bundled().lexicon, network.vocabulary, network.features)[0]
    judged = NumpyEngine(network).scores([run])[0]
    members = [{name: torch.from_numpy(value) for name, value in each.items()} for each in network.ensemble]
    padded = pad([run])
    padded.features.copy_(torch.from_numpy(network.scale(run.features)))

    in_torch = average_scores([forward(each, network.shape, padded.steps(each)) for each in members])

    for part in ("pointer", "fault", "modes"):
        assert getattr(judged, part) == pytest.approx(getattr(in_torch, part).numpy(), abs=1e-4), part


def test_padding_changes_no_score() -> None:
    """A short run beside a long one is read as it would be alone."""
    network = drawn_network()
    short, long = read_inputs(
        [random_team(1, 4), random_team(2, 19)], LexicalTracer.bundled().lexicon, VOCABULARY, FEATURES
    )
    weights = {name: torch.from_numpy(value) for name, value in network.ensemble[0].items()}
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

    pointer = forward(network.ensemble[0], shape, steps).pointer[0]

    assert np.exp(pointer - pointer.max())[1] == 0


@pytest.mark.parametrize(("library", "tolerance"), [(np.asarray, 0), (torch.from_numpy, 1e-5)])
def test_networks_side_by_side_say_what_each_says(library: Callable[[Any], Any], tolerance: float) -> None:
    """On a CPU to the last bit: what is read together is read alike."""
    network, rng = drawn_network(), np.random.default_rng(4)
    shape, n_runs, n_steps = network.shape, 2, 5
    members = [{name: library(value) for name, value in each.items()} for each in network.ensemble]

    def drawn(*size: int) -> Any:
        return library(rng.normal(size=size).astype(np.float32))

    read = StepInputs(
        drawn(n_runs, n_steps, shape.n_features),
        None,
        drawn(n_runs, shape.n_relations, n_steps, n_steps),
        library(np.array([[True] * 5, [True] * 3 + [False] * 2])),
        library(np.array([[True, True, False, True, True], [True] * 3 + [False] * 2])),
    )
    bags, sentences = (drawn(len(members), n_runs, n_steps, n) for n in (shape.bag_width, shape.sentence_width))

    together = forward(stack_ensemble(members), shape, replace(read, bags=bags, sentences=sentences))

    for place, weights in enumerate(members):
        alone = forward(weights, shape, replace(read, bags=bags[place], sentences=sentences[place]))
        for part in ("pointer", "fault", "modes", "states"):
            one, other = getattr(together, part)[place], getattr(alone, part)
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=tolerance, atol=tolerance)
