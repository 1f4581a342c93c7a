"""A training recipe: one frozen record and a TOML file with the same names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from blamespan_lab.toml_records import Count, Listed, PositiveNumber, read_record

__all__ = ["DataRecipe", "FitRecipe", "Recipe", "read_recipe"]


@dataclass(frozen=True, slots=True)
class DataRecipe:
    """What to train on.

    Attributes:
        train: File of AEGIS runs, relative to the data folder.
        held_out_percent: Share of the *questions* kept aside for every choice: penalty, calibration, thresholds.
        min_agents: A feature that fewer training agents have is dropped.
    """

    train: str = "train.jsonl.xz"
    held_out_percent: Count = 15
    min_agents: Count = 20


@dataclass(frozen=True, slots=True)
class FitRecipe:
    """How to fit.

    Attributes:
        penalties: Candidates for the L2 penalty, weighed against the loss summed over agents; held-out runs choose.
        iterations: Most L-BFGS iterations per fit; the problem is convex.
    """

    penalties: Listed[PositiveNumber] = (0.4,)
    iterations: Count = 40


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that decides what weights come out.

    Attributes:
        name: Names the run directory and the weights.
        seed: Chooses which questions are held out; nothing else is random.
        data: What to train on.
        fit: How to fit.
    """

    name: str
    seed: Count = 0
    data: DataRecipe = field(default_factory=DataRecipe)
    fit: FitRecipe = field(default_factory=FitRecipe)


def read_recipe(path: Path) -> Recipe:
    """Read the recipe at *path*; its name is the file's.

    Raises:
        ConfigError: if it is missing, no TOML, or has a key or a value that does not fit.
    """
    advice = "The one that made the bundled weights is tracer_model/recipes/lexical.toml"
    return read_record(Recipe, path, advice=advice, example="recipes/lexical.toml")
