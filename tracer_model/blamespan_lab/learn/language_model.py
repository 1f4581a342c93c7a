"""A language model that is taught a team's failures too, and measured beside the small one on the same left-out tasks.

Only `blamespan learn --model` imports it: everything in it needs the extra `llm`.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from blamespan.errors import ConfigError
from blamespan.importing.recorded import RecordedRun
from blamespan.plugins import require
from blamespan.trace import MessageActionTrace
from blamespan_lab.recipes import read_recipe
from blamespan_lab.statistics import interval, percent
from blamespan_lab.train import LANGUAGE_MODEL_PACKAGES, RECIPES
from blamespan_lab.train.step_head import FEWEST, Hits

if TYPE_CHECKING:
    from blamespan_lab.train.language_model import LanguageModelRecipe
    from blamespan_tracer.alternatives.language_model import LanguageModelTracer

_RECIPE = "language-model-8b"
"""The bundled recipe that a team's differs from by its size alone."""
_LEFT_OUT = 0.3
"""Share of the failures that are left out, by task, and at least so many that better can be told from worse."""
_RANK, _EPOCHS, _BATCH_RUNS = 16, 3, 8
_READINGS = 65
"""Of each failure: 12 by SFT, with its share of sound runs 17 (3 epochs; each reads forwards twice and backwards, which
is as much again), and 48 by GRPO (8 replies; each is written, scored, and learnt from)."""

Share: TypeAlias = tuple[float, tuple[float, float]]
"""Percent, and its 95 % interval."""


@dataclass(frozen=True, slots=True)
class ModelFigures:
    """How a language model does beside the small one, on the same failures of tasks that it has not learnt.

    Attributes:
        n: Failures.
        tasks: Of so many tasks.
        step: How often it names the step, and
        agent: the agent.
        small_step: How often the small one does that is in use, learnt from all tasks but the failure's own, and
        small_agent: the agent.
        gain: 95 % interval of the difference in steps, in points.
    """

    n: int
    tasks: int
    step: Share
    agent: Share
    small_step: Share
    small_agent: Share
    gain: tuple[float, float]

    @property
    def is_better(self) -> bool:
        """Whether it names measurably more steps, and not fewer agents."""
        return self.n >= FEWEST and self.gain[0] > 0 and self.agent[0] >= self.small_agent[0]


@dataclass(frozen=True, slots=True)
class TaughtModel:
    """An adapter that a team's failures taught.

    Attributes:
        adapter: Its folder.
        device: What it was taught on.
        seconds: That the last call took: less where a killed one had done a part.
        figures: How good it is.
    """

    adapter: Path
    device: str
    seconds: float
    figures: ModelFigures


def open_language_model(name: str) -> LanguageModelTracer:
    """Load the model *name* and try it out, so that what is wrong with it is said before anything runs.

    Raises:
        MissingExtra: if a package of `blamespan[llm]` is not installed.
        ConfigError: if it reads too few tokens, or is an adapter.
        TracerUnavailable: if it cannot be loaded.
    """
    for package in LANGUAGE_MODEL_PACKAGES:
        require(package, "llm")
    from blamespan_tracer.alternatives.language_model import LanguageModelTracer

    if (Path(name) / "adapter_config.json").is_file():
        raise ConfigError(
            f"expected a model to teach, got the adapter {name!r}. Name the model that it adapts: learning makes a new "
            "adapter"
        )
    return LanguageModelTracer.load(name)


def describe_plan(name: str, trace: MessageActionTrace | None, failures: int) -> str:
    """Say what teaching the model *name* would take, by the time in which it reads *trace*.

    Raises:
        MissingExtra, ConfigError, TracerUnavailable: as `open_language_model` does.
    """
    tracer = open_language_model(name)
    if trace is None:
        return f"{name} on {describe_device()}; what it takes is not known before a run was recorded"
    tracer.score(trace)
    began_s = time.perf_counter()
    tracer.score(trace)
    took_s = time.perf_counter() - began_s
    return (
        f"{name} on {describe_device()}: it reads this run in {took_s:.2g} s, and each failure about {_READINGS} "
        f"times; by arithmetic {took_s * _READINGS * failures / 60:.1f} min for {failures} failures"
    )


