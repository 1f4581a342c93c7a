"""What decides which pairs are made: one frozen record, and a TOML file with the same names."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path

from blamespan.errors import ConfigError
from blamespan_lab.edits.kinds import KINDS
from blamespan_lab.toml_records import Count, Listed, PositiveCount, read_record

__all__ = ["BUNDLED_EDITS", "EditData", "EditRecipe", "HeldOutEdits", "read_edit_recipe"]

BUNDLED_EDITS = Path(__file__).parent / "recipes" / "edits.toml"
"""The recipe that comes with the package."""


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
    """

    name: str
    kind: str = "edits"
    seed: Count = 0
    most_per_run: PositiveCount = 24
    most_per_kind: PositiveCount = 3
    data: EditData = field(default_factory=EditData)
    held_out: HeldOutEdits = field(default_factory=HeldOutEdits)


def read_edit_recipe(path: Path) -> EditRecipe:
    """Read the recipe at *path*; its name is the file's.

    Raises:
        ConfigError: if it is missing, no TOML, has a key or a value that does not fit, or names no file.
    """
    recipe = read_record(
        EditRecipe, path, advice="The one that comes with blamespan is `edits`", example=str(BUNDLED_EDITS)
    )
    if not any(asdict(recipe.data).values()):
        raise ConfigError(f"{path.name}: expected [data] to name files, got none. Name runs to edit")
    unknown = sorted({*recipe.held_out.kinds} - {*KINDS})
    if unknown:
        raise ConfigError(f"{path.name}: expected held_out.kinds among {', '.join(KINDS)}, got {', '.join(unknown)}")
    return recipe
