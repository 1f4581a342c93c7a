"""Runs whose agents, or whose outcome alone, are known teach the network, too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan_lab.train.network.batches import pad
from blamespan_lab.train.network.examples import SOMEWHERE, SOUND, UNKNOWN, examples_of
from blamespan_lab.train.network.objectives import supervised_losses, targets_of
from blamespan_lab.train.network.training_data import agent_examples
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.model import Scores
from tests.tracer_model.alternatives.network.networks import FEATURES, VOCABULARY, random_team
from tests.tracer_model.lab.train.lexical.test_lexical import write_aegis

LEXICON = LexicalTracer.bundled().lexicon


def test_every_run_is_read_by_a_lexicon_that_has_not_seen_it(tmp_path: Path) -> None:
    """Whatever is drawn of them, no step is known to be decisive, and the agents at fault are."""
    path = tmp_path / "aegis" / "train.jsonl"
    write_aegis(path, 60)

    every = agent_examples(path, LEXICON, VOCABULARY, most=0, penalty=0.1, seed=0)
    some = agent_examples(path, LEXICON, VOCABULARY, most=10, penalty=0.1, seed=0)

    assert len(every) == 60
    assert len(some) == 10
    assert all(each.decisive == UNKNOWN and each.culprits for each in every)
    by_id = {each.trace_id: each for each in every}
    assert all(np.array_equal(each.inputs.features, by_id[each.trace_id].inputs.features) for each in some)


def test_missing_file_is_named(tmp_path: Path) -> None:
    """A recipe may ask for a file that is not there."""
    with pytest.raises(ConfigError, match=r"none\.jsonl"):
        agent_examples(tmp_path / "none.jsonl", LEXICON, VOCABULARY, most=0, penalty=0.1, seed=0)


def test_runs_of_known_outcome_need_no_labels() -> None:
    """One that succeeded is sound; of one that failed the pointer learns that it was some step; others are left out."""
    runs = [
        RecordedRun("a:1", replace(random_team(1), outcome="succeeded"), ()),
        RecordedRun("a:2", replace(random_team(2), outcome="failed"), None),
        RecordedRun("a:3", random_team(3), None),
    ]

    sound, failed = examples_of(runs, LEXICON, VOCABULARY, FEATURES)

    assert (sound.decisive, failed.decisive) == (SOUND, SOMEWHERE)
    assert np.isnan(failed.fault).all()
    assert targets_of([sound, failed]).somewhere.tolist() == [False, True]


def test_failure_without_labels_pulls_the_pointer_to_the_steps() -> None:
    """The loss of a run that failed falls as mass moves from "it did not fail" to whichever step."""
    import torch

    examples = examples_of(
        [RecordedRun("a", replace(random_team(2), outcome="failed"), None)], LEXICON, VOCABULARY, FEATURES
    )
    padded, targets = pad([examples[0].inputs]), targets_of(examples)
    steps = padded.agent.shape[1]

    def loss(sound: float) -> float:
        pointer = torch.zeros(1, steps + 1)
        pointer[0, -1] = sound
        scores = Scores(pointer, torch.zeros(1, steps), torch.zeros(1, steps, targets.modes.shape[2]))
        return float(supervised_losses(scores, targets, padded, sigma=0.4)["agent"])

    assert loss(-3.0) < loss(0.0) < loss(3.0)
