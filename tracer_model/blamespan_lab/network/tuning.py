"""Tune the network on what people say of their own runs: few labels, so small steps, and every figure cross-validated.

The labels are parted by task into folds. For each fold the network is tuned on the others, a part of which says when to
stop, and measured on the fold, which it has not seen: these are the figures after. Then it is tuned on all labels, for
as many passes as the folds took on average. Word vectors stay as they are, and the rest is held near to where it was:
a hundred labels must not undo what thousands of runs taught.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from blamespan.errors import ConfigError
from blamespan.importing.recorded import Fault, RecordedRun
from blamespan.labels.people import PersonLabel, step_of
from blamespan.taxonomy import mode
from blamespan_lab.network.calibrating import Pointed, blamed, mass_ahead, mass_holding, temperature_of
from blamespan_lab.network.examples import SOUND, NetworkExample, examples_of, scaled_examples
from blamespan_lab.network.fitting import predict_together
from blamespan_lab.network.fitting_prose import tune_prose
from blamespan_lab.network.objectives import batches, supervised_losses, targets_of
from blamespan_lab.recorded_runs import is_held_out
from blamespan_lab.statistics import consensus, interval, percent
from blamespan_tracer.lexicon import Lexicon
from blamespan_tracer.network.model import forward
from blamespan_tracer.network.prose_expert import ProseExpert
from blamespan_tracer.network.torch_inference import pad
from blamespan_tracer.network.weights import Network
from blamespan_tracer.numeric import pointer_shares

__all__ = ["LEAST_FAILURES", "Tuned", "agreed_run", "tune"]

LEAST_FAILURES = 30
"""Labelled failures that tuning needs: of fewer, a fold holds too few to tell better from worse."""

_FOLDS = 5
_STOPPING_PERCENT = 20
_PASSES = 12
_PATIENCE = 3
_RATE = 1e-4
"""A tenth of what the network was trained at; at a third of this a hundred labels hardly moved it."""
_WORD_KEEP = 0.7
"""Share of the words read in training, as when the network was trained."""
_HOLD = 1e-2
"""Weight of the squared distance from where the weights were."""
_SIGMA = 0.4
_MOST_RUNS = 16
_PARTS = {"pointer": 1.0, "agent": 0.5, "fault": 0.5, "modes": 0.3}

_log = logging.getLogger(__name__)

Weights: TypeAlias = dict[str, Tensor]
Members: TypeAlias = tuple[Weights, ...]


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning made of a network.

    Attributes:
        network: The tuned one; not yet saved.
        failures: Labelled failures it was tuned and measured on.
        sound: Labelled runs without a failure.
        before: Percent of failures whose labelled step the network named as it was.
        before_interval: 95 %.
        after: The same after tuning, on labels that the tuning had not seen.
        after_interval: 95 %.
        mended: Failures that only the tuned one gets right, and
        broken: only the one before.
        passes: Over the labels.
    """

    network: Network
    failures: int
    sound: int
    before: float
    before_interval: tuple[float, float]
    after: float
    after_interval: tuple[float, float]
    mended: int
    broken: int
    passes: int


def agreed_run(run: RecordedRun, labels: Sequence[PersonLabel]) -> RecordedRun | None:
    """Label a run as most people do who labelled it.

    Returns:
        The run with that fault, or without any where it did not fail; None where people disagree, are unsure, or name a
        step that it does not have.
    """
    sides = [label.outcome == "success" or label.answer == "no_agent" for label in labels if label.outcome is not None]
    is_sound = consensus(sides)
    if is_sound is None:
        return None
    if is_sound:
        return replace(run, faults=(), origin=None)
    indices = [named.index for label in labels if (named := step_of(label, run.trace)) is not None]
    step = consensus(indices)
    if step is None:
        return None
    names = [name for label in labels if label.decisive for name in label.decisive.modes]
    agreed = consensus(names) or next(iter(names), None)
    fault = Fault(run.trace.steps[step].agent, mode(agreed) if agreed else None, step)
    return replace(run, faults=(fault,), origin=None)


