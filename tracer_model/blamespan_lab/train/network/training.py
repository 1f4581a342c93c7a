"""Train the network: corpora and runs with labelled agents, split by task, fit, calibration, weights.

Nothing is chosen on any other file. What the corpora's recipes hold out is not fitted to, but calibrated on, in other
words: families, topologies and wordings that were not learnt from tell how sure to be of new runs. Probabilities are
fitted to near words, as strangers use who speak of the same things; alarms and step sets hold for any words at all.
"""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from blamespan.errors import ConfigError
from blamespan_lab.statistics import percent
from blamespan_lab.train.calibrating import (
    Pointed,
    alarm_for,
    alarms_for,
    blamed,
    mass_ahead,
    mass_for,
    temperature_of,
)
from blamespan_lab.train.network.examples import SOUND, NetworkExample, scaled_examples
from blamespan_lab.train.network.fitting import fit_network, predict
from blamespan_lab.train.network.meanings import Meanings
from blamespan_lab.train.network.recipe import NetworkRecipe
from blamespan_lab.train.network.rewording import with_near_words, with_strange_words
from blamespan_lab.train.network.training_data import Examples, read_examples
from blamespan_tracer.alternatives.lexical import LexicalTracer
from blamespan_tracer.alternatives.lexicon import Lexicon
from blamespan_tracer.alternatives.network.inputs import RELATIONS, feature_names
from blamespan_tracer.alternatives.network.model import Scores, Shape
from blamespan_tracer.alternatives.network.weights import Network, round_weights
from blamespan_tracer.modes import MODES
from blamespan_tracer.numeric import pointer_shares

__all__ = ["HeldOutRights", "NetworkFigures", "TrainedNetwork", "train_network", "train_network_on"]

WEIGHTS_FILE = "network.safetensors"

_LEAST_SPREAD = 1e-3
"""A feature that hardly varies in training is not blown up."""

_log = logging.getLogger(__name__)

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class HeldOutRights:
    """Figures on runs not fitted to, percent but for `n` and `sound`; `mode` is None where no label names one."""

    n: int
    step: float
    agent: float
    mode: float | None
    sound: int
    false_alarms: float
    coverage: float


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """Figures on held-out tasks, on what the corpora's recipes hold out, and on what else was kept aside.

    Attributes:
        tasks: Tasks of families and topologies that were learnt from; calibration saw them, with other words.
        recipes: Families and topologies that were not, likewise; None where the recipes hold nothing out.
        agents: Percent of AEGIS runs whose most blamed agent is one that is labelled; None without such runs.
        reasoning: Held-out tasks of runs with a labelled mistake, which calibration has not seen; None without such.
    """

    tasks: HeldOutRights
    recipes: HeldOutRights | None = None
    agents: float | None = None
    reasoning: HeldOutRights | None = None


@dataclass(frozen=True, slots=True)
class TrainedNetwork:
    """What training made: the model, its held-out figures, and where it lies."""

    network: Network
    held_out: NetworkFigures
    weights: Path


def train_network(recipe: NetworkRecipe, data: Path, out: Path) -> TrainedNetwork:
    """Train by *recipe* on what lies under *data*; leave recipe, versions, metrics and weights in *out*.

    Raises:
        ConfigError: if a corpus or file is missing, not finished, or too small to hold anything out.
    """
    start_s = time.perf_counter()
    lexicon = LexicalTracer.bundled().lexicon
    meanings = Meanings.bundled()
    examples = read_examples(recipe, data, lexicon, meanings.vocabulary)
    _log.info("runs read in %.0f s", time.perf_counter() - start_s)
    network, held_out = train_network_on(examples, recipe, lexicon, meanings)
    out.mkdir(parents=True, exist_ok=True)
    digest = network.save(out / WEIGHTS_FILE)
    about = {
        **asdict(recipe),
        **{package: version(package) for package in ("torch", "numpy", "blamespan")},
        "python": platform.python_version(),
    }
    _write(out / "recipe.json", about)
    wall_s = round(time.perf_counter() - start_s, 1)
    _write(out / "metrics.jsonl", {**asdict(held_out), "weights": digest, "wall_s": wall_s})
    return TrainedNetwork(replace(network, digest=digest), held_out, out / WEIGHTS_FILE)


