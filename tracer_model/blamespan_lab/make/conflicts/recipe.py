"""What decides which conflicts are made: one frozen record, and a TOML file with the same names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from blamespan_lab.make.wordings.banks import CONFLICTS
from blamespan_lab.recipes import Count, Listed, PositiveCount, require_known


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
    kind: Literal["conflicts"] = "conflicts"
    seed: Count = 0
    runs: PositiveCount = 480
    wordings: Literal["all", "first", "second"] = "second"
    kinds: Listed[str] = tuple(CONFLICTS.kinds)
    frameworks: Listed[Literal["autogen", "langgraph"]] = ("autogen", "langgraph")

    def __post_init__(self) -> None:
        require_known(self.name, "kinds", self.kinds, list(CONFLICTS.kinds))
