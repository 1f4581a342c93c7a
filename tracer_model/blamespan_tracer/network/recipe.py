"""What decides which network comes out: one frozen record and a TOML file with the same names."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from blamespan_tracer.network.schedule import Schedule
from blamespan_tracer.toml_records import POSITIVE, read_record

__all__ = ["NetworkData", "NetworkRecipe", "NetworkSize", "read_network_recipe"]


@dataclass(frozen=True, slots=True)
class NetworkData:
    """What to train on.

    Attributes:
        corpora: Folders that `blamespan generate` made, relative to the data folder; what their recipes hold out is
            not read.
        held_out_percent: Share of the tasks kept aside for calibration, alarms and step sets.
    """

    corpora: tuple[str, ...] = ("default",)
    held_out_percent: int = 12


@dataclass(frozen=True, slots=True)
class NetworkSize:
    """How large the network is; see `blamespan_tracer.network.model.Shape`."""

    n_buckets: int = field(default=16_384, metadata=POSITIVE)
    bag_width: int = field(default=32, metadata=POSITIVE)
    width: int = field(default=96, metadata=POSITIVE)
    n_heads: int = field(default=4, metadata=POSITIVE)
    n_layers: int = field(default=2, metadata=POSITIVE)


@dataclass(frozen=True, slots=True)
class NetworkRecipe:
    """Everything that decides what weights come out.

    Attributes:
        name: Names the run directory and the weights.
        model: `network`: tells these recipes from those of other models.
        seed: Chooses what is held out, the first weights and every draw.
        data: What to train on.
        size: How large.
        schedule: How to train.
        max_false_alarms: Percent of sound held-out runs that may be called failed.
        coverage: Percent of failed held-out runs whose decisive step the step set is to hold.
    """

    name: str
    model: str = "network"
    seed: int = 0
    data: NetworkData = field(default_factory=NetworkData)
    size: NetworkSize = field(default_factory=NetworkSize)
    schedule: Schedule = field(default_factory=Schedule)
    max_false_alarms: float = 5.0
    coverage: float = 90.0


def read_network_recipe(path: Path) -> NetworkRecipe:
    """Read the recipe at *path*; its name is the file's.

    Raises:
        ConfigError: if it is missing, no TOML, or has a key or a value that does not fit.
    """
    advice = "The one that made the bundled weights is tracer_model/recipes/network.toml"
    return read_record(NetworkRecipe, path, advice=advice, example="recipes/network.toml")
