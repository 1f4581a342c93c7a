"""Train the network: corpora, split by task, fit, calibration, weights.

Every choice is made on held-out tasks of the training corpora; no other file is opened.
"""

from __future__ import annotations

import json
import logging
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from blamespan.errors import ConfigError
from blamespan_tracer.corpus.storage import read_corpus
from blamespan_tracer.lexical import LexicalTracer
from blamespan_tracer.lexicon import Lexicon
from blamespan_tracer.metrics import percent
from blamespan_tracer.network.calibrating import Pointed, alarm_for, mass_for, shares_of, temperature_of
from blamespan_tracer.network.examples import MODES, SOUND, Example, examples_of
from blamespan_tracer.network.fitting import fit_network, predict
from blamespan_tracer.network.inputs import RELATIONS, feature_names
from blamespan_tracer.network.model import Scores, Shape
from blamespan_tracer.network.recipe import NetworkRecipe
from blamespan_tracer.network.weights import LIMIT, Network
from blamespan_tracer.table import is_held_out

__all__ = ["HeldOut", "Trained", "train_network", "train_network_on"]

WEIGHTS_FILE = "network.safetensors"

_LEAST_SPREAD = 1e-3
"""A feature that hardly varies in training is not blown up."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Figures on held-out tasks, percent but for `n` and `sound`; calibration saw the same runs, which flatters."""

    n: int
    step: float
    agent: float
    mode: float
    sound: int
    false_alarms: float
    coverage: float


@dataclass(frozen=True, slots=True)
class Trained:
    """What training made: the model, its held-out figures, and where it lies."""

    network: Network
    held_out: HeldOut
    weights: Path


def train_network(recipe: NetworkRecipe, data: Path, out: Path) -> Trained:
    """Train by *recipe* on the corpora under *data*; leave recipe, versions, metrics and weights in *out*.

    Raises:
        ConfigError: if a corpus is missing, not finished, or too small to hold anything out.
    """
    start_s = time.perf_counter()
    lexicon = LexicalTracer.bundled().lexicon
    examples: list[Example] = []
    for name in recipe.data.corpora:
        runs = list(read_corpus(data / name, "train"))
        examples += examples_of(runs, lexicon, recipe.size.n_buckets, what=f"reading {name}")
    _log.info("%d runs read in %.0f s", len(examples), time.perf_counter() - start_s)
    network, held_out = train_network_on(examples, recipe, lexicon)
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
    return Trained(replace(network, digest=digest), held_out, out / WEIGHTS_FILE)


def train_network_on(examples: Sequence[Example], recipe: NetworkRecipe, lexicon: Lexicon) -> tuple[Network, HeldOut]:
    """Train on runs in memory.

    Raises:
        ConfigError: if a side of the split has no failed run.
    """
    percent_out = recipe.data.held_out_percent
    held = [each for each in examples if is_held_out(each.group, percent=percent_out, seed=recipe.seed + 1)]
    fitted = [each for each in examples if not is_held_out(each.group, percent=percent_out, seed=recipe.seed + 1)]
    if not any(each.decisive >= 0 for each in fitted) or not any(each.decisive >= 0 for each in held):
        raise ConfigError(
            f"expected failed runs of enough tasks to hold {percent_out} % of them out, got {len(fitted)} runs to fit "
            f"on and {len(held)} held out. Generate a larger corpus, or change data.held_out_percent"
        )
    _log.info("%d runs to fit on, %d held out by task", len(fitted), len(held))
    mean, spread = _scaling(fitted)
    shape = Shape(n_features=len(mean), n_relations=len(RELATIONS), n_modes=len(MODES), **asdict(recipe.size))
    fitted, held = _scaled(fitted, mean, spread), _scaled(held, mean, spread)
    weights = _rounded(fit_network(fitted, shape, recipe.schedule, seed=recipe.seed))
    scores = predict(held, weights, shape)
    pointed = [Pointed(score.pointer.double().numpy(), each.decisive) for each, score in zip(held, scores, strict=True)]
    temperature = temperature_of(pointed)
    network = Network(
        shape=shape,
        weights={name: value.numpy() for name, value in weights.items()},
        mean=mean,
        spread=spread,
        features=feature_names(lexicon),
        modes=tuple(map(str, MODES)),
        lexicon=lexicon.digest,
        temperature=temperature,
        set_mass=mass_for(pointed, temperature, recipe.coverage),
        coverage=recipe.coverage / 100,
        alarm=alarm_for(pointed, temperature, recipe.max_false_alarms),
        false_alarms=recipe.max_false_alarms / 100,
        notes={"recipe": recipe.name, "seed": str(recipe.seed), "runs": str(len(fitted))},
    )
    return network, _measured(held, scores, pointed, network)


def _scaling(examples: Sequence[Example]) -> tuple[Any, Any]:
    features = np.concatenate([each.inputs.features for each in examples])
    spread = features.std(axis=0)
    return features.mean(axis=0), np.where(spread > _LEAST_SPREAD, spread, 1).astype(np.float32)


def _scaled(examples: Sequence[Example], mean: Any, spread: Any) -> list[Example]:
    return [
        replace(
            each,
            inputs=replace(
                each.inputs,
                features=np.clip((each.inputs.features - mean) / spread, -LIMIT, LIMIT).astype(np.float32),
            ),
        )
        for each in examples
    ]


def _rounded(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Round as the file will: what is measured is what is shipped."""
    return {name: value.half().float() for name, value in weights.items()}


def _measured(
    held: Sequence[Example], scores: Sequence[Scores], pointed: Sequence[Pointed], network: Network
) -> HeldOut:
    steps, agents, modes, covered, alarms = [], [], [], [], []
    for each, score, point in zip(held, scores, pointed, strict=True):
        shares, failed = shares_of(point.scores, network.temperature)
        if each.decisive == SOUND:
            alarms.append(failed >= network.alarm)
        if each.decisive < 0:
            continue
        agent = int(np.bincount(each.inputs.agent, shares).argmax())
        own = np.where(each.inputs.agent == agent, shares, 0)
        chances = (own[:, None] * torch.sigmoid(score.modes).numpy()).sum(axis=0)
        steps.append(int(own.argmax()) == each.decisive)
        agents.append(agent == each.inputs.agent[each.decisive])
        modes.append(bool(each.modes[each.decisive, int(chances.argmax())]))
        ahead = shares > shares[each.decisive]
        covered.append(float(shares[ahead].sum()) < network.set_mass)
    return HeldOut(
        n=len(steps),
        step=percent(steps),
        agent=percent(agents),
        mode=percent(modes),
        sound=len(alarms),
        false_alarms=percent(alarms),
        coverage=percent(covered),
    )


def _write(path: Path, record: dict[str, Any]) -> None:
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
