"""What the network is taught, loss by loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from blamespan.importing.recorded import RecordedRun
from blamespan_lab.train.network.batches import pad
from blamespan_lab.train.network.examples import NetworkExample, examples_of
from blamespan_lab.train.network.objectives import targets_of
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.model import Scores
from blamespan_tracer.modes import MODES
from tests.tracer_model.alternatives.network.networks import FEATURES, VOCABULARY, random_team

torch = pytest.importorskip("torch")


def _mode_loss(example: NetworkExample, odds: dict[int, float]) -> float:
    """The loss of which mode is said, with these log-odds of modes at the first step."""
    from blamespan_lab.train.network.objectives import supervised_losses

    padded, targets = pad([example.inputs]), targets_of([example])
    steps = padded.agent.shape[1]
    modes = torch.zeros(1, steps, len(MODES))
    for column, value in odds.items():
        modes[0, 0, column] = value
    scores = Scores(torch.zeros(1, steps + 1), torch.zeros(1, steps), modes)
    return float(supervised_losses(scores, targets, padded, sigma=0.4)["mode"])


def _wrong_at_first(*columns: int) -> NetworkExample:
    run = RecordedRun("a", replace(random_team(2), outcome="succeeded"), ())
    example = examples_of([run], LexicalTracer.bundled().lexicon, VOCABULARY, FEATURES)[0]
    modes = np.zeros_like(example.modes)
    modes[0, list(columns)] = 1
    return replace(example, modes=modes)


def test_one_of_the_labelled_modes_is_to_stand_out() -> None:
    """Either of two will do; what counts is how far it stands above the others, not how high."""
    example = _wrong_at_first(3, 5)

    assert _mode_loss(example, {3: 4.0}) < _mode_loss(example, {}) < _mode_loss(example, {7: 4.0})
    assert _mode_loss(example, {3: 4.0}) == pytest.approx(_mode_loss(example, {5: 4.0}))
    assert _mode_loss(example, dict.fromkeys(range(len(MODES)), 4.0)) == pytest.approx(_mode_loss(example, {}))


def test_steps_without_a_mode_teach_none() -> None:
    """Where nothing is wrong there is no mode to say."""
    assert _mode_loss(_wrong_at_first(), {3: 4.0}) == 0
