"""How teams are wired: who is in them, who hears whom, and in which framework it can be built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Literal, TypeAlias

from blamespan_lab.simulation.agents.team import Role

__all__ = ["TOPOLOGIES", "Framework", "Needs", "Topology"]

Framework: TypeAlias = Literal["autogen", "langgraph"]


@dataclass(frozen=True, slots=True)
class Needs:
    """What a task asks of a team.

    Attributes:
        looks_up: Whether anything must be found with tools.
        solvers: How many solvers in a row it takes, each as far as its pace allows.
        rng: Chooses how large the team is where that is free.
    """

    looks_up: bool
    solvers: int
    rng: Random


@dataclass(frozen=True, slots=True)
class Topology:
    """A way to wire a team.

    Attributes:
        frameworks: Which can build it.
        roles: Gives the roles of a team, in order.
        closers: Roles whose word ends the run.
        is_relay: Whether each hears only the one before it.
        hands_over: Whether agents pass the word on with a tool.
        is_paced: Whether work comes round again: if not, each agent does all of its part at once.
    """

    frameworks: tuple[Framework, ...]
    roles: Callable[[Needs], list[Role]]
    closers: tuple[Role, ...] = ("reporter",)
    is_relay: bool = False
    hands_over: bool = False
    is_paced: bool = True


def _line(needs: Needs) -> list[Role]:
    return ["planner", *_finders(needs), *["solver" for _ in range(needs.solvers)], "verifier", "reporter"]  # type: ignore[list-item]


def _team(needs: Needs) -> list[Role]:
    return ["planner", *_finders(needs), "solver", "verifier"]


def _reported(needs: Needs) -> list[Role]:
    return [*_team(needs), "reporter"]


def _led(needs: Needs) -> list[Role]:
    more: list[Role] = ["solver"] if needs.rng.random() < 0.4 else []
    return ["orchestrator", *_finders(needs), "solver", *more, "verifier"]


def _selected(needs: Needs) -> list[Role]:
    return ["orchestrator", *_team(needs)]


def _debaters(needs: Needs) -> list[Role]:
    return [*["debater" for _ in range(needs.rng.randint(2, 4))], "judge"]  # type: ignore[list-item]


def _branches(needs: Needs) -> list[Role]:
    """Two or three who work side by side, and one who puts it together."""
    side: Role = "researcher" if needs.looks_up else "solver"
    return ["planner", *[side for _ in range(needs.rng.randint(2, 3))], "solver", "verifier", "reporter"]


def _finders(needs: Needs) -> list[Role]:
    return ["researcher"] if needs.looks_up else []


_BOTH: tuple[Framework, ...] = ("autogen", "langgraph")

TOPOLOGIES: Mapping[str, Topology] = MappingProxyType(
    {
        "chain": Topology(_BOTH, _line),
        "relay": Topology(_BOTH, _line, is_relay=True),
        "round_robin": Topology(_BOTH, _team, closers=("verifier",)),
        "selector": Topology(("autogen",), _selected, closers=("verifier",)),
        "orchestrator": Topology(_BOTH, _led, closers=()),
        "debate": Topology(("langgraph",), _debaters, closers=("judge",), is_paced=False),
        "hierarchy": Topology(_BOTH, _reported, closers=("verifier", "reporter")),
        "swarm": Topology(_BOTH, _reported, hands_over=True),
        "parallel": Topology(_BOTH, _branches, closers=("verifier", "reporter")),
    }
)
"""Every topology by its name."""
