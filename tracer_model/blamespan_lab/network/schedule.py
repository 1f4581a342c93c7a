"""How the network is trained, as a recipe says it; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass

from blamespan_lab.toml_records import Count, Number

__all__ = ["Schedule"]


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the network is trained.

    Attributes:
        epochs: Passes over the runs by labels (and against twins).
        reward_epochs: Passes after these by reward alone.
        rate: AdamW's learning rate at its highest; it rises over a tenth of the steps and falls as a cosine.
        reward_rate: Likewise, by reward.
        decay: AdamW's weight decay, of matrices alone.
        most_runs: Per batch.
        dropout: Of what attention adds.
        feature_dropout: Share of columns that are silent for a whole run: no feature may be indispensable.
        edge_dropout: Share of relation cells left out.
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
    reward_epochs: Count = 0
    rate: Number = 1e-3
    reward_rate: Number = 1e-4
    decay: Number = 0.05
    most_runs: Count = 48
    dropout: Number = 0.1
    feature_dropout: Number = 0.1
    edge_dropout: Number = 0.0
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
