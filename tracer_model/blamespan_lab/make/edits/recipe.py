"""What decides which pairs are made: one frozen record, and a TOML file with the same names."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal

from blamespan.errors import ConfigError
from blamespan_lab.make.edits.kinds import KINDS
from blamespan_lab.recipes import Count, Listed, PositiveCount, require_known


@dataclass(frozen=True, slots=True)
class EditData:
    """Files of runs to edit: patterns, each looked for in every data folder.

    Attributes:
        transcripts: Runs written down as text.
        tau_bench: Runs of tau-bench.
        mistakes: Files of BIG-Bench-Mistake.
        outcomes: JSON lines of task, outcome and steps.
    """

    transcripts: Listed[str] = ()
    tau_bench: Listed[str] = ()
    mistakes: Listed[str] = ()
    outcomes: Listed[str] = ()


@dataclass(frozen=True, slots=True)
class HeldOutEdits:
    """What nothing learns from.

    Attributes:
        kinds: Of edits.
        sources: Patterns of the names of files.
    """

    kinds: Listed[str] = ()
    sources: Listed[str] = ()


@dataclass(frozen=True, slots=True)
class EditRecipe:
    """Everything that decides what pairs come out.

    Attributes:
        name: The recipe's.
        kind: `edits`: tells these recipes from those of simulated runs.
        seed: Chooses among the places of each run.
        most_per_run: Most edits of one run.
        most_per_kind: Most of these of one kind.
        data: Runs to edit.
        held_out: What nothing learns from.

    Raises:
        ConfigError: if it names no file, or an unknown kind.
    """

    name: str
    kind: Literal["edits"] = "edits"
    seed: Count = 0
    most_per_run: PositiveCount = 24
    most_per_kind: PositiveCount = 3
    data: EditData = field(default_factory=EditData)
    held_out: HeldOutEdits = field(default_factory=HeldOutEdits)

    def __post_init__(self) -> None:
        if not any(asdict(self.data).values()):
            raise ConfigError(f"{self.name}: expected [data] to name files, got none. Name runs to edit")
        require_known(self.name, "held_out.kinds", self.held_out.kinds, list(KINDS))