def tune(network: Network, runs: Sequence[RecordedRun], lexicon: Lexicon, *, seed: int = 0) -> Tuned:
    """Tune *network* on labelled runs.

    Args:
        network: Where to begin.
        runs: With labels, as `agreed_run` gives them.
        lexicon: The one that the network was trained with.
        seed: Of the folds and every draw.

    Raises:
        ConfigError: if there are too few failures, or all are of so few tasks that none can be held out.
    """
    unscaled = examples_of(runs, lexicon, network.vocabulary, network.features)
    examples = scaled_examples(unscaled, network.mean, network.spread)
    failures = [example for example in examples if example.decisive >= 0]
    if len(failures) < LEAST_FAILURES:
        raise ConfigError(
            f"expected at least {LEAST_FAILURES} labelled failures whose step the runs have, got {len(failures)}. "
            "Label more with: blamespan annotate TRACES"
        )
    torch.set_num_threads(1)
    start = tuple(
        {name: torch.from_numpy(value.copy()) for name, value in example.items()} for example in network.ensemble
    )
    folds = _folds(examples, seed)
    if len(folds) < 2:
        raise ConfigError(
            "expected labels on runs of several tasks, got one task: nothing could be held out to measure on. "
            "Label runs of other tasks, too"
        )
    before = _Blamed.of(failures, start, network.prose_expert, network)
    after: dict[int, _Blamed] = {}
    passes: list[float] = []
    for number, fold in enumerate(folds):
        tuned, taken = _tune_without(examples, fold, start, network, seed + number)
        passes.append(taken)
        measured = [example for example in fold if example.decisive >= 0]
        measured_ids = {id(example) for example in measured}
        judge = _tune_judge(network.prose_expert, [example for example in failures if id(example) not in measured_ids])
        verdicts = _Blamed.of(measured, tuned, judge, network)
        after |= {id(example): blamed for example, blamed in zip(measured, verdicts, strict=True)}
        _log.info("fold %d of %d: %.0f passes, %d failures measured", number + 1, len(folds), taken, len(measured))
    most = round(float(np.mean(passes)))
    final = _fit(examples, [], start, network, seed, most)[0] if most else start
    judge = _tune_judge(network.prose_expert, failures)
    return _compare(network, examples, before, [after[id(example)] for example in failures], final, judge, most)


@dataclass(frozen=True, slots=True)
class _Blamed:
    """What is said of a labelled failure: the network's scores, and whom it and the second judge blame together."""

    example: NetworkExample
    pointed: Pointed
    judge: ProseExpert | None

    @classmethod
    def of(
        cls, failures: Sequence[NetworkExample], members: Members, judge: ProseExpert | None, network: Network
    ) -> list[_Blamed]:
        scores = predict_together(failures, members, network.shape)
        return [
            cls(example, Pointed(score.pointer.double().numpy(), example.decisive), judge)
            for example, score in zip(failures, scores, strict=True)
        ]

    def shares(self, temperature: float) -> NDArray[np.float64]:
        inputs = self.example.inputs
        shares, _ = pointer_shares(self.pointed.scores, temperature)
        if self.judge is None:
            return shares
        return self.judge.mix(inputs, shares.astype(np.float32)).astype(np.float64)

    def is_right(self, temperature: float) -> bool:
        """Return whether its step is the most blamed one of the most blamed agent."""
        return blamed(self.example.inputs.agent, self.shares(temperature))[1] == self.example.decisive


def _tune_judge(judge: ProseExpert | None, failures: Sequence[NetworkExample]) -> ProseExpert | None:
    return None if judge is None else tune_prose(judge, failures)


def _folds(examples: Sequence[NetworkExample], seed: int) -> list[list[NetworkExample]]:
    """Part runs by task, so that no task is on both sides; equal in size as far as tasks allow."""
    by_task: dict[str, list[NetworkExample]] = {}
    for example in examples:
        by_task.setdefault(example.group, []).append(example)
    order = np.random.default_rng(seed).permutation(len(by_task))
    tasks = [list(by_task.values())[row] for row in order]
    folds: list[list[NetworkExample]] = [[] for _ in range(min(_FOLDS, len(tasks)))]
    for task in sorted(tasks, key=len, reverse=True):
        min(folds, key=len).extend(task)
    return [fold for fold in folds if any(example.decisive >= 0 for example in fold)]


def _tune_without(
    examples: Sequence[NetworkExample], fold: Sequence[NetworkExample], start: Members, network: Network, seed: int
) -> tuple[Members, float]:
    """Tune on all but *fold*; a part of these says after how many passes to stop."""
    outside = {id(example) for example in fold}
    rest = [example for example in examples if id(example) not in outside]
    stopping = [example for example in rest if is_held_out(example.group, percent=_STOPPING_PERCENT, seed=seed)]
    chosen = {id(example) for example in stopping}
    fitted = [example for example in rest if id(example) not in chosen]
    if not stopping or not fitted:
        return start, 0.0
    return _fit(fitted, stopping, start, network, seed, _PASSES)


