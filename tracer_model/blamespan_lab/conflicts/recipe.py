"""What decides which conflicts are made: one frozen record, and a TOML file with the same names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from blamespan.errors import ConfigError
from blamespan_lab.toml_records import Count, Listed, PositiveCount, read_record
from blamespan_lab.wordings.banks import CONFLICTS

__all__ = ["BUNDLED_CONFLICTS", "ConflictRecipe", "read_conflict_recipe"]

BUNDLED_CONFLICTS = Path(__file__).parent / "recipes" / "conflicts.toml"
"""The recipe that comes with the package."""


@dataclass(frozen=True, slots=True)
class ConflictRecipe:
    """Everything that decides what conflicts come out.

    Attributes:
        name: The recipe's.
        kind: `conflicts`: tells these recipes from those of other runs.
        seed: Chooses words, names and cases.
        runs: How many. Of six, two are failures, two are conflicts in which the rule is kept, and two are no conflict.
        wordings: Half of the wordings that words are taken from; of kinds that nothing was developed on, all.
        kinds: Of rules.
        frameworks: That run them.
    """

    name: str
    kind: str = "conflicts"
    seed: Count = 0
    runs: PositiveCount = 480
    wordings: Literal["all", "first", "second"] = "second"
    kinds: Listed[str] = tuple(CONFLICTS.kinds)
    frameworks: Listed[Literal["autogen", "langgraph"]] = ("autogen", "langgraph")


def read_conflict_recipe(path: Path) -> ConflictRecipe:
    """Read the recipe at *path*; its name is the file's.

    Raises:
        ConfigError: if it is missing, no TOML, has a key or a value that does not fit, or names an unknown kind.
    """
    recipe = read_record(
        ConflictRecipe, path, advice="The one that comes with blamespan is `conflicts`", example=str(BUNDLED_CONFLICTS)
    )
    unknown = sorted({*recipe.kinds} - {*CONFLICTS.kinds})
    if unknown:
        raise ConfigError(f"{path.name}: expected kinds among {', '.join(CONFLICTS.kinds)}, got {', '.join(unknown)}")
    return recipe