def describe_device() -> str:
    """Name what models run on: `cpu`, or `cuda` with the GPU's name."""
    import torch

    return f"cuda ({torch.cuda.get_device_name()})" if torch.cuda.is_available() else "cpu"


def teach_language_model(
    name: str, runs: Sequence[RecordedRun], small: Mapping[str, Hits], folder: Path, *, seed: int = 0
) -> TaughtModel:
    """Teach the model *name* by labelled runs; the adapter is kept in *folder*. A killed call goes on where it was.

    Args:
        name: Folder or Hugging Face id.
        runs: With what is known of each: a fault, or that there is none.
        small: Of each failure, by trace id, what the small model names right that has not learnt its task.
        folder: Of the campaign.
        seed: Of what is left out, and every draw.

    Raises:
        ConfigError: if there are too few failures or tasks.
        TracerUnavailable: if the model cannot be loaded.
        BlamespanError: if memory or the disk ends.
    """
    from blamespan_lab.train.language_model import train_language_model

    recipe = make_team_recipe(name, runs, seed=seed)
    left_out = draw_left_out([run.trace.task for run in runs if run.faults], seed=seed)
    trained = train_language_model(recipe, folder, folder / recipe.name, runs, left_out)
    tasks = {run.trace.trace_id: run.trace.task for run in runs if run.trace.task in left_out}
    figures = compare_models(trained.held_out.named, small, tasks)
    return TaughtModel(trained.adapter, describe_device(), trained.wall_s, figures)


def draw_left_out(tasks: Sequence[str], *, seed: int = 0) -> frozenset[str]:
    """Draw tasks to measure on, until they hold enough failures; at most half of all tasks.

    Args:
        tasks: Of each failure.
        seed: Of the draw.
    """
    counts = Counter(tasks)
    order = np.random.default_rng(seed).permutation(len(counts)).tolist()
    drawn, wanted, found = [], max(_LEFT_OUT * len(tasks), FEWEST), 0
    for task in [sorted(counts)[index] for index in order][: len(counts) // 2]:
        if found >= wanted:
            break
        drawn.append(task)
        found += counts[task]
    return frozenset(drawn)


def make_team_recipe(name: str, runs: Sequence[RecordedRun], *, seed: int = 0) -> LanguageModelRecipe:
    """Return the bundled recipe, made smaller for a team's runs; its name is another where anything else is."""
    from blamespan_lab.train.language_model import LanguageModelRecipe

    bundled = read_recipe(LanguageModelRecipe, _RECIPE, RECIPES)
    failures = sum(bool(run.faults) for run in runs)
    generations = math.ceil(failures / bundled.grpo.batch_runs)
    recipe = replace(
        bundled,
        base=str(Path(name).resolve()) if Path(name).is_dir() else name,
        rank=_RANK,
        seed=seed,
        sft=replace(bundled.sft, epochs=_EPOCHS, batch_runs=_BATCH_RUNS),
        grpo=replace(bundled.grpo, updates=2 * generations),
    )
    known = sorted((run.trace.trace_id, run.trace.outcome, str(run.faults)) for run in runs)
    digest = hashlib.sha256(repr((asdict(recipe), known)).encode("utf-8", "surrogatepass")).hexdigest()
    return replace(recipe, name=f"language-model-{digest[:8]}")


def compare_models(taught: Mapping[str, Hits], small: Mapping[str, Hits], tasks: Mapping[str, str]) -> ModelFigures:
    """Compare two models on the failures that were left out.

    Args:
        taught: What the language model names right of each failure, by trace id. One that it cannot read it gets wrong.
        small: What the small one names right of each, and of those that were not left out.
        tasks: Of each run that was left out.

    Raises:
        ConfigError: if there is no such failure.
    """
    keys = sorted(set(small) & set(tasks))
    if not keys:
        raise ConfigError("expected failures that the small model has measured itself on, got none. Give more of them")
    hits = np.array([(*taught.get(key, Hits(False, False)), *small[key]) for key in keys], np.float64)
    step, agent, small_step, small_agent = ((percent(column), interval(column)) for column in hits.T.tolist())
    gain = interval((hits[:, 0] - hits[:, 2]).tolist())
    return ModelFigures(len(keys), len({tasks[key] for key in keys}), step, agent, small_step, small_agent, gain)
