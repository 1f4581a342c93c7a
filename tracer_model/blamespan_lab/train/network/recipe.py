"""What decides which network comes out: one frozen record and a TOML file with the same names."""

from __future__ import annotations

from dataclasses import dataclass, field

from blamespan_lab.recipes import Count, Listed, Number, PositiveCount, PositiveNumber


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the network is trained.

    Attributes:
        epochs: Passes over the runs by labels (and against twins).
        rate: AdamW's learning rate at its highest; it rises over a tenth of the steps and falls as a cosine.
        decay: AdamW's weight decay, of matrices alone.
        most_runs: Per batch.
        dropout: Of what attention adds.
        feature_dropout: Share of columns that are silent for a whole run: no feature may be indispensable.
        word_keep: Share of words read.
        meaning_noise: Spread of what is added to words' meanings, whose own is 1: near words are to be read alike.
        sigma: Width in steps of what counts as nearly the decisive step.
        margin: By how many log-odds a faulty step must stand above its clean twin.
        agent: Weight of the loss of the same name, where the pointer's is 1; likewise
        fault: this,
        modes: this,
        mode: this,
        culprit: this, and
        contrast: this; 0 leaves the clean twins out.
    """

    epochs: Count = 12
    rate: Number = 1e-3
    decay: Number = 0.05
    most_runs: Count = 48
    dropout: Number = 0.1
    feature_dropout: Number = 0.1
    word_keep: Number = 0.7
    meaning_noise: Number = 0.0
    sigma: Number = 0.4
    margin: Number = 2.0
    agent: Number = 0.5
    fault: Number = 0.5
    modes: Number = 0.3
    mode: Number = 0.6
    culprit: Number = 0.3
    contrast: Number = 0.3


@dataclass(frozen=True, slots=True)
class NetworkData:
    """What to train on.

    Attributes:
        corpora: Folders that `blamespan lab generate` made, relative to the data folder; what their recipes hold out is
            not learnt from: calibration, alarms and step sets are fitted to it.
        agents: File of AEGIS runs, whose agents are labelled and whose steps are not, relative to the data folder;
            empty for none.
        agents_most: How many of these are read, drawn at random; 0 for all.
        agents_penalty: L2 penalty of the lexicons that read one half of them and were fitted to the other.
        outcomes: Files of runs, of any format, of which only the outcome is known, relative to the data folder.
        mistakes: Files of runs, of any format, whose first wrong step is labelled, relative to the data folder. Naming
            none that the network will be measured on is up to whoever writes the recipe.
        mistakes_most: How many of these are read, drawn at random; 0 for all.
        held_out_percent: Share of the tasks, and of AEGIS's questions, that are kept aside too.
    """

    corpora: Listed[str] = ("default",)
    agents: str = ""
    agents_most: Count = 0
    agents_penalty: PositiveNumber = 0.1
    outcomes: Listed[str] = ()
    mistakes: Listed[str] = ()
    mistakes_most: Count = 0
    held_out_percent: Count = 12


@dataclass(frozen=True, slots=True)
class NetworkSize:
    """How large the network is; see `blamespan_tracer.alternatives.network.model.Shape`."""

    bag_width: PositiveCount = 32
    sentence_width: PositiveCount = 64
    width: PositiveCount = 96
    n_heads: PositiveCount = 4
    n_layers: PositiveCount = 2


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
    seed: Count = 0
    data: NetworkData = field(default_factory=NetworkData)
    size: NetworkSize = field(default_factory=NetworkSize)
    schedule: Schedule = field(default_factory=Schedule)
    max_false_alarms: Number = 5.0
    coverage: Number = 90.0
