"""The encoder: its losses by hand, and a tiny one trained from nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from blamespan_lab.language_model.contrastive.recipe import (
    ContrastiveData,
    ContrastiveRecipe,
    ContrastiveTraining,
    TinyEncoder,
)
from blamespan_tracer.causal.contrastive.model import asymmetric_loss, contrast_loss, hierarchy_loss
from tests.tracer_model.causal.marks import needs_llm
from tests.tracer_model.causal.planted import in_aegis, planted


def test_hierarchy_punishes_pairs_above_their_parts() -> None:
    """A pair may be as likely as its agent and its error; what is more is squared."""
    found = hierarchy_loss(torch.tensor([[0.5, 0.2]]), torch.tensor([0.4]), torch.tensor([[0.9, 0.1]]))

    assert float(found) == pytest.approx((0.1**2 + 0.1**2) / 2)


def test_easy_negatives_hardly_count() -> None:
    """Below the margin nothing, above it by the fourth power; positives as ever."""
    chances = torch.tensor([0.04, 0.55, 0.5])
    found = asymmetric_loss(chances, torch.tensor([0.0, 0.0, 1.0]))

    by_hand = (0.0 - 0.5**4 * torch.log(torch.tensor(0.5)) - torch.log(torch.tensor(0.5))) / 3
    assert float(found) == pytest.approx(float(by_hand), rel=1e-5)


def test_contrast_pulls_to_prototype_and_twin() -> None:
    """The loss is least where a wrong turn lies at its error's prototype and its twin, and others lie elsewhere."""
    east, north = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    modes, twins, anchors = torch.tensor([[1.0, 0.0]]), torch.tensor([2, -1, -1]), torch.tensor([0])
    prototypes = torch.stack([east, north])

    near = contrast_loss(torch.stack([east, north, east]), prototypes, anchors, modes, twins, 0.07)
    far = contrast_loss(torch.stack([north, north, east]), prototypes, anchors, modes, twins, 0.07)

    assert float(near) == pytest.approx(torch.log(torch.tensor(2.0)).item(), abs=1e-4)  # two positives share the mass
    assert far > near + 5
    assert float(contrast_loss(prototypes, prototypes, anchors[:0], modes[:0], twins, 0.07)) == 0.0


@pytest.mark.llm
@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.filterwarnings("ignore")
def test_tiny_encoder_learns_who_erred_and_how(tmp_path: Path) -> None:
    """The loss falls, pairs are found better than by naming everybody, and the saved model gives verdicts."""
    needs_llm()
    from blamespan_lab.language_model.contrastive.labelled_turns import read_labelled_turns
    from blamespan_lab.language_model.contrastive.training import train_contrastive_on
    from blamespan_tracer.causal.contrastive.tracer import ContrastiveTracer

    torch.set_num_threads(1)
    made = ContrastiveRecipe(
        "tiny",
        data=ContrastiveData(aegis=("none",), turn_tokens=12),
        scratch=TinyEncoder(vocabulary=200, width=32, layers=1, heads=2),
        train=ContrastiveTraining(updates=60, batch_runs=32, device_runs=32, learning_rate=3e-3),
    )
    fitted, held = (list(read_labelled_turns(map(in_aegis, planted(n, seed=n)), 48)) for n in (300, 40))

    trained = train_contrastive_on(fitted, held, made, tmp_path)

    assert trained.last_loss < 0.7 * trained.first_loss
    assert trained.held_out.pair > trained.held_out.guess
    tracer, traces = ContrastiveTracer.load(trained.folder), [run.trace for run in planted(6, seed=9)]
    together = tracer.attribute(traces)
    assert together == [tracer.attribute([one])[0] for one in traces]
    assert all(each.abstained is None and each.modes[0].mode.taxonomy == "aegis" for each in together)