def _fit(
    fitted: Sequence[NetworkExample],
    stopping: Sequence[NetworkExample],
    start: Members,
    network: Network,
    seed: int,
    passes: int,
) -> tuple[Members, float]:
    """Tune each member by itself; give how many passes they took on average."""
    tuned = [
        _fit_one(fitted, stopping, weights_of_member, network, seed=seed + number, passes=passes)
        for number, weights_of_member in enumerate(start)
    ]
    return tuple(weights for weights, _ in tuned), sum(taken for _, taken in tuned) / len(tuned)


def _fit_one(
    fitted: Sequence[NetworkExample],
    stopping: Sequence[NetworkExample],
    start: Weights,
    network: Network,
    *,
    seed: int,
    passes: int,
) -> tuple[Weights, int]:
    """Take small steps from *start*; keep the weights that explain *stopping* best, or the last ones without any."""
    weights = {name: value.clone().requires_grad_(name != "embedding") for name, value in start.items()}
    moved = [name for name in weights if name != "embedding"]
    optimizer = torch.optim.AdamW([weights[name] for name in moved], lr=_RATE, weight_decay=0.0)
    rng, generator = np.random.default_rng(seed), torch.Generator().manual_seed(seed)
    best, best_loss, best_pass = start, _loss(stopping, start, network), 0
    for number in range(1, passes + 1):
        for part in batches(fitted, rng, _MOST_RUNS):
            loss = _batch_loss(part, weights, network, generator)
            loss = loss + _HOLD * sum(((weights[name] - start[name]) ** 2).sum() for name in moved)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_([weights[name] for name in moved], 1.0)
            optimizer.step()
        now = {name: value.detach().clone() for name, value in weights.items()}
        reached = _loss(stopping, now, network)
        if not stopping or reached < best_loss:
            best, best_loss, best_pass = now, reached, number
        elif number - best_pass >= _PATIENCE:
            break
    return {name: value.half().float() for name, value in best.items()}, best_pass


def _batch_loss(
    part: Sequence[NetworkExample],
    weights: Mapping[str, Tensor],
    network: Network,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Compute the loss by labels; with a *generator*, that of training, which leaves words out."""
    padded = pad([example.inputs for example in part])
    steps = padded.steps(weights, word_keep=_WORD_KEEP if generator else 1.0, generator=generator)
    scores = forward(weights, network.shape, steps)
    losses = supervised_losses(scores, targets_of(part), padded, sigma=_SIGMA)
    return sum((losses[name] * weight for name, weight in _PARTS.items()), torch.zeros(()))


@torch.no_grad()
def _loss(examples: Sequence[NetworkExample], weights: Mapping[str, Tensor], network: Network) -> float:
    """Mean over runs; 0 for none."""
    parts = list(batches(examples, np.random.default_rng(0), _MOST_RUNS)) if examples else []
    total = sum(float(_batch_loss(part, weights, network)) * len(part) for part in parts)
    return total / max(1, len(examples))


def _compare(
    network: Network,
    examples: Sequence[NetworkExample],
    before: Sequence[_Blamed],
    after: Sequence[_Blamed],
    members: Members,
    judge: ProseExpert | None,
    passes: int,
) -> Tuned:
    """Compare before and after on labels not seen, and calibrate on the same."""
    temperature = temperature_of([example.pointed for example in after]) if passes else network.temperature
    old = [example.is_right(network.temperature) for example in before]
    new = [example.is_right(temperature) for example in after]
    mass = network.set_mass
    if passes or judge is not None:
        ahead = [mass_ahead(example.shares(temperature), example.example.decisive) for example in after]
        mass = mass_holding(ahead, 100 * network.coverage)
    notes = {**network.notes, "tuned_from": network.digest, "labels": str(len(examples)), "passes": str(passes)}
    tuned = replace(
        network,
        ensemble=tuple({name: value.numpy() for name, value in weights.items()} for weights in members),
        temperature=temperature,
        set_mass=mass,
        prose_expert=None if judge is None else replace(judge, set_mass=np.array([mass], np.float32)),
        notes=notes,
        digest="",
    )
    return Tuned(
        tuned,
        len(before),
        sum(example.decisive == SOUND for example in examples),
        percent(old),
        interval(old),
        percent(new),
        interval(new),
        sum(now and not then for then, now in zip(old, new, strict=True)),
        sum(then and not now for then, now in zip(old, new, strict=True)),
        passes,
    )
