"""The network as a tracer: reads a run as decisions and their relations, and says which decided it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from blamespan import __version__
from blamespan.attribution import Attribution, ModeBlame, TracerIdentity
from blamespan.errors import TracerUnavailable
from blamespan.taxonomy import mode
from blamespan.trace import MessageActionTrace
from blamespan_tracer.contracts import Verdict
from blamespan_tracer.lexical import LexicalTracer
from blamespan_tracer.lexicon import Lexicon
from blamespan_tracer.network.inputs import RunInputs, feature_names, read_runs, relations_of, words_of
from blamespan_tracer.network.model import Scores, StepInputs, Weights, mean_scores, scores_of
from blamespan_tracer.network.quotes import evidence_of
from blamespan_tracer.network.weights import Network
from blamespan_tracer.silence import why_silent

__all__ = ["Judgement", "NetworkTracer"]

BUNDLED = Path(__file__).parents[1] / "weights" / "network.safetensors"

WEIGHTS_VARIABLE = "BLAMESPAN_NETWORK_WEIGHTS"
"""Names a file of weights to use in place of the bundled ones, as `blamespan train --labels` writes it."""

WINDOW = 512
"""Most steps that attend to each other: longer runs are read in as many parts as it takes, so time stays linear."""

_MAX_MODES = 3
_LEAST_MODE = 0.2
"""A mode is named from this probability on; the likeliest always is."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the network says of one run.

    Dims: N merged steps, K modes.

    Attributes:
        shares: (N,) chance that the failure was decided at each, adding up to 1; 0 where nobody can be blamed.
        failed: Chance that the run failed by an agent's fault, 0..1.
        fault: (N,) chance that something is wrong there, decisive or not.
        modes: (N, K) chance of each mode there, if something is.
    """

    shares: Floats
    failed: float
    fault: Floats
    modes: Floats


class NetworkTracer:
    """Attributes runs by a network over their steps; see `blamespan_tracer.network.model`.

    - A step's share of the blame is the chance that the failure was decided there, given that it failed.
    - `failure_score` is the chance that the run failed by an agent's fault.
    - Where that is below `alarm`, and nobody knows the run to have failed, there is no verdict.

    Deterministic on a CPU: runs are read one at a time, so what shares a call cannot change a verdict.
    """

    def __init__(self, network: Network, lexicon: Lexicon) -> None:
        if network.features != feature_names(lexicon) or network.lexicon != lexicon.digest:
            raise TracerUnavailable(
                f"expected a network for this version and lexicon {lexicon.digest!r}, got one for "
                f"{network.lexicon!r} with {len(network.features)} features. Train it again"
            )
        self._network = network
        self._lexicon = lexicon
        self._identity = TracerIdentity("network", __version__, network.digest)
        self._modes = tuple(mode(name) for name in network.modes)

    @classmethod
    def bundled(cls) -> NetworkTracer:
        """Load the weights that came with the package.

        Raises:
            TracerUnavailable: if they are missing or damaged.
        """
        return cls(Network.load(BUNDLED), LexicalTracer.bundled().lexicon)

    @classmethod
    def in_use(cls) -> NetworkTracer:
        """Load the weights that `BLAMESPAN_NETWORK_WEIGHTS` names, else those that came with the package.

        Raises:
            TracerUnavailable: if they are missing or damaged.
        """
        said = os.environ.get(WEIGHTS_VARIABLE, "").strip()
        return cls(Network.load(Path(said).expanduser()), LexicalTracer.bundled().lexicon) if said else cls.bundled()

    @property
    def identity(self) -> TracerIdentity:
        """Name, version and weights digest."""
        return self._identity

    @property
    def network(self) -> Network:
        """What judges."""
        return self._network

    @property
    def lexicon(self) -> Lexicon:
        """What says what the words speak of."""
        return self._lexicon

    def attribute(self, traces: Sequence[MessageActionTrace]) -> list[Attribution]:
        """Attribute each run; one verdict per trace, in order."""
        silent = [why_silent(trace) for trace in traces]
        judged = [trace for trace, why in zip(traces, silent, strict=True) if why is None]
        readings = iter(read_runs(judged, self._lexicon, self._network.shape.n_buckets))
        return [
            Attribution.abstain(trace, why, self._identity)
            if why is not None
            else self._verdict(trace, *next(readings))
            for trace, why in zip(traces, silent, strict=True)
        ]

    def judge(self, run: RunInputs) -> Judgement:
        """Read one run."""
        parts = [self._scores(part) for part in _windows(run)]
        pointer = np.concatenate([part.pointer[0, :-1] for part in parts]) / self._network.temperature
        sound = np.mean([part.pointer[0, -1] for part in parts]) / self._network.temperature
        highest = max(float(pointer.max()), float(sound))
        powers = np.exp(pointer.astype(np.float64) - highest)
        mass = powers.sum()
        fault, modes = (np.concatenate([getattr(part, name)[0] for part in parts]) for name in ("fault", "modes"))
        return Judgement(
            shares=(powers / mass).astype(np.float32) if mass > 0 else run.can_be_blamed / run.can_be_blamed.sum(),
            failed=float(mass / (mass + np.exp(float(sound) - highest))),
            fault=_sigmoid(fault),
            modes=_sigmoid(modes),
        )

    def _scores(self, run: RunInputs) -> Scores:
        return mean_scores([self._scored(weights, run, _bags(weights, run)[None]) for weights in self._network.members])

    def _scores_with(self, run: RunInputs, task: str, step: int, texts: Sequence[str]) -> list[float]:
        """Score a step, within its part of the run, as if it said other words than its own."""
        start = step // WINDOW * WINDOW
        part = next(islice(_windows(run), step // WINDOW, None))
        words = words_of(task, texts, self._network.shape.n_buckets)
        found = []
        for weights in self._network.members:
            changed = np.repeat(_bags(weights, part)[None], len(texts), axis=0)
            changed[:, step - start] = _bags_of(weights, *words)
            found.append(self._scored(weights, part, changed))
        scores: list[float] = mean_scores(found).pointer[:, step - start].tolist()
        return scores

    def _scored(self, weights: Weights, run: RunInputs, bags: Floats) -> Scores:
        """Read one run as often as there are *bags*: (B, N, E)."""

        def times(part: NDArray[Any]) -> NDArray[Any]:
            return np.repeat(part[None], len(bags), axis=0)

        steps = StepInputs(
            times(self._network.scaled(run.features)),
            bags,
            times(relations_of(run)),
            times(np.ones(len(run), bool)),
            times(run.can_be_blamed),
        )
        return scores_of(weights, self._network.shape, steps)

    def _verdict(self, trace: MessageActionTrace, run: RunInputs, verdicts: Sequence[Verdict]) -> Attribution:
        found = self.judge(run)
        if found.failed < self._network.alarm and trace.outcome != "failed":
            return Attribution.abstain(
                trace,
                f"probably sound: failure score {found.failed:.2f} is below {self._network.alarm:.2f}",
                self._identity,
            )
        shares = np.zeros(run.n_steps)
        np.add.at(shares, run.lands_on[run.can_be_blamed], found.shares[run.can_be_blamed].astype(np.float64))
        return Attribution.of(
            trace,
            shares.tolist(),
            failure_score=found.failed,
            tracer=self._identity,
            modes=self._blamed_modes(trace, run, found),
            evidence=evidence_of(
                trace, run, (shares / shares.sum()).tolist(), verdicts, partial(self._scores_with, run, trace.task)
            ),
            coverage=self._network.set_mass,
        )

    def _blamed_modes(self, trace: MessageActionTrace, run: RunInputs, found: Judgement) -> list[ModeBlame]:
        """Name the modes of the most blamed agent: those of its steps, each by its share."""
        by_agent = np.bincount(run.agent, found.shares)
        worst = int(by_agent.argmax())
        own = np.where(run.agent == worst, found.shares, 0)
        chances = (own[:, None] * found.modes).sum(axis=0) / own.sum()
        ranked = np.argsort(-chances, kind="stable")[:_MAX_MODES]
        agent = trace.steps[run.origins[int(own.argmax())][0]].agent
        return [
            ModeBlame(self._modes[column], agent, float(chances[column]))
            for place, column in enumerate(ranked.tolist())
            if place == 0 or chances[column] >= _LEAST_MODE
        ]


def _windows(run: RunInputs) -> list[RunInputs]:
    """Part a long run, so that attention stays within each part."""
    if len(run) <= WINDOW:
        return [run]
    parts = []
    for start in range(0, len(run), WINDOW):
        end = min(start + WINDOW, len(run))
        kind, source, target = run.edges
        inside = (source >= start) & (source < end) & (target >= start) & (target < end)
        first, last = run.first_word[start], run.first_word[end]
        parts.append(
            RunInputs(
                features=run.features[start:end],
                words=run.words[first:last],
                first_word=run.first_word[start : end + 1] - first,
                edges=np.stack([kind, source - start, target - start])[:, inside],
                edge_weights=run.edge_weights[inside],
                agent=run.agent[start:end],
                can_be_blamed=run.can_be_blamed[start:end],
                origins=run.origins[start:end],
                lands_on=run.lands_on[start:end],
                n_steps=run.n_steps,
            )
        )
    return parts


def _bags(weights: Weights, run: RunInputs) -> Floats:
    return _bags_of(weights, run.words, run.first_word)


def _bags_of(weights: Weights, words: NDArray[np.int64], first_word: NDArray[np.int64]) -> Floats:
    """Sum up the word vectors of each text, by the root of how many there are, as training does: (N, E)."""
    table, counts = weights["words"], np.diff(first_word)
    bags = np.zeros((len(counts), table.shape[1]), np.float32)
    some = np.flatnonzero(counts)
    if len(some):
        bags[some] = np.add.reduceat(table[words], first_word[:-1][some], axis=0)
    return (bags / np.sqrt(np.maximum(counts, 1))[:, None]).astype(np.float32)


def _sigmoid(logits: Floats) -> Floats:
    chances: Floats = (0.5 * (1 + np.tanh(0.5 * logits))).astype(np.float32)
    return chances
