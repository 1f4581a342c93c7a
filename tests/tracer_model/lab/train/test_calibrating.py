"""Held-out runs bear out what is stated: temperature, alarms, and how much a step set holds."""

from __future__ import annotations

import numpy as np
import pytest

from blamespan_lab.train.calibrating import SOUND, Pointed, alarm_for, mass_for, temperature_of
from blamespan_tracer.numeric import pointer_shares


def drawn(n_runs: int, *, sharpness: float, seed: int = 0) -> list[Pointed]:
    """Draw runs whose labels follow the scores, and give the scores *sharpness* times too sharp."""
    draws = np.random.default_rng(seed)
    runs = []
    for _ in range(n_runs):
        scores = draws.standard_normal(draws.integers(3, 12)) * 2
        powers = np.exp(scores)
        place = int(draws.choice(len(scores), p=powers / powers.sum()))
        runs.append(Pointed(scores * sharpness, SOUND if place == len(scores) - 1 else place))
    return runs


@pytest.mark.parametrize("sharpness", [0.7, 1.0, 2.5])
def test_temperature_undoes_too_sharp_scores(sharpness: float) -> None:
    """Scores that are s times too sharp are divided by s."""
    assert temperature_of(drawn(1_500, sharpness=sharpness)) == pytest.approx(sharpness, rel=0.1)


@pytest.mark.parametrize("budget", [0.0, 1.0, 5.0, 20.0])
def test_alarm_keeps_the_budget(budget: float) -> None:
    """No more sound runs than allowed are called failed."""
    runs = drawn(2_000, sharpness=1.0)

    alarm = alarm_for(runs, 1.0, budget)

    sound = [pointer_shares(run.scores, 1.0)[1] for run in runs if run.decisive == SOUND]
    assert sum(chance >= alarm for chance in sound) <= len(sound) * budget / 100


@pytest.mark.parametrize("coverage", [60.0, 80.0, 90.0])
def test_step_sets_hold_the_decisive_step_as_often_as_stated(coverage: float) -> None:
    """On runs the mass was not chosen on, sets of that mass cover what is stated; whole steps make it a little more."""
    mass = mass_for(drawn(3_000, sharpness=1.0), 1.0, coverage)

    held = []
    for run in drawn(3_000, sharpness=1.0, seed=2):
        if run.decisive >= 0:
            shares, _ = pointer_shares(run.scores, 1.0)
            held.append(shares[shares > shares[run.decisive]].sum() < mass)
    assert coverage - 2 <= 100 * np.mean(held) <= coverage + 6
