"""Examined programs that the tests look at: every family, topology and framework, and faults of every mechanism."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from random import Random

from blamespan.intercepting.boundaries import Mechanism, PlannedFault
from blamespan_lab.make.counterfactual import CounterfactualResult, examine
from blamespan_lab.make.recording import Recording
from blamespan_lab.make.simulation.program import Program
from blamespan_lab.make.simulation.tasks import FAMILIES
from blamespan_lab.make.simulation.topologies import TOPOLOGIES

_HARMFUL: Sequence[tuple[str, Mechanism, str | None]] = (
    ("blamespan:X3", "response", "change-number"),
    ("aegis:FM-1.1", "response", "change-number"),
    ("aegis:FM-3.1", "response", None),
    ("mas-fire:hallucination", "response", "swap-name"),
    ("mas-fire:parameter-filling-error", "response", None),
    ("mas-fire:tool-selection-error", "response", None),
    ("blamespan:X4", "tool", None),
    ("aegis:FM-1.4", "memory", None),
    ("blamespan:X6", "routing", "lose-message"),
    ("mas-fire:message-cycle", "routing", None),
)
"""Kinds of faults that make a run fail now and then."""


def programs() -> Iterator[Program]:
    """One program for each family, topology and framework that there is."""
    for family in FAMILIES:
        for name, topology in TOPOLOGIES.items():
            for framework in topology.frameworks:
                yield Program(family, name, framework, cast="people", seed=len(family) * 31 + len(name), care=0.3)


@cache
def examined() -> tuple[tuple[Program, tuple[PlannedFault, ...], CounterfactualResult], ...]:
    """Examine all of them, each with a fault; made once for all tests."""
    rng = Random(11)
    found = []
    with Recording() as recording:
        for number, program in enumerate(programs()):
            kind, mechanism, operator = _HARMFUL[number % len(_HARMFUL)]
            faults = (PlannedFault(kind, step=rng.randrange(5), mechanism=mechanism, operator=operator),)
            found.append((program, faults, examine(program, faults, seed=number, recording=recording)))
    return tuple(found)


@cache
def natural() -> tuple[tuple[Program, CounterfactualResult], ...]:
    """Examine a third of them as they are, with agents that err often; made once for all tests."""
    found = []
    with Recording() as recording:
        for program in list(programs())[::3]:
            clumsy = replace(program, mistakes=0.06, care=0.2)
            found.append((clumsy, examine(clumsy, seed=0, recording=recording)))
    return tuple(found)
