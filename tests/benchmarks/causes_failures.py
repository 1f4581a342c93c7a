"""Failures of simulated teams that the tests look at, made once."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tests.benchmarks.causes_simulated import SimulatedFailure, simulated_failures

from blamespan_lab.make.corpus.recipe import find_recipe
from blamespan_lab.make.recording import Recording


@cache
def failures() -> tuple[SimulatedFailure, ...]:
    """Six of them: by one fault, by several, by an agent's own mistake."""
    with Recording() as recording:
        return tuple(simulated_failures(replace(find_recipe("small"), seed=5), ["lookup"], 6, recording))
