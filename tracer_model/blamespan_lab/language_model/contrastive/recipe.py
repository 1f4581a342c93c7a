"""What decides which encoder comes out: one frozen record and a TOML file with the same names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from blamespan.errors import ConfigError
from blamespan_lab.toml_records import Count, Listed, Number, PositiveCount, PositiveNumber, read_record

__all__ = ["ContrastiveData", "ContrastiveRecipe", "ContrastiveTraining", "TinyEncoder", "read_contrastive_recipe"]


@dataclass(frozen=True, slots=True)
class ContrastiveData:
    """What to train on; only faults that carry a mode of AEGIS teach anything.

    Attributes:
        corpora: Folders that `blamespan generate` made, relative to the data folder; they have clean twins.
        aegis: AEGIS files, relative to the data folder.
        held_out_percent: Share of the tasks kept aside for the figures.
        most_turns: Turns of a run that are read, the first and the last ones.
        turn_tokens: Tokens of a turn that are read, the first ones.
    """

    corpora: Listed[str] = ()
    aegis: Listed[str] = ()
    held_out_percent: Count = 12
    most_turns: PositiveCount = 48
    turn_tokens: PositiveCount = 128


@dataclass(frozen=True, slots=True)
class TinyEncoder:
    """A BERT built from nothing, with a tokenizer learnt from the training runs; used where no `base` is named."""

    vocabulary: PositiveCount = 2_048
    width: PositiveCount = 64
    layers: PositiveCount = 2
    heads: PositiveCount = 4


@dataclass(frozen=True, slots=True)
class ContrastiveTraining:
    """How to train; the defaults are those of the paper.

    Attributes:
        updates: In all.
        batch_runs: Runs for each.
        device_runs: Of these, how many one device reads at a time.
        learning_rate: At its peak; cosine to 0 after a warm-up over a tenth of the updates.
        decay: Of the weights.
        contrast: Weight of the contrastive loss, and
        hierarchy: of the loss for pairs that are likelier than their agent or their error.
        temperature: Of the contrast.
    """

    updates: PositiveCount = 1_000
    batch_runs: PositiveCount = 128
    device_runs: PositiveCount = 32
    learning_rate: PositiveNumber = 1e-4
    decay: Number = 0.01
    contrast: Number = 0.4
    hierarchy: Number = 0.6
    temperature: PositiveNumber = 0.07


@dataclass(frozen=True, slots=True)
class ContrastiveRecipe:
    """Everything that decides what weights come out.

    Attributes:
        name: Names the run directory.
        model: `contrastive`: tells these recipes from those of other models.
        seed: Chooses what is held out and every draw.
        base: Folder or Hugging Face id of the encoder to start from; empty builds one by `scratch`.
        data: What to train on.
        scratch: How large the built one is.
        train: How to train.
    """

    name: str
    model: str = "contrastive"
    seed: Count = 0
    base: str = ""
    data: ContrastiveData = field(default_factory=ContrastiveData)
    scratch: TinyEncoder = field(default_factory=TinyEncoder)
    train: ContrastiveTraining = field(default_factory=ContrastiveTraining)


def read_contrastive_recipe(path: Path) -> ContrastiveRecipe:
    """Read the recipe at *path*; its name is the file's.

    Raises:
        ConfigError: if it is missing, no TOML, or has a key or a value that does not fit.
    """
    advice = "The one that comes with blamespan is tracer_model/recipes/contrastive.toml"
    recipe = read_record(ContrastiveRecipe, path, advice=advice, example="recipes/contrastive.toml")
    if not (recipe.data.corpora or recipe.data.aegis):
        raise ConfigError(f"{path.name}: expected data.corpora or data.aegis, got neither. Name what to train on")
    if recipe.train.batch_runs % recipe.train.device_runs:
        raise ConfigError(
            f"{path.name}: expected train.batch_runs as a multiple of train.device_runs, got {recipe.train.batch_runs} "
            f"and {recipe.train.device_runs}. Correct the recipe"
        )
    return recipe
