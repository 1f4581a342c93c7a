"""From scores to probabilities that held-out runs bear out: temperature, alarm, and step sets of stated coverage.

Dims: N merged steps of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from blamespan_tracer.numeric import pointer_shares

SOUND = -1
"""Stands for the decisive step of a run that did not fail."""

Floats = NDArray[np.float64]

_MORE = 1e-6
"""Lifts the mass over a sum that it must exceed, well above rounding."""

_TEMPERATURES = (0.5, 4.0)
"""Between these a temperature is looked for."""


@dataclass(frozen=True, slots=True)
class Pointed:
    """A held-out run's pointer scores, and what they should have said.

    Attributes:
        scores: (N + 1,) the last for "it did not fail"; very negative where nobody can be blamed.
        decisive: The merged step, or `SOUND`.
    """

    scores: Floats
    decisive: int


def blamed(agents: NDArray[np.int64], shares: NDArray[Any]) -> tuple[int, int]:
    """Name the most blamed agent, and the most blamed of its steps.

    Args:
        agents: (N,) whose step each is.
        shares: (N,) of the blame.
    """
    agent = int(np.bincount(agents, shares).argmax())
    return agent, int(np.where(agents == agent, shares, -1).argmax())


def mass_ahead(shares: Floats, step: int) -> float:
    """Add up the (N,) shares of the steps that are blamed more than the one at *place*."""
    return float(shares[shares > shares[step]].sum())


def temperature_of(runs: Sequence[Pointed]) -> float:
    """Find the temperature under which the labels are likeliest.

    Source: Guo et al., "On calibration of modern neural networks", 2017 (arXiv 1706.04599).
    """

    def loss(temperature: float) -> float:
        return -sum(float(log_softmax(run.scores / temperature)[run.decisive]) for run in runs)  # SOUND is the last

    if not runs:
        return 1.0
    return float(minimize_scalar(loss, bounds=_TEMPERATURES, method="bounded").x)


def alarm_for(runs: Sequence[Pointed], temperature: float, max_false_alarms: float) -> float:
    """Find the lowest chance of failure from which on at most *max_false_alarms* percent of the sound runs lie."""
    sound = np.sort([pointer_shares(run.scores, temperature)[1] for run in runs if run.decisive == SOUND])
    if not len(sound):
        return 0.5
    allowed = int(len(sound) * max_false_alarms / 100)
    return float(np.nextafter(sound[len(sound) - 1 - allowed], 1.0))


def mass_for(runs: Sequence[Pointed], temperature: float, coverage: float) -> float:
    """Find which share of the blame a step set must hold to hold the decisive step of *coverage* percent of the runs.

    A set takes the most blamed steps until their shares reach the mass: it holds a step if those ahead of it do not.

    Source: adaptive prediction sets, without randomisation (arXiv 2006.02544, section 2).
    """
    failed = [run for run in runs if run.decisive >= 0]
    return mass_holding(
        [mass_ahead(pointer_shares(run.scores, temperature)[0], run.decisive) for run in failed], coverage
    )


def mass_holding(ahead: Sequence[float], coverage: float) -> float:
    """Find the mass of `mass_for` from what lies ahead of the decisive step of each failure."""
    if not ahead:
        return 1.0
    rank = min(int(np.ceil((len(ahead) + 1) * coverage / 100)), len(ahead)) - 1
    return min(float(np.sort(ahead)[rank]) + _MORE, 1.0)
