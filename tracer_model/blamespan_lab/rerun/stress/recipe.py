"""A stress recipe: which faults are put in, where, how many. One frozen record and a TOML file of the same names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from blamespan.errors import ConfigError
from blamespan.intercepting.boundaries import Mechanism
from blamespan_lab.make.faults.catalogue import BY_MODEL, KINDS
from blamespan_lab.recipes import Count, Listed, Number, PositiveCount, PositiveNumber, read_recipe, require_known

RECIPES = Path(__file__).parent / "recipes"
_MECHANISMS: tuple[str, ...] = get_args(Mechanism)
_WRITERS = ("operators", "model")


@dataclass(frozen=True, slots=True)
class StressRecipe:
    """What a team is put through. A list that is left out means all there are.

    Attributes:
        name: The file's name.
        seed: Same seed, same program: same faults at the same places.
        runs: Runs for each kind of fault at each agent.
        budget: Most runs with a fault in them; where it is too small for all, each kind and agent gets its share.
        tasks: Tasks that bundled teams work on, over all families; a user's own come from the command line.
        kinds: Names in the catalogue of faults.
        mechanisms: Where faults are written.
        agents: Names of the agents, or roles of a bundled team.
        probability: At each place with this probability; 0 means once in each run.
        writer: `operators`, or `model`: an LLM behind the endpoint of `BLAMESPAN_MANIPULATOR_URL`.
        timeout_s: Seconds after which a run is stopped and counted as one that does not end.

    Raises:
        ConfigError: if a name is unknown, the nearest is named; or a number is out of its range.
    """

    name: str
    seed: Count = 0
    runs: PositiveCount = 4
    budget: PositiveCount = 400
    tasks: PositiveCount = 24
    kinds: Listed[str] = tuple(KINDS)
    mechanisms: Listed[str] = _MECHANISMS
    agents: Listed[str] = ()
    probability: Number = 0.0
    writer: str = "operators"
    timeout_s: PositiveNumber = 120.0

    def __post_init__(self) -> None:
        for key, names, choices in (
            ("kinds", self.kinds, tuple(KINDS)),
            ("mechanisms", self.mechanisms, _MECHANISMS),
            ("writer", (self.writer,), _WRITERS),
        ):
            require_known(self.name, key, names, choices)
        if self.probability > 1:
            raise ConfigError(f"{self.name}: expected probability from 0 to 1, got {self.probability!r}. Correct it")
        if not self.ways:
            raise ConfigError(
                f"{self.name}: expected kinds that can be written by one of {self.mechanisms!r}, got {self.kinds!r}. "
                "Name other mechanisms, or leave them out"
            )

    @property
    def ways(self) -> Mapping[str, tuple[Mechanism, ...]]:
        """Return for each kind the mechanisms by which it is written here, a kind's own first."""
        allowed = self.mechanisms if self.writer == "operators" else BY_MODEL
        by_kind = {
            kind: tuple(
                mechanism
                for mechanism in KINDS[kind].mechanisms
                if mechanism in allowed and mechanism in self.mechanisms
            )
            for kind in dict.fromkeys(self.kinds)
        }
        return {kind: mechanisms for kind, mechanisms in by_kind.items() if mechanisms}

    @property
    def written_by(self) -> Literal["operators", "model"]:
        """Return the writer, of which there are two."""
        return cast('Literal["operators", "model"]', self.writer)


def find_recipe(name: str) -> StressRecipe:
    """Read a bundled recipe by its name, or the file that *name* is the path of.

    Raises:
        ConfigError: as `read_recipe` does.
    """
    return read_recipe(StressRecipe, name, RECIPES)
