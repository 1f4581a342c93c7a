"""How teams are wired: who is in them, who reads whose messages, and in which framework it can be built."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Literal, TypeAlias

from blamespan_lab.make.simulation.agents.team import Role

__all__ = ["TOPOLOGIES", "Framework", "TeamNeeds", "Topology"]

Framework: TypeAlias = Literal["autogen", "langgraph"]


@dataclass(frozen=True, slots=True)
class TeamNeeds:
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
        roles: Lists the roles of a team, in order.
        closers: Roles whose word ends the run.
        is_relay: Whether each reads only the message before its own.
        hands_over: Whether agents pass the word on with a tool.
        is_paced: Whether work comes round again: if not, each agent does all of its part at once.
    """

    frameworks: tuple[Framework, ...]
    roles: Callable[[TeamNeeds], list[Role]]
    closers: tuple[Role, ...] = ("reporter",)
    is_relay: bool = False
    hands_over: bool = False
    is_paced: bool = True


def _list_line(needs: TeamNeeds) -> list[Role]:
    return ["planner", *_list_researchers(needs), *["solver" for _ in range(needs.solvers)], "verifier", "reporter"]  # type: ignore[list-item]


def _list_team(needs: TeamNeeds) -> list[Role]:
    return ["planner", *_list_researchers(needs), "solver", "verifier"]


def _list_reported(needs: TeamNeeds) -> list[Role]:
    return [*_list_team(needs), "reporter"]


def _list_orchestrated(needs: TeamNeeds) -> list[Role]:
    more: list[Role] = ["solver"] if needs.rng.random() < 0.4 else []
    return ["orchestrator", *_list_researchers(needs), "solver", *more, "verifier"]


def _list_selected(needs: TeamNeeds) -> list[Role]:
    return ["orchestrator", *_list_team(needs)]


def _list_debate(needs: TeamNeeds) -> list[Role]:
    return [*["debater" for _ in range(needs.rng.randint(2, 4))], "judge"]  # type: ignore[list-item]


def _list_branches(needs: TeamNeeds) -> list[Role]:
    """Two or three who work side by side, and one who puts it together."""
    side: Role = "researcher" if needs.looks_up else "solver"
    return ["planner", *[side for _ in range(needs.rng.randint(2, 3))], "solver", "verifier", "reporter"]


def _list_researchers(needs: TeamNeeds) -> list[Role]:
    return ["researcher"] if needs.looks_up else []


_BOTH: tuple[Framework, ...] = ("autogen", "langgraph")

TOPOLOGIES: Mapping[str, Topology] = MappingProxyType(
    {
        "chain": Topology(_BOTH, _list_line),
        "relay": Topology(_BOTH, _list_line, is_relay=True),
        "round_robin": Topology(_BOTH, _list_team, closers=("verifier",)),
        "selector": Topology(("autogen",), _list_selected, closers=("verifier",)),
        "orchestrator": Topology(_BOTH, _list_orchestrated, closers=()),
        "debate": Topology(("langgraph",), _list_debate, closers=("judge",), is_paced=False),
        "hierarchy": Topology(_BOTH, _list_reported, closers=("verifier", "reporter")),
        "swarm": Topology(_BOTH, _list_reported, hands_over=True),
        "parallel": Topology(_BOTH, _list_branches, closers=("verifier", "reporter")),
    }
)
"""Every topology by its name."""
