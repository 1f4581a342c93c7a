"""A training recipe: one frozen record and a TOML file with the same names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from blamespan_lab.recipes import Count, Listed, PositiveNumber


@dataclass(frozen=True, slots=True)
class LexicalData:
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
class LexicalFit:
    """How to fit.

    Attributes:
        penalties: Candidates for the L2 penalty, weighed against the loss summed over agents; held-out runs choose.
        iterations: Most L-BFGS iterations per fit; the problem is convex.
    """

    penalties: Listed[PositiveNumber] = (0.4,)
    iterations: Count = 40


@dataclass(frozen=True, slots=True)
class LexicalRecipe:
    """Everything that decides what weights come out.

    Attributes:
        name: Names the run directory and the weights.
        model: `lexical`: tells these recipes from those of other models.
        seed: Chooses which questions are held out; nothing else is random.
        data: What to train on.
        fit: How to fit.
    """

    name: str
    model: Literal["lexical"] = "lexical"
    seed: Count = 0
    data: LexicalData = field(default_factory=LexicalData)
    fit: LexicalFit = field(default_factory=LexicalFit)
