"""Tuning on people's labels: what they agree on, measured on labels not seen, and nothing without enough of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from blamespan.attribution import TracerIdentity
from blamespan.errors import ConfigError, TracerUnavailable
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.labels.people import DecisiveStep, PersonLabel
from blamespan.taxonomy import mode
from blamespan_lab.network import tuning
from blamespan_lab.network.tuning import agreed_run, tune
from blamespan_tracer.lexical import LexicalTracer
from blamespan_tracer.network.tracer import NetworkTracer
from tests.tracer_model.network.networks import drawn_network
from tests.tracer_model.representation.teams import team

LEXICON = LexicalTracer.bundled().lexicon


def run(seed: int) -> RecordedRun:
    """A run of one of 12 tasks in which somebody guesses, and that decides it."""
    rng = Random(seed)
    said = [(agent, f"The {rng.choice('abcdefgh')} part holds {rng.randrange(90)} units.") for agent in "ABCABC"]
    wrong = rng.randrange(6)
    said[wrong] = (said[wrong][0], "I will just guess a figure instead of looking, probably around seven.")
    made = team(*said, task=f"Count the units of store {seed % 12}.")
    fault = Fault(said[wrong][0], mode("mast:FM-3.2"), wrong)
    return RecordedRun(f"x:{seed}", replace(made, trace_id=f"{seed + 1:032x}", outcome="failed"), (fault,))


def label(step: int | None, by: str = "p", **changes: object) -> PersonLabel:
    decisive = None if step is None else DecisiveStep("ABCABC"[step], step, "", ("mast:FM-3.2",))
    answer = "no_failure" if step is None else "corrects"
    return PersonLabel(f"{1:032x}", answer, by, decisive=decisive, **changes)  # type: ignore[arg-type]


def test_people_agree_on_a_fault_or_there_is_none_to_learn() -> None:
    """Most people decide; a tie, and a step that the run does not have, teach nothing."""
    bare = replace(run(0), faults=None)

    most = agreed_run(bare, [label(2), label(2, "q"), label(3, "r")])
    assert most is not None
    assert most.faults == (Fault("C", mode("mast:FM-3.2"), 2),)
    assert agreed_run(bare, [label(2), label(3, "q")]) is None
    assert agreed_run(bare, [replace(label(2), answer="unsure", decisive=None)]) is None
    sound = agreed_run(bare, [label(None)])
    assert sound is not None
    assert sound.faults == ()


def test_tuning_finds_what_people_mean_on_runs_it_has_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network that knows nothing learns from labels, and the figures after are of labels it was not tuned on."""
    monkeypatch.setattr(tuning, "_RATE", 5e-3)  # it has nothing to lose
    monkeypatch.setattr(tuning, "_FOLDS", 2)

    tuned = tune(drawn_network(), [run(seed) for seed in range(60)], LEXICON)
    assert tuned.failures == 60
    assert tuned.after >= tuned.before + 30
    assert tuned.mended > tuned.broken
    assert tuned.network.notes["labels"] == "60"


def test_same_labels_give_the_same_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuning twice is bitwise the same."""
    monkeypatch.setattr(tuning, "_FOLDS", 2)
    monkeypatch.setattr(tuning, "_PASSES", 1)
    runs = [run(seed) for seed in range(30)]

    one, other = (tune(drawn_network(), runs, LEXICON).network.ensemble for _ in range(2))
    assert all((mine[name] == yours[name]).all() for mine, yours in zip(one, other, strict=True) for name in mine)


def test_too_few_labels_are_refused() -> None:
    """Below thirty failures nothing is tuned, and it is said what to do."""
    with pytest.raises(ConfigError, match=r"at least 30 labelled failures.*got 29.*blamespan annotate"):
        tune(drawn_network(), [run(seed) for seed in range(29)], LEXICON)


def test_labels_of_one_task_are_refused() -> None:
    """What cannot be held out cannot be measured."""
    one = [replace(run(seed), trace=replace(run(seed).trace, task="the same")) for seed in range(31)]

    with pytest.raises(ConfigError, match="got one task"):
        tune(drawn_network(), one, LEXICON)


def test_weights_in_use_are_those_the_variable_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`BLAMESPAN_NETWORK_WEIGHTS` replaces the bundled weights, and the verdicts say which spoke."""
    path = tmp_path / "tuned.safetensors"
    digest = drawn_network().save(path)
    monkeypatch.setenv("BLAMESPAN_NETWORK_WEIGHTS", str(path))

    found: TracerIdentity = NetworkTracer.in_use().identity
    assert found.weights == digest
    monkeypatch.setenv("BLAMESPAN_NETWORK_WEIGHTS", str(tmp_path / "none"))
    with pytest.raises(TracerUnavailable, match="expected a network in"):
        NetworkTracer.in_use()