def train_network_on(
    examples: Examples, recipe: NetworkRecipe, lexicon: Lexicon, meanings: Meanings
) -> tuple[Network, NetworkFigures]:
    """Train on runs in memory.

    Raises:
        ConfigError: if a side of the split has no failed run.
    """
    if not all(any(part.decisive >= 0 for part in part) for part in (examples.fitted, examples.tasks)):
        raise ConfigError(
            f"expected failed runs of enough tasks to hold {recipe.data.held_out_percent} % of them out, got "
            f"{len(examples.fitted)} runs to fit on and {len(examples.tasks)} held out. Generate a larger corpus, or "
            "change data.held_out_percent"
        )
    _log.info("%d runs to fit on, %d held out by task", len(examples.fitted), len(examples.tasks))
    mean, spread = _feature_scale(examples.fitted)
    shape = Shape(
        n_features=len(mean),
        n_words=len(meanings.vocabulary),
        n_relations=len(RELATIONS),
        n_modes=len(MODES),
        **asdict(recipe.size),
    )
    fitted = scaled_examples(examples.fitted, mean, spread)
    trained = fit_network(fitted, shape, recipe.schedule, meanings=meanings.vectors, seed=recipe.seed)
    weights = round_weights({name: value.numpy() for name, value in trained.items()})
    held_out = scaled_examples([*examples.tasks, *examples.recipes], mean, spread)
    as_worded = _ScoredRuns.of(held_out, weights, shape)
    near = _ScoredRuns.of(with_near_words(held_out, meanings.vectors, recipe.seed), weights, shape)
    strange = _ScoredRuns.of(with_strange_words(held_out, shape.n_words, recipe.seed), weights, shape)
    temperature = temperature_of(near.pointed)
    both = (as_worded.pointed, strange.pointed)  # what holds for either holds for both
    network = Network(
        shape=shape,
        weights=weights,
        vocabulary=meanings.vocabulary,
        mean=mean,
        spread=spread,
        features=feature_names(lexicon),
        modes=tuple(map(str, MODES)),
        lexicon=lexicon.digest,
        temperature=temperature,
        set_mass=max(mass_for(part, temperature, recipe.coverage) for part in both),
        alarm=max(alarm_for(part, temperature, recipe.max_false_alarms) for part in both),
        false_alarms=recipe.max_false_alarms / 100,
        alarms=alarms_for(both, temperature),
        notes={"recipe": recipe.name, "seed": str(recipe.seed), "runs": str(len(fitted))},
    )
    tasks, recipes = as_worded.split(len(examples.tasks))
    agents, reasoning = (
        _ScoredRuns.of(scaled_examples(part, mean, spread), weights, shape)
        for part in (examples.agents, examples.reasoning)
    )
    return network, NetworkFigures(
        tasks=_measure(tasks, network),
        recipes=_measure(recipes, network) if recipes.has_failures else None,
        agents=_agents_right(agents) if agents.examples else None,
        reasoning=_measure(reasoning, network) if reasoning.has_failures else None,
    )


@dataclass(frozen=True, slots=True)
class _ScoredRuns:
    """Runs and what the network says of them."""

    examples: Sequence[NetworkExample]
    scores: Sequence[Scores]
    pointed: Sequence[Pointed]

    @classmethod
    def of(cls, examples: Sequence[NetworkExample], weights: Mapping[str, Floats], shape: Shape) -> _ScoredRuns:
        scores = predict(examples, {name: torch.from_numpy(value) for name, value in weights.items()}, shape)
        pointed = [
            Pointed(score.pointer.double().numpy(), example.decisive)
            for example, score in zip(examples, scores, strict=True)
        ]
        return cls(examples, scores, pointed)

    @property
    def has_failures(self) -> bool:
        return any(example.decisive >= 0 for example in self.examples)

    def split(self, row: int) -> tuple[_ScoredRuns, _ScoredRuns]:
        return (
            _ScoredRuns(self.examples[:row], self.scores[:row], self.pointed[:row]),
            _ScoredRuns(self.examples[row:], self.scores[row:], self.pointed[row:]),
        )


def _feature_scale(examples: Sequence[NetworkExample]) -> tuple[Floats, Floats]:
    features = np.concatenate([example.inputs.features for example in examples])
    spread = features.std(axis=0)
    return features.mean(axis=0), np.where(spread > _LEAST_SPREAD, spread, 1).astype(np.float32)


def _agents_right(scored: _ScoredRuns) -> float:
    """Count how often the most blamed agent is one that is labelled, in percent."""
    is_right = []
    for example, point in zip(scored.examples, scored.pointed, strict=True):
        shares, _ = pointer_shares(point.scores, 1.0)
        is_right.append(blamed(example.inputs.agent, shares)[0] in example.culprits)
    return percent(is_right)


def _measure(scored: _ScoredRuns, network: Network) -> HeldOutRights:
    steps, agents, modes, covered, alarms = [], [], [], [], []
    has_mode = False
    for example, score, point in zip(scored.examples, scored.scores, scored.pointed, strict=True):
        shares, failed = pointer_shares(point.scores, network.temperature)
        if example.decisive == SOUND:
            alarms.append(failed >= network.alarm)
        if example.decisive < 0:
            continue
        agent, step = blamed(example.inputs.agent, shares)
        own = np.where(example.inputs.agent == agent, shares, 0)
        chances = (own[:, None] * torch.sigmoid(score.modes).numpy()).sum(axis=0)
        steps.append(step == example.decisive)
        agents.append(agent == example.inputs.agent[example.decisive])
        modes.append(bool(example.modes[example.decisive, int(chances.argmax())]))
        has_mode |= bool(example.modes[example.decisive].any())
        covered.append(mass_ahead(shares, example.decisive) < network.set_mass)
    return HeldOutRights(
        n=len(steps),
        step=percent(steps),
        agent=percent(agents),
        mode=percent(modes) if has_mode else None,
        sound=len(alarms),
        false_alarms=percent(alarms),
        coverage=percent(covered),
    )


def _write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
