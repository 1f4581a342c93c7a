"""The network as a tracer: exact, bounded, and silent where it has nothing to say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from blamespan.errors import TracerUnavailable
from blamespan.trace import Agent, MessageActionTrace, Step
from blamespan.tracers import ask_tracer
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.network.inputs import WINDOW, read_inputs
from blamespan_tracer.alternatives.network.tracer import BUNDLED, NetworkTracer
from blamespan_tracer.alternatives.network.weights import Network, round_weights
from blamespan_tracer.weights_file import format_of
from tests.tracer_model.alternatives.network.networks import (
    FEATURES,
    VOCABULARY,
    drawn_network,
    random_team,
    tracer_with,
)
from tests.tracer_model.teams import team


def test_batch_changes_no_verdict() -> None:
    """The same run gives the same verdict to the last bit, alone, in any company and in any order."""
    runs = [random_team(seed, 3 + seed) for seed in range(7)]
    tracer = tracer_with()

    together, backwards = tracer.attribute(runs), tracer.attribute(runs[::-1])

    assert together == backwards[::-1] == [tracer.attribute([run])[0] for run in runs]


def test_blame_adds_up_and_lands_on_decisions() -> None:
    """Shares add up to one; what a tool or user said has none."""
    run = team(("user", "How much is it?"), ("A", "It is 3."), ("B", "Then it is 4, not 3."), ("A", "So 4."))
    run = replace(run, agents=tuple(replace(a, role="user" if a.name == "user" else "agent") for a in run.agents))

    verdict = tracer_with().attribute([run])[0]

    assert sum(step.score for step in verdict.steps) == pytest.approx(1)
    assert verdict.steps[0].score == 0
    assert verdict.modes
    assert {blame.agent for blame in verdict.modes} == {verdict.agents[0].agent}


@pytest.mark.parametrize(
    "run",
    [
        team(),
        team(("A", "")),
        team(("A", "\x00\ud800‮"), ("B", "漢字 " * 50)),
        team(("A", "x" * 1_000_000), ("B", "1" * 1_000_000)),
        MessageActionTrace(
            "1" * 32, "", tuple(Step(i, f"{i + 1:016x}", "A", content="again") for i in range(40)), (Agent("A"),)
        ),
    ],
    ids=["no step", "no text", "odd text", "long texts", "one agent"],
)
def test_odd_runs_are_judged_or_passed_over(run: MessageActionTrace) -> None:
    """Whatever a run is like, there is one verdict or one reason for none."""
    verdict = tracer_with().attribute([run])[0]

    assert (verdict.abstained is None) == (verdict.decisive_step is not None)
    assert np.isfinite(verdict.failure_score)


def test_long_runs_are_read_in_parts() -> None:
    """Attention stays within a window, so that time stays linear; the shares are still of the whole run."""
    run = random_team(5, WINDOW * 2 + 100)

    verdict = tracer_with().attribute([run])[0]

    assert sum(step.score for step in verdict.steps) == pytest.approx(1)
    assert any(step.score for step in verdict.steps[-50:])


def test_run_below_the_alarm_is_not_called_failed_unless_it_is_known_to_have_failed() -> None:
    """Suspects are named with no more than a half; who asks for a budget of false alarms gets no verdict."""
    run = random_team(3)
    failed = replace(run, outcome="failed")

    named = tracer_with(alarm=1.1).attribute([run])[0]
    passed_over, judged = tracer_with(alarm=1.1, abstains=True).attribute([run, failed])

    assert named.abstained is None
    assert named.failure_score < 0.5
    assert "probably sound" in (passed_over.abstained or "")
    assert judged.abstained is None


def test_failure_score_is_a_half_at_the_alarm() -> None:
    """The same run crosses a half where the alarm crosses its chance of failure, and its score falls as alarms rise."""
    run = random_team(3)
    chance = (
        tracer_with()
        .predict(read_inputs([run], LexicalTracer.bundled().lexicon, VOCABULARY, FEATURES))[0]
        .failure_probability
    )

    scores = [tracer_with(alarm=alarm).attribute([run])[0].failure_score for alarm in (0.0, chance, chance + 1e-6, 1.0)]
    assert scores == sorted(scores, reverse=True)
    assert scores[1] == 0.5
    assert scores[2] < 0.5
    assert scores[0] > 0.5


@pytest.mark.parametrize("seed", range(4))
def test_score_without_the_outcome_is_that_of_the_run_of_unknown_end(seed: int) -> None:
    """Told how a run ended, the verdict says so; beside it stands what it would have said, to the bit."""
    run = random_team(seed)
    unknown, failed, succeeded = ask_tracer(
        tracer_with(alarm=0.9), [run, replace(run, outcome="failed"), replace(run, outcome="succeeded")]
    )

    assert failed.unaided_score == succeeded.unaided_score == unknown.unaided_score == unknown.failure_score
    assert (failed.failure_score, succeeded.failure_score) == (1.0, 0.0)


def test_weights_come_back_as_they_were(tmp_path: Path) -> None:
    """A saved network gives the verdicts of the one that was saved."""
    network = drawn_network()
    digest = network.save(tmp_path / "n.safetensors")

    loaded = Network.load(tmp_path / "n.safetensors")
    verdicts = NetworkTracer(loaded, LexicalTracer.bundled().lexicon).attribute([random_team(2)])

    assert loaded.digest == digest
    assert format_of(tmp_path / "n.safetensors").startswith("blamespan-network-")
    assert [step.score for step in verdicts[0].steps] == [
        step.score for step in tracer_with().attribute([random_team(2)])[0].steps
    ]


def test_rounding_weights_again_changes_nothing() -> None:
    """What is measured in training is what a file holds, to the last bit; a word of zeros stays one."""
    weights = dict(drawn_network().weights)
    weights["embedding"] = weights["embedding"].copy()
    weights["embedding"][3] = 0

    rounded = round_weights(weights)

    assert all(np.array_equal(rounded[name], weights[name]) for name in weights)


def test_bundled_weights_are_small() -> None:
    """One network fits into four megabytes."""
    assert BUNDLED.stat().st_size <= 4_000_000
    assert NetworkTracer.bundled().network.shape.n_words > 30_000


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    """A verdict out of NaN would look like one."""
    network = drawn_network()
    broken = replace(network, weights={**network.weights, "input.bias": network.weights["input.bias"] * np.nan})
    broken.save(tmp_path / "n.safetensors")

    with pytest.raises(TracerUnavailable, match="no numbers"):
        Network.load(tmp_path / "n.safetensors")


@pytest.mark.parametrize("content", [b"", b"{}", b"\x08" + bytes(7) + b"{}......", None])
def test_files_that_are_no_network_are_refused(tmp_path: Path, content: bytes | None) -> None:
    """Missing, cut or foreign: the message says what was expected."""
    path = tmp_path / "n.safetensors"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(TracerUnavailable, match="expected a network"):
        Network.load(path)
    assert format_of(path) == ""


def test_network_for_another_lexicon_is_refused() -> None:
    """Scores of other words would be read as these."""
    with pytest.raises(TracerUnavailable, match="Train it again"):
        NetworkTracer(replace(drawn_network(), lexicon="000000000000"), LexicalTracer.bundled().lexicon)


def test_evidence_is_quoted_from_the_blamed_steps() -> None:
    """What is shown stands there word for word; what breaks a check comes first."""
    run = team(
        ("A", "We need the total. The sum is 12 + 30 = 43. Then we are done."),
        ("B", "Fine. The total is 43. I will pass it on."),
        ("A", "Thank you. That ends it."),
    )

    verdict = tracer_with().attribute([run])[0]

    assert verdict.evidence
    assert all(item.quote and item.quote in run.steps[item.index].content for item in verdict.evidence)
    assert [item.quote for item in verdict.evidence if item.index == 0] == ["12 + 30 = 43"]
