"""What decides how the tracer `auto` is trained: frozen records, and TOML files with the same names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from blamespan_lab.auto.objectives import Paradigm
from blamespan_lab.toml_records import Count, Listed, Number, PositiveCount, PositiveNumber, read_record

__all__ = ["AutoData", "AutoRecipe", "read_auto_recipe"]


@dataclass(frozen=True, slots=True)
class AutoData:
    """What to train on, relative to the data folder.

    Attributes:
        pairs: Folder that `blamespan generate edits` made; sources that its recipe holds out are not learnt from.
        every_kind: Whether kinds of edits that it holds out are; no to measure weights on kinds that they do not know.
        most_pairs: Most pairs that are learnt from.
        transcripts: Files of written runs of whose failures the decisive step is known: patterns, relative to the
            recipe.
        programs: The same of small programs, which count more: teams of users are like them.
        who_and_when: Folder of Who&When runs whose decisive step people labelled.
    """

    pairs: str = "edits"
    every_kind: bool = True
    most_pairs: PositiveCount = 4_000
    transcripts: Listed[str] = ("../transcripts/*.txt",)
    programs: Listed[str] = tuple(f"../transcripts/{name}/*.txt" for name in ("programs", "relations", "office"))
    who_and_when: str = "who_and_when_dev"


@dataclass(frozen=True, slots=True)
class AutoRecipe:
    """Everything that decides what weights come out.

    Attributes:
        name: Names the run directory and the weights.
        model: `auto`: tells these recipes from those of other models.
        seed: Chooses the first weights and every draw.
        data: What to train on.
        hidden: Hidden units of the evidence.
        epochs: How often each pair is learnt from.
        paradigm: What the evidence is asked for: `supervised`, `contrastive` or `reward`; see `objectives`.
        penalty: L2 penalty of the prior.
        agent_part: Part of the loss of the prior that asks for the agent rather than the step, 0..1.
        weight_of_pairs: How much a failed run of a pair counts there beside one of a transcript, and
        weight_of_programs: how much one of a small program, and
        weight_of_labels: how much one that people labelled.
        max_false_alarms: Percent of sound runs of pairs that may be called failed.
        coverage: Percent of failed runs whose decisive step the step set is to hold.
    """

    name: str
    model: str = "auto"
    seed: Count = 0
    data: AutoData = field(default_factory=AutoData)
    hidden: PositiveCount = 12
    epochs: PositiveCount = 10
    paradigm: Paradigm = "supervised"
    penalty: PositiveNumber = 30.0
    agent_part: Number = 0.3
    weight_of_pairs: PositiveNumber = 6.0
    weight_of_programs: PositiveNumber = 8.0
    weight_of_labels: PositiveNumber = 30.0
    max_false_alarms: Number = 5.0
    coverage: Number = 90.0


def read_auto_recipe(path: Path) -> AutoRecipe:
    """Read the recipe at *path*; its name is the file's.

    Raises:
        ConfigError: if it is missing, no TOML, or has a key or a value that does not fit.
    """
    advice = "The one that made the bundled weights is tracer_model/recipes/auto.toml"
    return read_record(AutoRecipe, path, advice=advice, example="recipes/auto.toml")
