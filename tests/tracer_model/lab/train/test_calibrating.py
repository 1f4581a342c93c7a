"""Held-out runs bear out what is stated: temperature, alarms, and how much a step set holds."""

from __future__ import annotations

import numpy as np
import pytest

from blamespan_lab.train.calibrating import (
    BUDGETS,
    Pointed,
    alarm_for,
    alarms_for,
    mass_for,
    temperature_of,
)
from blamespan_lab.train.network.examples import SOUND, UNKNOWN
from blamespan_tracer.numeric import pointer_shares

RNG = np.random.default_rng(0)


def drawn(n_runs: int, *, sharpness: float) -> list[Pointed]:
    """Draw runs whose labels follow the scores, and give the scores *sharpness* times too sharp."""
    runs = []
    for _ in range(n_runs):
        scores = RNG.standard_normal(RNG.integers(3, 12)) * 2
        powers = np.exp(scores)
        place = int(RNG.choice(len(scores), p=powers / powers.sum()))
        runs.append(Pointed(scores * sharpness, SOUND if place == len(scores) - 1 else place))
    return runs


@pytest.mark.parametrize("sharpness", [0.7, 1.0, 2.5])
def test_temperature_undoes_too_sharp_scores(sharpness: float) -> None:
    """Scores that are s times too sharp are divided by s."""
    assert temperature_of(drawn(3_000, sharpness=sharpness)) == pytest.approx(sharpness, rel=0.1)


@pytest.mark.parametrize("budget", [0.0, 1.0, 5.0, 20.0])
def test_alarm_keeps_the_budget(budget: float) -> None:
    """No more sound runs than allowed are called failed."""
    runs = drawn(2_000, sharpness=1.0)

    alarm = alarm_for(runs, 1.0, budget)

    sound = [pointer_shares(run.scores, 1.0)[1] for run in runs if run.decisive == SOUND]
    assert sum(chance >= alarm for chance in sound) <= len(sound) * budget / 100


@pytest.mark.parametrize("coverage", [60.0, 80.0, 90.0])
def test_step_sets_hold_the_decisive_step_as_often_as_stated(coverage: float) -> None:
    """On runs the mass was not chosen on, sets of that mass cover as stated, within the noise of 3,000 runs."""
    mass = mass_for(drawn(3_000, sharpness=1.0), 1.0, coverage)

    held = []
    for run in drawn(3_000, sharpness=1.0):
        if run.decisive >= 0:
            shares, _ = pointer_shares(run.scores, 1.0)
            held.append(shares[shares > shares[run.decisive]].sum() < mass)
    assert 100 * np.mean(held) == pytest.approx(coverage, abs=3)


def test_unlabelled_runs_decide_nothing() -> None:
    """A run whose decisive step nobody knows changes no figure."""
    runs = drawn(200, sharpness=1.0)
    more = [*runs, Pointed(np.array([9.0, -9.0, 0.0]), UNKNOWN)]

    assert temperature_of(more) == temperature_of(runs)
    assert mass_for(more, 1.0, 90.0) == mass_for(runs, 1.0, 90.0)
    assert alarm_for(more, 1.0, 5.0) == alarm_for(runs, 1.0, 5.0)


def test_alarms_keep_every_budget_in_every_part() -> None:
    """Of each part no more sound runs than allowed are called failed; a larger budget has no higher alarm."""
    parts = [drawn(2_000, sharpness=1.0), drawn(2_000, sharpness=1.5)]

    alarms = alarms_for(parts, 1.0)

    assert [percent for percent, _ in alarms] == list(BUDGETS)
    assert [alarm for _, alarm in alarms] == sorted((alarm for _, alarm in alarms), reverse=True)
    for part in parts:
        sound = [pointer_shares(run.scores, 1.0)[1] for run in part if run.decisive == SOUND]
        for percent, alarm in alarms:
            assert sum(chance >= alarm for chance in sound) <= len(sound) * percent / 100


@pytest.mark.parametrize(("n_sound", "least"), [(0, None), (4, None), (5, 20.0), (60, 2.0), (199, 1.0), (200, 0.5)])
def test_budgets_that_too_few_runs_bear_out_are_not_offered(n_sound: int, least: float | None) -> None:
    """Of 60 sound runs none can tell what half a percent is."""
    alarms = alarms_for([[Pointed(np.array([0.0, place / 9]), SOUND) for place in range(n_sound)]], 1.0)

    assert min((percent for percent, _ in alarms), default=None) == least
