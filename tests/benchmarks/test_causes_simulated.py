"""Simulated failures: what the twin says mends them where they broke, and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from tests.benchmarks.causes_failures import failures
from tests.benchmarks.causes_simulated import SimulatedFailure, SimulatedTrials, TwinCorrections

from blamespan_lab.make.recording import Recording
from blamespan_lab.rerun.causes.corrections import NoCorrection
from blamespan_lab.rerun.causes.shapley import Coalition, shapley


def _decisive(failure: SimulatedFailure) -> int:
    assert failure.label.decisive is not None
    return failure.label.decisive.step


def test_run_with_its_decisive_step_put_right_succeeds() -> None:
    """That is what the label says, by another way; without any step put right it fails as it did."""
    with Recording() as recording:
        mended = [failure.put_right({_decisive(failure)}, recording).succeeded for failure in failures()]
        as_it_was = [failure.put_right(set(), recording).final_text for failure in failures()]

    assert mended == [True] * len(failures())
    assert as_it_was == [failure.outcome.final_text for failure in failures()]


def test_agents_put_right_together_succeed_and_nobody_put_right_fails() -> None:
    """A coalition of all agents has no fault left."""
    with Recording() as recording:
        for failure in failures():
            everybody = {agent.name for agent in failure.trace.agents}

            assert failure.put_agents_right(everybody, recording).succeeded
            assert not failure.put_agents_right(set(), recording).succeeded


def test_twin_corrects_the_decisive_step_and_leaves_sound_ones() -> None:
    """Its words differ where something went wrong; what it says the same is returned as it stands."""
    for failure in failures():
        correct = TwinCorrections(failure)
        same = 0
        for step in failure.trace.steps[: _decisive(failure)]:
            try:
                same += correct.write(step.index).text == step.content
            except NoCorrection:
                continue

        assert correct.write(_decisive(failure)).text != failure.trace.steps[_decisive(failure)].content
        assert same > 0 or _decisive(failure) < 2


def test_trial_without_a_change_is_the_recorded_run() -> None:
    """A step that says what it said costs nothing and ends as it did."""
    failure = failures()[0]
    with Recording() as recording:
        trials = SimulatedTrials(failure, recording)
        step = _decisive(failure)
        unchanged = trials.run([TwinCorrections(failure).write(step)], 100), trials.original()

    assert unchanged[0].ran.succeeded
    assert unchanged[1].ran.succeeded is False


@pytest.mark.parametrize("number", range(6))
def test_label_and_trace_speak_of_the_same_step(number: int) -> None:
    """Recorded once more, a failure has its decisive step at the same place."""
    failure = failures()[number]

    assert failure.trace.steps[_decisive(failure)].agent == failure.label.decisive.agent  # type: ignore[union-attr]


@pytest.mark.slow
def test_culprit_of_a_simulated_failure_has_the_largest_share() -> None:
    """Of failures by one fault: who made it, by running every coalition."""
    with Recording() as recording:
        for failure in failures():
            if failure.label.purpose != "faulty":
                continue
            members = [agent.name for agent in failure.trace.agents if agent.role == "agent"]
            worth = partial(_worth, failure, recording)
            shares = shapley(members, worth, pairs=6).shares

            assert failure.label.decisive is not None
            assert max(shares, key=lambda name: shares[name]) == failure.label.decisive.agent
            assert sum(shares.values()) == pytest.approx(1)


def _worth(failure: SimulatedFailure, recording: Recording, coalitions: Sequence[Coalition]) -> list[float]:
    return [float(failure.put_agents_right(coalition, recording).succeeded) for coalition in coalitions]
