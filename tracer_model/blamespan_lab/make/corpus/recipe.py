"""A corpus recipe: which runs are made, and how many. One frozen record and a TOML file of the same names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import Literal, get_args

from blamespan.errors import ConfigError
from blamespan.intercepting.boundaries import Mechanism
from blamespan_lab.make import RECIPES
from blamespan_lab.make.faults.catalogue import BY_MODEL, KINDS, FaultKind
from blamespan_lab.make.simulation.agents.team import CASTS
from blamespan_lab.make.simulation.tasks import FAMILIES
from blamespan_lab.make.simulation.topologies import TOPOLOGIES, Framework
from blamespan_lab.make.wordings.choosing import WORDINGS
from blamespan_lab.recipes import Count, Listed, Number, PositiveCount, read_recipe, require_known

__all__ = [
    "Agents",
    "Balance",
    "CorpusRecipe",
    "HeldOutParts",
    "InjectedFaults",
    "Shares",
    "Teams",
    "find_recipe",
]

_MECHANISMS: tuple[str, ...] = get_args(Mechanism)
_FRAMEWORKS: tuple[Framework, ...] = ("autogen", "langgraph")


@dataclass(frozen=True, slots=True)
class Shares:
    """What part of the runs is what, in percent; together 100.

    Attributes:
        clean: Succeeded, nothing put in; the twins of failures first.
        faulty: Failed by one fault that was put in.
        harmless: Succeeded in spite of a fault.
        natural: Failed by an agent's own mistake.
        several: Failed with more than one fault in it.
    """

    clean: Count = 30
    faulty: Count = 40
    harmless: Count = 12
    natural: Count = 12
    several: Count = 6


@dataclass(frozen=True, slots=True)
class Teams:
    """Who works on what. A list that is left out means all there are.

    Attributes:
        families: Of tasks.
        topologies: Of teams; each is run in every one of *frameworks* that can build it.
        frameworks: That run them.
        casts: Kinds of names that the agents have.
        wordings: What the agents' and the operators' words are taken from: `all`, or one `first` or `second` half, so
            that a corpus can be held out by its words too.
    """

    families: Listed[str] = tuple(FAMILIES)
    topologies: Listed[str] = tuple(TOPOLOGIES)
    frameworks: Listed[str] = _FRAMEWORKS
    casts: Listed[str] = CASTS
    wordings: str = "all"


@dataclass(frozen=True, slots=True)
class Agents:
    """How agents work. Of each list one is drawn for each run.

    Attributes:
        mistakes: Probability of each natural mistake at each chance, in runs meant to fail by themselves.
        background: The same in runs that a fault is put into: what they get wrong is noticed or does no harm.
        care: Probability that who checks looks at a statement again.
        sizes: How many facts deep a task is, 3 to 12.
        paces: Most facts that one message settles.
    """

    mistakes: Listed[Number] = (0.02, 0.05, 0.1)
    background: Listed[Number] = (0.0, 0.02)
    care: Listed[Number] = (0.2, 0.5, 0.8)
    sizes: Listed[PositiveCount] = (3, 3, 4, 5, 6, 7, 8, 9, 10, 12)
    paces: Listed[PositiveCount] = (1, 1, 2, 2, 3, 4, 6)


@dataclass(frozen=True, slots=True)
class InjectedFaults:
    """What is put in. A list that is left out means all there are.

    Attributes:
        kinds: Names in the catalogue.
        mechanisms: Where faults are written.
        operators: What writes them.
        several: How many there are in a run with more than one; one is drawn for each.
        writer: `operators`, or `model`: an LLM behind the endpoint of `BLAMESPAN_MANIPULATOR_URL`.
    """

    kinds: Listed[str] = tuple(KINDS)
    mechanisms: Listed[str] = _MECHANISMS
    operators: Listed[str] = tuple(
        sorted({name for kind in KINDS.values() for names in kind.writers.values() for name in names})
    )
    several: Listed[PositiveCount] = (2, 3)
    writer: str = "operators"

    def ways(self) -> list[tuple[FaultKind, Mechanism, str]]:
        """List every kind, mechanism and operator that may be put in, in the order of the catalogue."""
        return [
            (KINDS[name], mechanism, operator)
            for name in KINDS
            if name in self.kinds
            for mechanism, operators in KINDS[name].writers.items()
            if mechanism in self.mechanisms and (self.writer != "model" or mechanism in BY_MODEL)
            for operator in operators
            if operator in self.operators
        ]


@dataclass(frozen=True, slots=True)
class Balance:
    """How hard it is tried to make nothing but the text tell which step was decisive.

    Attributes:
        surplus_percent: Candidates made for each failure that is kept, over and above: the more, the better the choice.
        attempts: Most runs tried for each one wanted; what is not found by then is left out and counted.
        twins_percent: Share of the failures whose clean twin is kept, as far as *shares.clean* goes.
        places: Parts of a run, from its first to its last step, that get equally many decisive steps.
        block: Runs made together, and kept when work is interrupted.
    """

    surplus_percent: Count = 50
    attempts: PositiveCount = 16
    twins_percent: Count = 100
    places: PositiveCount = 5
    block: PositiveCount = 60


@dataclass(frozen=True, slots=True)
class HeldOutParts:
    """What training must not see: runs of these are made, and told apart by the reader.

    Attributes:
        percent: Of the questions, for every choice made in training; a failure and its twin share one.
        families: Of tasks.
        topologies: Of teams.
    """

    percent: Count = 10
    families: Listed[str] = ()
    topologies: Listed[str] = ()


@dataclass(frozen=True, slots=True)
class CorpusRecipe:
    """Everything that decides what a corpus holds, to the byte.

    Attributes:
        name: The file's name; in every label.
        kind: `runs`: tells these recipes from those of edits and conflicts.
        runs: How many.
        seed: Chooses tasks, teams, faults and every draw of every agent.
        shares: What part of the runs is what.
        teams: Who works on what.
        agents: How they work.
        faults: What is put in.
        balance: How hard it is tried to give nothing away.
        held_out: What training must not see.

    Raises:
        ConfigError: if a name is unknown, the nearest is named; or a number is out of its range.
    """

    name: str
    kind: Literal["runs"] = "runs"
    runs: PositiveCount = 5_000
    seed: Count = 0
    shares: Shares = field(default_factory=Shares)
    teams: Teams = field(default_factory=Teams)
    agents: Agents = field(default_factory=Agents)
    faults: InjectedFaults = field(default_factory=InjectedFaults)
    balance: Balance = field(default_factory=Balance)
    held_out: HeldOutParts = field(default_factory=HeldOutParts)

    def __post_init__(self) -> None:
        self._check_names()
        self._check_numbers()
        buildable = [name for name in self.teams.topologies if _frameworks(name, self.teams.frameworks)]
        for name in self.teams.topologies:
            if name not in buildable:
                self._refuse(
                    "teams.frameworks",
                    f"one that can build {name!r}: {' or '.join(TOPOLOGIES[name].frameworks)}",
                    self.teams.frameworks,
                )
        if not self.faults.ways():
            self._refuse("faults", "kinds, mechanisms and operators that some fault has together", asdict(self.faults))

    @property
    def digest(self) -> str:
        """Hash what it says: two recipes with one digest make the same corpus."""
        return sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def cells(self) -> list[tuple[str, str, Framework]]:
        """List every family, topology and framework that go together."""
        return [
            (family, topology, framework)
            for family in self.teams.families
            for topology in self.teams.topologies
            for framework in _frameworks(topology, self.teams.frameworks)
        ]

    def _check_names(self) -> None:
        for key, names, choices in (
            ("teams.families", self.teams.families, FAMILIES),
            ("teams.topologies", self.teams.topologies, TOPOLOGIES),
            ("teams.frameworks", self.teams.frameworks, _FRAMEWORKS),
            ("teams.casts", self.teams.casts, CASTS),
            ("teams.wordings", (self.teams.wordings,), WORDINGS),
            ("faults.kinds", self.faults.kinds, KINDS),
            ("faults.mechanisms", self.faults.mechanisms, _MECHANISMS),
            ("faults.operators", self.faults.operators, InjectedFaults().operators),
            ("faults.writer", (self.faults.writer,), ("operators", "model")),
            ("held_out.families", self.held_out.families, FAMILIES),
            ("held_out.topologies", self.held_out.topologies, TOPOLOGIES),
        ):
            require_known(self.name, key, names, list(choices))

    def _check_numbers(self) -> None:
        shares = asdict(self.shares)
        if sum(shares.values()) != 100:
            self._refuse("shares", "shares of 100 % together", shares)
        for key, rates in (
            ("agents.mistakes", self.agents.mistakes),
            ("agents.background", self.agents.background),
            ("agents.care", self.agents.care),
        ):
            if max(rates) > 1:
                self._refuse(key, "probabilities from 0 to 1", rates)
        if self.shares.natural and not max(self.agents.mistakes):
            self._refuse("agents.mistakes", "one above 0, or shares.natural = 0", self.agents.mistakes)
        if not 3 <= min(self.agents.sizes) <= max(self.agents.sizes) <= 12:
            self._refuse("agents.sizes", "sizes from 3 to 12", self.agents.sizes)
        if min(self.faults.several) < 2:
            self._refuse("faults.several", "numbers from 2", self.faults.several)
        for key, percent in (
            ("held_out.percent", self.held_out.percent),
            ("balance.twins_percent", self.balance.twins_percent),
        ):
            if percent > 100:
                self._refuse(key, "a percentage up to 100", percent)

    def _refuse(self, key: str, expected: str, got: object) -> None:
        raise ConfigError(f"{self.name}: expected {key} with {expected}, got {got!r}. Correct the recipe.")


def find_recipe(name: str) -> CorpusRecipe:
    """Read a bundled recipe by its name, or the file that *name* is the path of.

    Raises:
        ConfigError: as `read_recipe` does.
    """
    return read_recipe(CorpusRecipe, name, RECIPES)


def _frameworks(topology: str, wanted: Sequence[str]) -> list[Framework]:
    return [name for name in _FRAMEWORKS if name in wanted and name in TOPOLOGIES[topology].frameworks]
